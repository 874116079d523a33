"""docs/correctness.md shows every place where unexpected exceptions are caught, as the services declare them, and each
of them is used.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from barnabas.containment import Place, Scope
from barnabas.runtime import contained as runtime
from barnabas_controller.core.requests import request_queue as controller
from barnabas_controller.shell import containment as controller_shell
from barnabas_gateway.core.model import containment as gateway
from barnabas_gateway.shell import containment as gateway_shell
from barnabas_logstore.core.replica import containment as logstore
from barnabas_logstore.shell import containment as logstore_shell
from barnabas_purgatory.core import meter as purgatory

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/correctness.md").read_text()
PLACES: tuple[Place, ...] = (
    *controller.PLACES,
    *controller_shell.PLACES,
    *gateway.PLACES,
    *gateway_shell.PLACES,
    *logstore.PLACES,
    *logstore_shell.PLACES,
    *purgatory.PLACES,
    *runtime.PLACES,
)


def rows() -> list[str]:
    """Return the rows of the table, as the page has to have them."""
    return [f"| `{each.name}` | {each.what} | {each.scope.value} |" for each in PLACES]


def test_the_table_is_that_of_the_code() -> None:
    """Print `rows()` if this fails."""
    assert re.findall(r"^\| `\w+\.\w+` \| .* \| \w+ \|$", PAGE, re.MULTILINE) == rows()


def test_every_scope_is_explained() -> None:
    section = PAGE.partition("## What an unexpected exception ends")[2].partition("\n## ")[0]
    assert [scope.value for scope in Scope if f"**{scope.value}**" not in section] == []
    assert "```mermaid" in section


def test_no_place_has_two_meanings() -> None:
    assert len({each.name for each in PLACES}) == len(PLACES)


@pytest.mark.parametrize(
    "folder",
    ["services/controller", "services/gateway", "services/logstore", "services/purgatory", "barnabas/runtime"],
)
def test_every_place_is_used_where_exceptions_are_caught(folder: str) -> None:
    sources = {path: path.read_text() for path in (ROOT / folder).rglob("*.py")}
    declared = {
        name: path for path, text in sources.items() for name in re.findall(r"^(\w+): Final = Place\(", text, re.M)
    }
    used = {
        name
        for name in declared
        for path, text in sources.items()
        if re.search(rf"\b{name}\b(?!: Final)", text) and (path != declared[name] or text.count(name) > 2)
    }
    assert sorted(declared.keys() - used) == []
