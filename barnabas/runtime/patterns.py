"""Regular expressions of clients by RE2, of which Kafka has a port to Java (RE2/J): there is no backtracking, so every
pattern takes a time that is linear in the text.

Both accept the same patterns and find the same texts, but for a few that one of them refuses. Of these `\\C`, a single
byte, is refused here as by RE2/J: it would match parts of a character.
"""

from __future__ import annotations

from typing import Final

import re2

from barnabas.ports.patterns import PATTERN_CHARACTERS_MAX, Matches

_MEMORY_BYTES_MAX: Final = 256 * 1024
"""Of a compiled pattern, two thirds of them for its program and the rest for the states of its matching. RE2 counts
counted repetitions by copies: `(a{1000}){2}` is refused.
"""


def compile_pattern(pattern: str) -> Matches | None:
    """Return what decides whether a whole text matches; None for a pattern that is invalid or too large.

    Matching releases the interpreter.
    """
    if len(pattern) > PATTERN_CHARACTERS_MAX or _names_single_byte(pattern):
        return None
    options = re2.Options()
    options.max_mem = _MEMORY_BYTES_MAX
    options.log_errors = False
    options.never_capture = True
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        return None
    finally:
        # It would keep the last 128.
        re2.purge()
    return lambda text: compiled.fullmatch(text) is not None


def _names_single_byte(pattern: str) -> bool:
    r"""Whether `\C` is in the pattern, other than in a quotation from `\Q` to `\E`."""
    position = pattern.find("\\")
    while position >= 0:
        escaped = pattern[position + 1 : position + 2]
        if escaped == "C":
            return True
        end = position + 2
        if escaped == "Q":
            end = pattern.find("\\E", end)
            if end < 0:
                return False
            end += 2
        position = pattern.find("\\", end)
    return False
