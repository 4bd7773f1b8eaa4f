"""Self-report over the web: no session, a secret of its own, and nothing without it."""

from __future__ import annotations

from web_people import GROUPS, House


def test_a_person_reads_answers_once_and_withdraws_by_the_code(house: House) -> None:
    person = house.stranger()
    person.headers["X-Apod"] = "1"
    (link,) = house.campaign.owner.self_reports.invite([3])
    told = person.post("/api/v1/self-report/form", json={"token": link.token}).json()
    assert (told["groups"], told["legal_basis"]) == (list(GROUPS), "Consent, Art. 9(2)(a)")
    body = {"token": link.token, "answer": GROUPS[1]}
    receipt = person.post("/api/v1/self-report", json=body).json()["receipt"]
    assert person.post("/api/v1/self-report", json=body).status_code == 401
    assert person.post("/api/v1/self-report/form", json={"token": link.token}).status_code == 401
    assert house.campaign.status().by_kind == {"self_reported": 1}
    assert house.owner().get("/api/v1/access").status_code == 200
    assert person.post("/api/v1/self-report/withdrawal", json={"receipt": receipt}).json() == {"withdrawn": True}
    assert person.post("/api/v1/self-report/withdrawal", json={"receipt": receipt}).status_code == 401
    assert house.campaign.owner.answers() == ()


def test_without_the_header_or_with_another_link_nothing_is_taken(house: House) -> None:
    (link,) = house.campaign.owner.self_reports.invite([3])
    person = house.stranger()
    for path, body in (
        ("/form", {"token": link.token}),
        ("", {"token": link.token, "answer": GROUPS[0]}),
        ("/withdrawal", {"receipt": "0" * 24}),
    ):
        assert person.post(f"/api/v1/self-report{path}", json=body).json()["error"]["code"] == "csrf"
    person.headers["X-Apod"] = "1"
    for token in ("nonsense", house.link("maria"), f"{link.token}x"):
        assert person.post("/api/v1/self-report", json={"token": token, "answer": GROUPS[0]}).status_code == 401
    assert person.post("/api/v1/session", json={"token": link.token}).status_code == 401
    assert person.get("/self-report").status_code == 200
    assert house.campaign.owner.self_reports.form(link.token) is not None
