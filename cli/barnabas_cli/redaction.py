"""Remove secrets from configurations and log lines before they are shared."""

from __future__ import annotations

import re
from typing import Final

REDACTED: Final = "(left out)"

_WORDS: Final = r"password|passwd|secret|token|credential|jaas|private|ssl\.key|api\.?key"
_SECRET_KEY: Final = re.compile(_WORDS, re.IGNORECASE)
# Within a value, or in a comment that used to be a configuration.
_SECRET_WITHIN: Final = re.compile(rf"(?:{_WORDS})[^\s=:]*\s*[=:]\s*", re.IGNORECASE)
# "https://user:word@host", anywhere in the text.
_CREDENTIALS_IN_URL: Final = re.compile(r"(?<=://)[^/\s]+@")


def is_secret(key: str) -> bool:
    return _SECRET_KEY.search(key) is not None


def redacted_properties(text: str) -> str:
    """Redact a properties file; keys and comments stay. A value that continues on the next line is removed with that
    line.
    """
    lines = []
    goes_on = is_left_out = False
    for line in text.splitlines():
        if goes_on:
            goes_on = _goes_on(line)
            if not is_left_out:
                lines.append(_without_credentials(line))
            continue
        goes_on = not line.lstrip().startswith(("#", "!")) and _goes_on(line)
        key = re.split(r"[=:\s]", line.lstrip(), maxsplit=1)[0]
        is_left_out = is_secret(key)
        lines.append(
            f"{key}={REDACTED}" if is_left_out and not line.lstrip().startswith("#") else _without_credentials(line)
        )
    return "".join(f"{line}\n" for line in lines)


def _goes_on(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _without_credentials(line: str) -> str:
    """Also remove what follows a word that looks like a secret's name, to the end of the line."""
    line = _CREDENTIALS_IN_URL.sub(f"{REDACTED}@", line)
    found = _SECRET_WITHIN.search(line)
    return line if found is None else line[: found.end()] + REDACTED
