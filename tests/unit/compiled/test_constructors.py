"""What the build writes into a dataclass behaves as what `dataclass` makes of the plain one."""

from __future__ import annotations

import dataclasses
import sys
from types import ModuleType
from typing import Any

import pytest

from scripts.compiled.constructors import UnknownForm, write_out

PLAIN = """
from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(slots=True, frozen=True)
class Key:
    topic: str
    partition: int = 0


@dataclass(slots=True)
class Counts:
    LIMIT: ClassVar[int] = 3
    name: str
    keys: list[Key] = field(default_factory=list)
    first: Key = Key("t", 4)
    by_name: dict[str, int] = field(default_factory=lambda: {"all": 0}, repr=False)
    doubled: int = field(init=False)

    def __post_init__(self) -> None:
        self.doubled = 2 * len(self.keys)


@dataclass(slots=True, eq=False)
class Node:
    number: int
"""


@pytest.fixture(params=["plain", "written out"])
def made(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    module = ModuleType("written_out")
    monkeypatch.setitem(sys.modules, "written_out", module)
    exec(PLAIN if request.param == "plain" else write_out(PLAIN, "test"), module.__dict__)
    return module.__dict__


def test_arguments_and_defaults(made: dict[str, Any]) -> None:
    key = made["Key"]("t", partition=3)
    assert (key.topic, key.partition) == ("t", 3)
    assert made["Key"]("t").partition == 0
    counts = made["Counts"]("all", [key, key])
    assert (counts.keys, counts.first, counts.by_name, counts.doubled) == (
        [key, key],
        made["Key"]("t", 4),
        {"all": 0},
        4,
    )
    with pytest.raises(TypeError):
        made["Counts"]()
    with pytest.raises(TypeError):
        made["Counts"]("all", doubled=3)


def test_what_a_factory_makes_is_not_shared(made: dict[str, Any]) -> None:
    first, second = made["Counts"]("a"), made["Counts"]("a")
    first.keys.append(made["Key"]("t"))
    first.by_name["b"] = 1
    assert (second.keys, second.by_name) == ([], {"all": 0})


def test_equality_and_hashes(made: dict[str, Any]) -> None:
    key, node = made["Key"], made["Node"]
    assert key("t", 1) == key("t", 1)
    assert key("t", 1) != key("t", 2)
    assert key("t", 1) != ("t", 1)
    assert hash(key("t", 1)) == hash(("t", 1)), "the order of a set of them is the same in both"
    assert made["Counts"]("a") == made["Counts"]("a")
    assert made["Counts"]("a") != made["Counts"]("b")
    with pytest.raises(TypeError):
        hash(made["Counts"]("a"))
    assert node(1) != node(1)
    assert len({node(1), node(1)}) == 2


def test_what_dataclasses_offers(made: dict[str, Any]) -> None:
    key = dataclasses.replace(made["Key"]("t", 1), partition=2)
    assert repr(key) == "Key(topic='t', partition=2)"
    assert [each.name for each in dataclasses.fields(made["Counts"])] == ["name", "keys", "first", "by_name", "doubled"]
    match key:
        case object(topic=topic, partition=partition):
            assert (topic, partition) == ("t", 2)
    assert made["Key"].__match_args__ == ("topic", "partition")


def test_lines_keep_their_numbers() -> None:
    written = write_out(PLAIN, "test").split("\n")
    for number, line in enumerate(PLAIN.split("\n")):
        assert not line.strip() or line.startswith("@") or written[number] == line


@pytest.mark.parametrize(
    "source",
    [
        "@dataclass(order=True)\nclass A:\n    a: int\n\n\n",
        "@dataclass\nclass A:\n    a: int = field(compare=False)\n\n\n",
        "@dataclass\nclass A:\n    a: int\nb = 1\n",
    ],
)
def test_what_is_not_known_is_refused(source: str) -> None:
    with pytest.raises(UnknownForm):
        write_out(source, "test")
