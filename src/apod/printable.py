"""Text from elsewhere (cells, column, file and people's names) as it may be shown in a terminal or a log."""

from __future__ import annotations

import re

_CONTROLS = re.compile(
    r"[\x00-\x1f\x7f-\x9f"  # C0 and C1: ESC begins commands to the terminal, a line break forges a line
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional: what is read is not what is there
    r"\u2028\u2029"  # line and paragraph separators
    r"\ud800-\udfff]"  # lone surrogates, as in file names that are no UTF-8: they cannot be encoded
)


def printable(text: object) -> str:
    r"""The text on one line, with everything that steers a terminal written out: ESC becomes `\u001b`."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", str(text))
