"""`select`: the picks of brute force from files, and one clear line for every bad one."""

import json

import numpy as np
import pytest
from brute_force import max_min_picks

from apod.errors import InputError
from apod.maxmin import Coverage, Pick, SelectResult, select


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(2)
    arrays = {
        "embeddings": rng.standard_normal((300, 5)).astype(np.float32),
        "answered": np.array([3, 8, 120]),
        "labels": rng.integers(2, size=300),
        "groups": rng.choice(["a", "b"], size=300),
    }
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    return tmp_path, arrays


def test_picks_from_files_are_brute_forces(files):
    folder, arrays = files
    result = select(folder / "embeddings.npy", folder / "answered.npy", 7)
    expected = max_min_picks(arrays["embeddings"], arrays["answered"], np.ones(300, bool), 7)
    assert [(pick.row, pick.distance) for pick in result.picks] == expected
    assert result.seconds > 0
    assert result.loading_seconds > 0
    assert 2 <= result.passes <= 10


@pytest.mark.parametrize("subgroup", ["a,1", ("a", 1), ("a", "1.0")])
def test_a_subgroup_limits_the_picks_but_not_the_answers(files, subgroup):
    folder, arrays = files
    mask = (arrays["groups"] == "a") & (arrays["labels"] == 1)
    expected = max_min_picks(arrays["embeddings"], arrays["answered"], mask, 7)
    paths = {name: folder / f"{name}.npy" for name in ("labels", "groups")}
    result = select(folder / "embeddings.npy", folder / "answered.npy", 7, subgroup=subgroup, **paths)
    assert [(pick.row, pick.distance) for pick in result.picks] == expected


@pytest.mark.parametrize("storage", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_storage_and_memory_order_change_no_pick(storage, order, tmp_path):
    matrix = np.asarray(np.random.default_rng(0).standard_normal((500, 4)), dtype=storage, order=order)
    np.save(tmp_path / "m.npy", matrix)
    result = select(tmp_path / "m.npy", [0], 20)
    assert [(p.row, p.distance) for p in result.picks] == max_min_picks(matrix, [0], np.ones(500, bool), 20)


def test_json_has_rows_distances_time_and_passes():
    result = SelectResult((Pick(4, np.inf), Pick(2, 1.5)), 0.1, 0.2, 3)
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False)) == {
        "picks": [{"row": 4, "distance": None}, {"row": 2, "distance": 1.5}],
        "seconds": 0.1,
        "loading_seconds": 0.2,
        "passes": 3,
    }


def test_fewer_picks_when_the_candidates_run_out():
    assert [pick.row for pick in select(np.eye(3), [1], 50).picks] == [0, 2]
    assert select(np.eye(3), [0, 1, 2], 50).picks == ()


BAD_FILES = {
    "cut off": lambda path, content: path.write_bytes(content[:-10]),
    "longer than its header": lambda path, content: path.write_bytes(content + b"12"),
    "not a .npy file": lambda path, content: path.write_bytes(b"row,x\n1,2\n" * 30),
    "There is no file": lambda path, content: path.unlink(),
    "holds Python objects": lambda path, content: np.save(path, np.array([{}, None]), allow_pickle=True),
    r"shape \(300,\)": lambda path, content: np.save(path, np.zeros(300)),
    r"shape \(3, 2, 2\)": lambda path, content: np.save(path, np.zeros((3, 2, 2))),
    r"shape \(0, 5\)": lambda path, content: np.save(path, np.zeros((0, 5))),
    "are int64": lambda path, content: np.save(path, np.zeros((300, 5), int)),
}


@pytest.mark.parametrize("message", BAD_FILES)
def test_a_bad_embedding_file_is_refused(files, message):
    path = files[0] / "embeddings.npy"
    BAD_FILES[message](path, path.read_bytes())
    with pytest.raises(InputError, match=message) as caught:
        select(path, [3], 2)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"answered": [300]}, "Row 300 is not in the matrix: rows go from 0 to 299"),
        ({"answered": [-1]}, "Row -1 is not in the matrix"),
        ({"answered": [1.5]}, r"1\.5 is not a row number"),
        ({"answered": np.array([1.0])}, "pass a list of row numbers"),
        ({"answered": np.zeros(300, bool)}, "pass a list of row numbers"),
        ({"k": 0}, "k is 0"),
        ({"labels": np.zeros(299), "groups": np.zeros(300), "subgroup": "0,0"}, "labels have shape"),
        ({"labels": np.zeros(300), "groups": np.zeros(301), "subgroup": "0,0"}, "groups have shape"),
        ({"labels": np.zeros(300), "groups": np.zeros(300)}, "needs three things"),
        ({"subgroup": "0,0"}, "needs three things"),
        ({"labels": np.zeros(300), "groups": np.zeros(300), "subgroup": "0"}, "1 parts"),
        ({"labels": np.zeros(300), "groups": np.zeros(300), "subgroup": "0,7"}, "No row is in the subgroup"),
        ({"labels": np.zeros(300), "groups": np.zeros(300), "subgroup": "x,0"}, "No row is in the subgroup"),
    ],
)
def test_what_does_not_fit_the_embeddings_is_refused(given, message):
    with pytest.raises(InputError, match=message) as caught:
        select(np.zeros((300, 2)), **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("names", [np.arange(300) * 7 + 5, np.array([f"p{row:03d}" for row in range(300)])[::-1]])
def test_ids_stand_for_rows_going_in_and_coming_out(files, tmp_path, names):
    folder, arrays = files
    np.save(tmp_path / "ids.npy", names)
    np.save(tmp_path / "told.npy", names[arrays["answered"]])
    by_row = select(folder / "embeddings.npy", folder / "answered.npy", 7)
    by_id = select(folder / "embeddings.npy", tmp_path / "told.npy", 7, ids=tmp_path / "ids.npy")
    assert by_id.picks == by_row.picks
    assert by_id.ids == tuple(names[[pick.row for pick in by_row.picks]].tolist())
    assert [pick["id"] for pick in json.loads(json.dumps(by_id.to_dict()))["picks"]] == list(by_id.ids)
    assert "id" not in by_row.to_dict()["picks"][0]


@pytest.mark.parametrize(
    ("ids", "answered", "message"),
    [
        (np.arange(299), [3], r"ids of shape \(299,\) and 300 rows"),
        (np.arange(300) // 2, [3], r"The id 0 stands for more than one row \(150 such\)"),
        (np.arange(300.0), [3], "The ids are float64"),
        (np.arange(300), [3, 300, 999], r"2 answered id\(s\) are not among the pool's, the first is 300"),
        (np.arange(300), ["3"], "The answered ids are <U1 and the pool's int64"),
        (np.arange(300), np.array([[3]]), r"answered ids have shape \(1, 1\)"),
    ],
)
def test_ids_that_do_not_match_are_refused(files, ids, answered, message):
    with pytest.raises(InputError, match=message) as caught:
        select(files[1]["embeddings"], answered, 2, ids=ids)
    assert "\n" not in str(caught.value)


def test_an_array_in_memory_is_no_storage():
    with pytest.raises(InputError, match="reads embeddings from storage"):
        select(np.eye(3), engine=lambda path: None)


def test_an_engine_that_sees_another_pool_is_refused(tmp_path):
    np.save(tmp_path / "m.npy", np.eye(5))
    with pytest.raises(InputError, match="The engine sees 3 rows and this machine 5"):
        select(tmp_path / "m.npy", engine=lambda path: Coverage(np.eye(3)))
