"""The format of transcripts: commands, and what came of them.

    # A rule, in a comment on top.

    join alice group=shoppers protocols=[range]
    ----
    alice JoinGroup -> MEMBER_ID_REQUIRED member=alice-1

A block is one or more lines of commands, a line `----`, and the lines of output, up to a blank line. Comments and blank
lines stand between blocks. A command is a verb, its arguments, and options `key=value`; a value `[a,b]` is a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path
from typing import Protocol

SEPARATOR = "----"
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class ScriptError(Exception):
    """A transcript that can't be run: an unknown verb or option, a value of the wrong kind, a block without `----`."""


@dataclass(slots=True)
class Command:
    """One line. Whatever is read of it is marked as known, so that a misspelt option is an error."""

    verb: str
    arguments: list[str]
    options: dict[str, str]
    _read: set[str] = field(default_factory=set)

    @classmethod
    def parse(cls, line: str) -> Command:
        verb, *words = line.split()
        arguments = [word for word in words if "=" not in word]
        options: dict[str, str] = {}
        for key, _, value in (word.partition("=") for word in words if "=" in word):
            if key in options:
                raise ScriptError(f"option {key} is given twice")
            options[key] = value
        return cls(verb, arguments, options)

    def argument(self, index: int = 0) -> str:
        if index >= len(self.arguments):
            raise ScriptError(f"{self.verb} needs {index + 1} arguments")
        return self.arguments[index]

    def has(self, name: str) -> bool:
        """Return whether the word `name` is among the arguments."""
        return name in self.arguments

    def text(self, key: str, default: str = "") -> str:
        self._read.add(key)
        return self.options.get(key, default)

    def number(self, key: str, default: int) -> int:
        text = self.text(key, str(default))
        if not text.lstrip("-").isdigit():
            raise ScriptError(f"{key}={text} is no number")
        return int(text)

    def flag(self, key: str, default: bool = False) -> bool:
        text = self.text(key, str(default).lower())
        if text not in ("true", "false"):
            raise ScriptError(f"{key}={text} is neither true nor false")
        return text == "true"

    def texts(self, key: str, default: Sequence[str] = ()) -> list[str]:
        return list(default) if key not in self.options else list_of(self.text(key))

    def numbers(self, key: str, default: Sequence[int] = ()) -> list[int]:
        return [int(each) for each in self.texts(key, [str(each) for each in default])]

    def configs(self) -> dict[str, str]:
        """Return the options with a dot in their name: those are Kafka's config keys."""
        found = {key: value for key, value in self.options.items() if "." in key}
        self._read |= found.keys()
        return found

    def check_all_read(self) -> None:
        unread = sorted(self.options.keys() - self._read)
        if unread:
            raise ScriptError(f"{self.verb} has no option {unread[0]}")


def list_of(text: str) -> list[str]:
    """Return the elements of `[a,b]`."""
    if not (text.startswith("[") and text.endswith("]")):
        raise ScriptError(f"{text} is no list: [a,b]")
    return [each for each in text[1:-1].split(",") if each]


def milliseconds(text: str) -> int:
    """Parse a duration such as `500ms`, `10s`, `7d`."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(number) :]
    if not number.isdigit() or unit not in _UNITS_MS:
        raise ScriptError(f"{text} is no duration: 500ms, 10s, 5m, 2h or 7d")
    return int(number) * _UNITS_MS[unit]


def partition_of(text: str) -> tuple[str, int]:
    """Parse `orders-0` into a topic and a partition."""
    topic, _, number = text.rpartition("-")
    if not topic or not number.isdigit():
        raise ScriptError(f"{text} is no partition: topic-0")
    return topic, int(number)


class Interpreter(Protocol):
    """Runs the commands of one transcript, in order, on a cluster of its own."""

    def run(self, command: Command) -> list[str]:
        """Carry out one command, and return the lines that it led to. Raises ScriptError."""
        ...


@dataclass(slots=True)
class Block:
    line_number: int
    commands: list[str]
    output: list[str]


def parts_of(text: str) -> Iterator[str | Block]:
    """Yield the blocks of a transcript, and the comments and blank lines between them. Raises ScriptError."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        if not lines[at] or lines[at].startswith("#"):
            yield lines[at]
            at += 1
            continue
        start = at
        while at < len(lines) and lines[at] and lines[at] != SEPARATOR:
            at += 1
        if at == len(lines) or lines[at] != SEPARATOR:
            raise ScriptError(f"line {start + 1}: {SEPARATOR} is missing after {lines[start]!r}")
        commands, at = lines[start:at], at + 1
        if not commands:
            raise ScriptError(f"line {at}: {SEPARATOR} without a command")
        begin = at
        while at < len(lines) and lines[at]:
            at += 1
        yield Block(start + 1, commands, lines[begin:at])


def run(text: str, interpreter: Interpreter) -> str:
    """Run a transcript, and return it with the output of this run. Raises ScriptError, with the line."""
    lines: list[str] = []
    for part in parts_of(text):
        if isinstance(part, str):
            lines.append(part)
            continue
        lines += [*part.commands, SEPARATOR]
        output: list[str] = []
        for number, line in enumerate(part.commands, part.line_number):
            command = Command.parse(line)
            try:
                output += interpreter.run(command)
                command.check_all_read()
            except ScriptError as error:
                raise ScriptError(f"line {number}: {error}") from None
        lines += output or ["ok"]
    return "\n".join(lines) + "\n"


def difference(path: Path, expected: str, actual: str) -> str:
    """Return the lines that differ, with those around them."""
    lines = unified_diff(expected.splitlines(), actual.splitlines(), "as recorded", "as it is now", lineterm="", n=4)
    return "\n".join([f"{path.name} differs (--rewrite records what is now, once you know what caused it):", *lines])


def transcripts(folder: Path) -> list[Path]:
    """Return the transcripts of a folder. Raises ScriptError if there are none."""
    found = sorted(folder.rglob("*.txt"))
    if not found:
        raise ScriptError(f"there are no transcripts in {folder.name}")
    return found
