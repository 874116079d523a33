"""The binary whose methods can throw: what the build writes into a module, and what an exception does there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sim.exceptions.throwing_build import rewritten

SOURCE = '''"""A part of a core."""

from __future__ import annotations


class Counted:
    first = 0

    def add(self, number: int, /, *others: int, twice: bool = False, **named: int) -> int:
        """Return the sum."""
        return (number + sum(others) + sum(named.values())) * (2 if twice else 1)

    def _hidden(self) -> int:
        return 1


class _More(Counted):
    def add(
        self,
        number: int, /,
        *others: int,
        twice: bool = False,
        **named: int,
    ) -> int:
        return 100 + super().add(number, *others, twice=twice, **named)

    def each(self) -> object:
        yield from (1, 2)
'''

NUMBERS = {("part", "Counted", "add"): 0, ("part", "_More", "add"): 1, ("part", "_More", "each"): 2}


@pytest.fixture
def part() -> dict[str, Any]:
    """The rewritten module, executed as it is written; what it imports is `_ARMED` and `_CALLED`."""
    text = rewritten("part.py", SOURCE, NUMBERS)
    imported = "from barnabas.ports.call_sites import ARMED as _ARMED, CALLED as _CALLED\n"
    assert text.count(imported) == 1
    module: dict[str, Any] = {"_ARMED": [False] * 3, "_CALLED": []}
    exec(compile(text.replace(imported, ""), "part.py", "exec"), module)
    return module


def test_what_is_not_armed_does_what_it_did(part: dict[str, Any]) -> None:
    assert part["Counted"]().add(1, 2, twice=True, four=4) == 14
    assert part["_More"]().add(1, 2, twice=True, four=4) == 114
    assert list(part["_More"]().each()) == [1, 2]


def test_what_is_armed_is_called_with_what_it_was_given(part: dict[str, Any]) -> None:
    seen: list[tuple[Any, ...]] = []

    def called(number: int, original: Any, target: object, *arguments: Any, **named: Any) -> Any:
        seen.append((number, target, arguments, named))
        return original(*arguments, **named)

    part["_CALLED"].append(called)
    part["_ARMED"][0] = True
    more = part["_More"]()
    assert more.add(1, 2, four=4) == 107
    assert seen == [(0, more, (1, 2), {"twice": False, "four": 4})]
    part["_ARMED"][1] = True
    assert more.add(1) == 101
    assert [number for number, *_ in seen] == [0, 1, 0]


def test_an_exception_leaves_what_is_armed(part: dict[str, Any]) -> None:
    def called(*arguments: Any, **named: Any) -> Any:
        raise ValueError("planted")

    part["_CALLED"].append(called)
    part["_ARMED"][2] = True
    with pytest.raises(ValueError, match="planted"):
        part["_More"]().each()


def test_a_module_without_call_sites_stays_as_it_is() -> None:
    assert rewritten("other.py", SOURCE, NUMBERS) == SOURCE
