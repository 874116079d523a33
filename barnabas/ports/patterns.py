"""Regular expressions of clients, as the cores see them: of RE2's syntax, matched in a time that is linear in the text.

`barnabas.runtime.patterns` implements them. A client determines how much work its pattern is, within the limits of the
implementation, so patterns are compiled and matched where that delays no other request: on a worker, as an effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

Matches = Callable[[str], bool]
"""Whether the whole text matches, from its first character to its last."""

CompilePattern = Callable[[str], Matches | None]
"""None: the text is not of RE2's syntax, or takes more memory than one pattern may."""

PATTERN_CHARACTERS_MAX: Final = 4096
"""A longer pattern is refused without a look at it."""
