"""Files that may hold people's groups: for their owner's eyes, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from apod.errors import InputError


def write_private(path: Path, data: bytes) -> None:
    """Write a file that its owner alone may read, whole or not at all."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".part-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise InputError(f"{path} could not be written ({error.strerror}): choose another place.") from None
