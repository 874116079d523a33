"""Column types: how much of a growth a table has room for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_pipeline.core.columns import (
    Column,
    ColumnType,
    Kind,
    ListOf,
    MapOf,
    Struct,
    evolved,
    leaves,
    settled,
    within,
)


def struct(**columns: ColumnType) -> Struct:
    return Struct(tuple(Column(name, each) for name, each in columns.items()))


LONG = Kind.LONG


@pytest.mark.parametrize(
    ("table", "growth", "leaves_max", "grown"),
    [
        (struct(a=LONG), struct(b=LONG, c=LONG), 2, struct(a=LONG, b=LONG)),
        (struct(s=struct(a=LONG)), struct(s=struct(b=LONG, c=LONG)), 2, struct(s=struct(a=LONG, b=LONG))),
        (struct(), struct(s=struct(a=LONG, b=LONG), c=LONG), 1, struct(s=struct(a=LONG))),
        (struct(), struct(l=ListOf(struct(a=LONG, b=LONG))), 1, struct(l=ListOf(struct(a=LONG)))),
        (
            struct(m=MapOf(struct(a=LONG))),
            struct(m=MapOf(struct(b=LONG, c=LONG))),
            3,
            struct(m=MapOf(struct(a=LONG, b=LONG))),
        ),
        (struct(), struct(m=MapOf(LONG), c=LONG), 1, struct(c=LONG)),
        (struct(a=LONG), struct(A=LONG, b=LONG), 2, struct(a=LONG, b=LONG)),
        (struct(a=LONG, b=LONG), struct(c=LONG), 1, struct(a=LONG, b=LONG)),
        # `B` differs from `b`, which is new too, in case only: it is left out, and takes no room from `a`.
        (
            struct(),
            struct(b=MapOf(MapOf(struct(a=LONG, b=LONG))), B=LONG, a=LONG),
            5,
            struct(b=MapOf(MapOf(struct(a=LONG, b=LONG))), a=LONG),
        ),
        (struct(), struct(s=struct(b=LONG, B=LONG, a=LONG)), 2, struct(s=struct(b=LONG, a=LONG))),
        (struct(), struct(b=Kind.UNKNOWN, B=LONG, a=LONG), 2, struct(B=LONG, a=LONG)),
    ],
)
def test_what_of_a_growth_a_table_has_room_for(table: Struct, growth: Struct, leaves_max: int, grown: Struct) -> None:
    assert evolved(table, within(table, growth, leaves_max)) == grown


names = st.sampled_from(["a", "b", "c", "B"])
types = st.recursive(
    st.sampled_from([LONG, Kind.STRING, Kind.UNKNOWN]),
    lambda inner: (
        inner.map(ListOf)
        | inner.map(MapOf)
        | st.dictionaries(names, inner, max_size=3).map(lambda columns: struct(**columns))
    ),
    max_leaves=8,
)
structs = st.dictionaries(names, types, max_size=4).map(lambda columns: struct(**columns))


@given(structs, structs, st.integers(0, 12))
def test_a_growth_is_taken_as_long_as_there_is_room(table: Struct, growth: Struct, leaves_max: int) -> None:
    known = settled(table)
    table = known if isinstance(known, Struct) else Struct()
    grown = evolved(table, within(table, growth, leaves_max))
    whole = evolved(table, growth)
    if leaves(whole) <= leaves_max:
        assert grown == whole
    else:
        assert leaves(grown) <= max(leaves_max, leaves(table))
