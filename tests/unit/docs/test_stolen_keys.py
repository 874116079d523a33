"""docs/operate/security.md names, for each role, every method that the tables grant to it, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from barnabas.cluster.access.operator_permissions import LEAST_ROLE_BY_METHOD, OperatorRole
from barnabas.cluster.access.service_permissions import CALLERS_BY_METHOD
from barnabas.cluster.keys import Role

PAGE = (Path(__file__).parents[3] / "docs/operate/security.md").read_text()
SECTION = PAGE.partition("## What a stolen key may do")[2].partition("\n## ")[0]


def documented(row: str) -> set[str]:
    """Return the methods in the second column of a row of the first table."""
    (methods,) = re.findall(rf"^\| {row} \| ([^|]*) \|", SECTION, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", methods))


@pytest.mark.parametrize("role", Role)
def test_a_service_may_call_what_the_page_says(role: Role) -> None:
    granted = {method.rpartition("/")[2] for method, roles in CALLERS_BY_METHOD.items() if role in roles}
    assert documented(role.value) == granted


@pytest.mark.parametrize("role", OperatorRole)
def test_an_operator_may_call_in_addition_what_the_page_says(role: OperatorRole) -> None:
    granted = {method.rpartition("/")[2] for method, least in LEAST_ROLE_BY_METHOD.items() if least is role}
    assert documented(role.name.lower()) == granted
