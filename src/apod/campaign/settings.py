"""What a campaign is told when it is created, checked once: settings, method, scores of a model elsewhere."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, date, datetime
from typing import Any, Literal

from apod.campaign.state import CANNOT_TELL, DECLINED
from apod.data.dataset import MOST_GROUPS, LabelValue, check_group_count
from apod.errors import ApodError, BudgetError, InputError
from apod.fairness.criterion import parse_criterion
from apod.method import checks
from apod.method.checks import check_posterior_size
from apod.method.settings import PRESETS, RENAMED, SETTINGS, SHARED, Settings, settings_from

Kind = Literal["self_reported", "records", "perceived"]
KINDS: tuple[Kind, ...] = ("self_reported", "records", "perceived")
"""Where an answer comes from, the most trustworthy first: the person, a record, somebody else's eyes."""

NAME_LIMIT = 200
TEXT_LIMIT = 100_000
LONGEST_LEASE = 366 * 86_400
MOST = 1_000_000_000
WARNED_DAYS = 14
"""So many days before answers are to be erased, status and dashboard say so."""


@dataclass(frozen=True)
class Attribute:
    """Something that is asked about every person, and the groups it has, in the order of their keys."""

    name: str
    groups: tuple[str, ...] = field(repr=False)


GROUP_NAME = "group"
"""What the attribute is called where there is one and nobody named it."""

MOST_ATTRIBUTES = 6
"""More would fit neither a page nor anybody's patience."""

TAKEN_NAMES = (
    *("row", "id", "annotator", "outcome", "group", "kind", "purpose", "probability", "counted", "late", "question"),
    *("asked_at", "answered_at", "case"),
)
"""What else the files that answers come and go in have."""


@dataclass(frozen=True)
class CampaignSettings:
    """The rules of a campaign; they stand in its log's first event."""

    name: str
    groups: tuple[str, ...]
    budget: int  # answers, all annotators together
    overlap: int = 1  # people asked about each row
    lease_seconds: float = 1800.0
    unanswered_costs: bool = True  # whether "cannot tell" and "declined" are paid from the budget
    kind: Kind = "perceived"
    gold_every: int = 10  # one question in so many is a gold one, while there are any
    lookahead: int = 128  # proposals kept ready, best first; the rest serve only while a refit takes long
    audit_share: float = 0.0  # of all questions, asked about people held out at random: they measure, never train
    verify_share: float = 0.0  # of all questions, asked about people whose decision the correction changes
    least_gain: float = 0.0  # pauses once the rest of the budget is expected to gain less; 0 = never
    seed: int = 0
    guidelines: str | None = None
    legal_basis: str | None = None
    purpose: str | None = None  # what the person concerned is told before a self-report; by default the guidelines
    question: str | None = None  # what annotators are asked; by default a sentence that goes with the kind
    descriptions: Mapping[str, str] = field(default_factory=dict)  # column -> what it means, shown beside it
    criterion: str | None = None  # what must hold at the end, as "gap <= 0.05"; changes only with a reason
    keep_until: str | None = None  # the day, as 2027-06-30, from which answers are to be erased
    label_names: tuple[str, str] = ("0", "1")
    label_values: tuple[LabelValue, LabelValue] | None = None  # with their types; None: of an earlier version, texts
    show: tuple[str, ...] = ()  # columns an annotator sees
    show_label: bool = False
    image_column: str | None = None
    image_root: str | None = None
    engine: Mapping[str, object] = field(default_factory=dict)  # options for the engine, JSON
    attributes: tuple[
        Attribute, ...
    ] = ()  # all that are asked about, the first with `groups`; none: one without a name

    @property
    def asked(self) -> tuple[Attribute, ...]:
        """What is asked about a person, named or not."""
        return self.attributes or (Attribute(GROUP_NAME, self.groups),)

    @property
    def columns(self) -> tuple[str, ...]:
        """What the attributes are called in files of answers; none where there is one, whose column is `group`."""
        return tuple(one.name for one in self.attributes) if len(self.attributes) > 1 else ()

    def place_of(self, attribute: str) -> int:
        """Which of them has this name; InputError where none has."""
        names = [one.name for one in self.asked]
        if composed(attribute) not in names:
            raise InputError(f"This campaign does not ask about {attribute[:40]!r}, but about {', '.join(names)}.")
        return names.index(composed(attribute))

    @property
    def method(self) -> Settings | None:
        """The method that the package's own engine follows; None where the options are another engine's."""
        if not SETTINGS.keys() | RENAMED.keys() | {"preset"} >= self.engine.keys():
            return None
        try:
            return settings_of(self.engine)
        except ApodError:
            return None

    @property
    def preset(self) -> str | None:
        """Which preset that is; heads is what `default` meant before a model was corrected."""
        if self.method is None:
            return None
        preset = str(self.engine.get("preset", "default"))
        return "heads" if preset == "default" and not self.method.corrects else preset

    @property
    def selector(self) -> str | None:
        """By which rule the package's own engine chooses whom to ask."""
        return None if self.method is None else self.method.selector

    def to_json(self) -> dict[str, object]:
        """As plain JSON."""
        found = asdict(self)
        if not self.attributes:  # as it was before there could be several
            del found["attributes"]
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CampaignSettings:
        """The settings a campaign was created with; what a later version added is left at its default."""
        known = {item.name for item in fields(cls)}
        values = {key: value for key, value in data.items() if key in known}
        for name in ("groups", "label_names", "label_values", "show"):
            if values.get(name) is not None:
                values[name] = tuple(values[name])
        named = values.get("attributes") or ()
        values["attributes"] = tuple(Attribute(one["name"], tuple(one["groups"])) for one in named)
        return cls(**values)

    def with_changes(self, changes: Mapping[str, Any]) -> CampaignSettings:
        """The settings as the owner changed them since."""
        return replace(self, **changes) if changes else self

    def reminders(self) -> tuple[str, ...]:
        """What is missing and should not be, in a sentence each."""
        found = []
        if not self.legal_basis:
            found.append("No legal basis is recorded: group answers are special-category data; say why you may ask.")
        if not self.guidelines:
            found.append("No guidelines are recorded: annotators decide for themselves what the groups mean.")
        if self.keep_until is not None:
            left = (date.fromisoformat(self.keep_until) - datetime.now(UTC).date()).days
            if left <= WARNED_DAYS:
                when = f"since {self.keep_until}" if left <= 0 else f"on {self.keep_until}, in {left} days"
                found.append(f"Answers are to be erased {when}: apod campaign expire.")
        return tuple(found)


def settings_of(options: Mapping[str, object]) -> Settings:
    """The engine's options (preset, selector, strengths, ...) as settings with one trajectory.

    A campaign keeps the method it was created with: options that name no body come from a version that had nothing but
    heads.
    """
    if "least_gain" in options:
        raise InputError("The least gain is the campaign's own setting: least_gain=, not an option of its engine.")
    return settings_from({"body": "contrastive", **options}, trajectories=SHARED)


def checked(settings: CampaignSettings, rows: int) -> CampaignSettings:
    """The settings with cleaned names, or an error that says what to change. `rows` is the size of the pool."""
    groups = _checked_groups(settings.groups)
    attributes = _checked_attributes(settings.attributes)
    if not _is_whole(settings.budget) or settings.budget < 1:
        raise BudgetError(f"The budget is {settings.budget!r}: give a whole number of answers, at least 1.")
    for name in ("overlap", "gold_every", "lookahead"):
        value = getattr(settings, name)
        if not _is_whole(value) or not 1 <= value <= MOST:
            raise InputError(f"{name} is {value!r}: give a whole number from 1 to {MOST}.")
    if not _is_whole(settings.seed):
        raise InputError(f"The seed is {settings.seed!r}: give a whole number.")
    if settings.budget > rows * settings.overlap:
        raise BudgetError(
            f"A budget of {settings.budget} answers with overlap {settings.overlap} does not fit {rows} rows: "
            "ask for fewer answers, or several per row (overlap)."
        )
    check_lease("lease_seconds", settings.lease_seconds)
    share = settings.audit_share
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
        raise InputError(f"The audit share is {share!r}: give a number from 0 (no audit) to below 1, like 0.2.")
    checks.verify_share(settings.verify_share)
    if share + settings.verify_share >= 1:
        raise InputError(f"Nothing is left to train on: audit and verification take {share + settings.verify_share:g}.")
    SETTINGS["least_gain"].check("The least gain", settings.least_gain)
    check_kind(settings.kind)
    checked_changes(
        settings, {name: getattr(settings, name) for name in ("guidelines", "legal_basis", "purpose", "question")}
    )
    kept = checked_changes(settings, {name: getattr(settings, name) for name in ("criterion", "keep_until")})
    values = {item.name: getattr(settings, item.name) for item in fields(settings)} | kept
    cleaned = {"name": clean_name("campaign name", settings.name), "groups": groups, "attributes": attributes}
    return CampaignSettings(**{**values, **cleaned})


def _checked_groups(names: Sequence[str], of: str = "A campaign") -> tuple[str, ...]:
    groups = tuple(clean_name("group name", group) for group in names)
    if len(groups) < 2 or len(set(groups)) != len(groups):
        raise InputError(f"{of} needs at least two groups with different names.")
    check_group_count(len(groups))
    if {CANNOT_TELL, DECLINED} & set(groups):
        raise InputError(f"{CANNOT_TELL!r} and {DECLINED!r} are answers of their own: give the group another name.")
    return groups


def _checked_attributes(given: Sequence[Attribute]) -> tuple[Attribute, ...]:
    names = [clean_name("attribute's name", one.name).strip() for one in given]
    if len({name.casefold() for name in names}) != len(names):
        raise InputError("Two attributes have the same name: rename one.")
    if len(names) > MOST_ATTRIBUTES:
        raise InputError(f"{len(names)} attributes are too many for one page: ask about {MOST_ATTRIBUTES} at most.")
    for name in names:
        if "=" in name or "," in name or (len(names) > 1 and name.casefold() in TAKEN_NAMES):
            raise InputError(
                f"An attribute cannot be called {name[:40]!r}: choose a word without = and commas, like sex."
            )
    groups = [_checked_groups(one.groups, f"The attribute {name!r}") for name, one in zip(names, given, strict=True)]
    return tuple(map(Attribute, names, groups))


REVISABLE = ("guidelines", "legal_basis", "purpose", "question", "kind", "descriptions", "criterion", "keep_until")
"""Settings that the owner may change while a campaign runs."""


def checked_changes(settings: CampaignSettings, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes to settings as they are stored, or an error that says what to change; an empty text means none."""
    found: dict[str, Any] = {}
    for name, value in changes.items():
        if name not in REVISABLE:
            raise InputError(f"{name[:40]!r} cannot be changed: {', '.join(REVISABLE)} can.")
        if name == "kind":
            check_kind(value)
            found[name] = value
        elif name == "criterion":
            found[name] = parse_criterion(value).text if value else None
        elif name == "keep_until":
            found[name] = _day(value) if value else None
        elif name == "descriptions":
            unknown = sorted(set(value) - set(settings.show))
            if unknown:
                raise InputError(f"Annotators see no column {unknown[0][:40]!r}: describe one that is shown.")
            found[name] = {column: _text(f"description of {column!r}", text) for column, text in value.items() if text}
        else:
            found[name] = _text(name.replace("_", " "), value) if value else None
    return found


def _day(text: str) -> str:
    """A day as 2027-06-30; InputError where it is none, or none that is to come."""
    try:
        day = date.fromisoformat(text)
    except (TypeError, ValueError):
        raise InputError(f"{text!r} is no day: write it as 2027-06-30.") from None
    if day <= datetime.now(UTC).date():
        raise InputError(f"{text} is past: name a day to come, from which answers are to be erased.")
    return day.isoformat()


def _text(what: str, text: str) -> str:
    if len(text) > TEXT_LIMIT:
        raise InputError(f"The {what} has {len(text)} characters: keep it below {TEXT_LIMIT}.")
    return clean_text(what, text)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def check_lease(what: str, seconds: object) -> None:
    """Refuse a time that no question can be held for: it must end, and not before anybody can answer."""
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not 0.001 <= seconds <= LONGEST_LEASE:  # type: ignore[operator]
        raise InputError(f"{what} is {seconds!r}: give seconds from 0.001 to {LONGEST_LEASE} (a year).")


def check_kind(kind: str) -> str:
    """The kind of an answer; refused where it does not exist."""
    if kind not in KINDS:
        raise InputError(f"{str(kind)[:40]!r} is not a kind of answer: use one of {', '.join(KINDS)}.")
    return kind


def clean_name(what: str, name: object) -> str:
    """A name as it is stored (Unicode NFC), or an error: names are short, visible and can be written as UTF-8."""
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"The {what} is empty: give it a text.")
    if len(name) > NAME_LIMIT:
        raise InputError(f"The {what} has {len(name)} characters: keep it below {NAME_LIMIT}.")
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
        raise InputError(f"The {what} holds a control character or half a character: leave it out.")
    return composed(name)


def clean_key(key: str | None) -> str | None:
    """An idempotency key as it is stored."""
    return None if key is None else clean_name("idempotency key", key)


def composed(text: str) -> str:
    """A text in the form in which names are stored and compared (Unicode NFC)."""
    return unicodedata.normalize("NFC", text)


def clean_text(what: str, text: str) -> str:
    """A longer text that any database can hold."""
    if "\x00" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise InputError(f"The {what} hold a NUL or half a character: leave it out.")
    return text


@dataclass(frozen=True)
class Shape:
    """What of a pool decides which methods are possible."""

    rows: int
    columns: int
    groups: int
    embedding: bool  # the columns are embeddings, rather than those of a table
    scored: bool  # scores were given
    attributes: int = 1
    intersections: int = 0  # of the groups of several attributes


def own_options(
    options: Mapping[str, object], least_gain: float, pool: Shape, verify_share: float = 0.0
) -> dict[str, object]:
    """The options of the package's own engine as they are kept: with the method that they mean today.

    Refuses what the engine could not be built with or do, before anything is written.
    """
    for old in RENAMED.keys() & options.keys():
        warnings.warn(f"{old!r} is now called {RENAMED[old]!r}: use that.", FutureWarning, stacklevel=5)
    options = {RENAMED.get(name, name): value for name, value in options.items()}
    kept = {**options, "body": _body(options, pool)}
    chosen = settings_of(kept)
    if pool.attributes > 1:
        _check_several(chosen, verify_share, least_gain, pool.intersections)
    if pool.scored and not chosen.corrects:
        raise InputError("Scores are corrected, not trained on: leave them out, or leave the body and its preset out.")
    if chosen.body == "precomputed" and chosen.proxy == "laplace":
        check_posterior_size(pool.columns, pool.groups)
    if verify_share and not chosen.corrects:
        raise InputError("Verified is the correction of a model: leave the body and its preset out, or the share.")
    if least_gain and not (chosen.corrects or chosen.looks_ahead):
        raise InputError("A least gain looks ahead by a posterior: leave out the preset, or choose heads.")
    return kept


def _check_several(chosen: Settings, verify_share: float, least_gain: float, intersections: int) -> None:
    """Refuse what is for one attribute alone."""
    from apod.method.model_mitigation import RANDOM_SHARES

    if least_gain:
        raise InputError("A least gain is for one attribute: leave it out, or ask about one.")
    if not chosen.corrects:
        raise InputError("Heads know one attribute: ask about one, or leave the body and its preset out.")
    if chosen.selector not in RANDOM_SHARES:
        known = ", ".join(RANDOM_SHARES)
        raise InputError(f"The selector {chosen.selector!r} asks about one attribute, several are asked by {known}.")
    if chosen.group_share is not None or chosen.group_probability is not None:
        raise InputError("What is known of the groups beforehand is told of one attribute: leave it out.")
    if chosen.over_groups == "intersections" and intersections > MOST_GROUPS:
        raise InputError(
            f"There are {intersections} intersections, and at most {MOST_GROUPS} can be compared: merge small groups, "
            "name fewer attributes, or leave --over-groups out."
        )
    if verify_share:
        raise InputError("A correction for several attributes is not verified yet: leave --verify-share out.")


def _body(options: Mapping[str, object], pool: Shape) -> str | None:
    """What heads are trained on; None: a model is kept and corrected, the default."""
    preset = PRESETS.get(str(options.get("preset", "default")), PRESETS["default"])  # an unknown one is refused later
    body = options.get("body", preset.body)
    if body is None:
        return None
    return "precomputed" if pool.embedding else "contrastive" if not body else str(body)
