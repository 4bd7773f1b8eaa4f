"""What can go wrong in a campaign.

    ApodError
    └── CampaignError
        ├── StoreError            the database is unreachable, full, read-only, busy, moved away, or damaged
        │   └── SchemaError       the database was made by an older or a newer version
        ├── FileDamaged           a matrix file beside the database is missing or not what it was (a CheckpointError)
        ├── Conflict              a second, different answer, or a reused key
        ├── CampaignFinished      the campaign was ended: it asks nothing more
        ├── NotFound              no such campaign or row, nothing to undo or to erase (an InputError)
        │   └── UnknownQuestion   no question of the campaign has this id
        │   └── PictureUnusable   the picture of a question lies outside its folder, or is not a file
        ├── NotYours              the question was put to somebody else (an InputError)
        └── UnknownGroup          the answer is none of the campaign's groups (an InputError and an AnnotatorError)

A failed call has recorded nothing, unless its message says that this is uncertain; repeating it is safe either way.
No message holds an answer, a group's name or a password.
"""

from __future__ import annotations

from apod.errors import AnnotatorError, ApodError, CheckpointError, InputError


class CampaignError(ApodError):
    """Base of what a campaign raises on purpose."""


class StoreError(CampaignError):
    """The database could not do what was asked of it."""


class SchemaError(StoreError):
    """The database was made by another version."""


class FileDamaged(CampaignError, CheckpointError):
    """A file beside the database is missing or not what it was."""


class Conflict(CampaignError):
    """A second, different answer to one question, or an idempotency key used for two things."""


class CampaignFinished(CampaignError):
    """The campaign was ended."""


class NotFound(CampaignError, InputError):
    """No such campaign or row, nothing to undo or to erase."""


class UnknownQuestion(NotFound):
    """No question of the campaign has this id."""

    def __init__(self) -> None:
        super().__init__("There is no such question in this campaign: use the id that `ask` gave, such as 3-17.")


class PictureUnusable(NotFound):
    """The picture of a question lies outside its folder, or is not a file."""


class NotYours(CampaignError, InputError):
    """The question was put to somebody else."""


class UnknownGroup(CampaignError, AnnotatorError, InputError):
    """The answer is none of the campaign's groups."""
