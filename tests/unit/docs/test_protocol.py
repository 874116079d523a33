"""The page equals the tables: run `scripts/protocol` if this fails."""

from __future__ import annotations

import pytest

from barnabas.wire.api_keys import CLIENT_KEYS, SERVED_KEYS, ApiKey
from barnabas_gateway.core.handlers import HANDLERS
from scripts.pages.protocol import PAGE, ROOT, contract, module, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page()


@pytest.mark.parametrize("key", CLIENT_KEYS, ids=lambda key: key.name)
def test_a_module_opens_with_what_the_table_says(key: ApiKey) -> None:
    title, state = contract(key)
    lines = module(key).read_text().splitlines()
    assert lines[0] == title
    assert [line for line in lines if line.startswith("State: ")] == [state]


def test_what_is_served_has_a_handler_and_nothing_else_has() -> None:
    assert sorted(HANDLERS) == list(SERVED_KEYS)


def test_the_handlers_of_served_keys_are_where_the_page_says() -> None:
    for key in SERVED_KEYS:
        _, state = contract(key)
        assert (ROOT / state.split("`")[1]).is_file()
