"""Values made rows: what fits, what grows the table, what is laid aside and why."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_pipeline.core.columns import (
    Column,
    DecimalOf,
    Kind,
    ListOf,
    MapOf,
    Struct,
    column_name,
    evolved,
    leaves,
    merged,
    parse_type,
)
from barnabas_pipeline.core.rows import MisfitError, RowMaker, inferred

RESERVED = frozenset({"_offset", "_key"})


def struct(**columns: Any) -> Struct:
    return Struct(tuple(Column(name, column_type) for name, column_type in columns.items()))


def test_a_table_grows_to_what_its_values_are() -> None:
    maker = RowMaker(struct(id=Kind.LONG))
    assert maker.row({"id": 1, "new": {"deep": [{"x": 1.5}]}, "none": None}) == {"id": 1}
    table = evolved(maker.columns, maker.growth)
    assert table == struct(id=Kind.LONG, new=struct(deep=ListOf(struct(x=Kind.DOUBLE))))
    again = RowMaker(table)
    assert again.row({"id": 1, "new": {"deep": [{"x": 1}]}}) == {"id": 1, "new": {"deep": [{"x": 1.0}]}}
    assert not again.growth.columns


def test_growth_inside_of_lists_maps_and_structs_lands_where_it_was_met() -> None:
    table = struct(rows=ListOf(struct(a=Kind.LONG)), by_name=MapOf(struct(a=Kind.LONG)))
    maker = RowMaker(table)
    maker.row({"rows": [{"a": 1, "b": "x"}], "by_name": {"k": {"c": True}}})
    assert evolved(table, maker.growth) == struct(
        rows=ListOf(struct(a=Kind.LONG, b=Kind.STRING)), by_name=MapOf(struct(a=Kind.LONG, c=Kind.BOOLEAN))
    )


@pytest.mark.parametrize(
    ("column_type", "value", "row"),
    [
        (Kind.LONG, 10.0, 10),
        (Kind.DOUBLE, 10, 10.0),
        (Kind.DOUBLE, -(2**60), -float(2**60)),
        (Kind.STRING, {"a": [1]}, '{"a":[1]}'),
        (Kind.STRING, 2**70, str(2**70)),
        (Kind.STRING, float("nan"), "NaN"),
        (Kind.STRING, float("-inf"), "-Infinity"),
        (Kind.STRING, {"a": [None, 1.5]}, '{"a":[null,1.5]}'),
        (Kind.BINARY, "aGk=", b"hi"),
        (Kind.DATE, "2026-11-22", datetime.date(2026, 11, 22)),
        (Kind.TIMESTAMP, 1000, datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)),
        (Kind.TIMESTAMP, "2026-11-22T10:00:00+02:00", datetime.datetime(2026, 11, 22, 8, tzinfo=datetime.UTC)),
        (DecimalOf(6, 2), "12.5", decimal.Decimal("12.50")),
        (MapOf(Kind.LONG), {"a": 1}, [("a", 1)]),
    ],
)
def test_what_fits(column_type: Any, value: object, row: object) -> None:
    assert RowMaker(struct(c=column_type)).row({"c": value}) == {"c": row}


@pytest.mark.parametrize(
    ("column_type", "value", "reason"),
    [
        (Kind.LONG, 10.5, r"field c is a number \(10.5\), its column wants a whole number of 64 bits"),
        (Kind.LONG, 2**63, "wants a whole number of 64 bits"),
        (Kind.LONG, True, r"field c is a boolean \(true\)"),
        (Kind.DOUBLE, 2**53 + 1, r"\(9007199254740993\), its column wants a number that a double has exactly"),
        (Kind.DOUBLE, 10**400, "wants a number that a double has exactly"),
        (ListOf(Kind.DOUBLE), [1.5, 2**53 + 1], r"field c.\[\] is a number"),
        (Kind.DOUBLE, "1", r"field c is a text \(1\), its column wants a number"),
        (Kind.TIMESTAMP, "yesterday", "wants a time"),
        (Kind.STRING, {"a": [float("nan")]}, "contains NaN or an infinity"),
        (Kind.STRING, [2**70, float("inf")], "can't be written as text"),
        (Kind.LONG, float("nan"), r"field c is a number \(NaN\)"),
        (DecimalOf(4, 2), "123.45", r"wants a decimal\(4,2\)"),
        (DecimalOf(4, 2), "1.234", r"wants a decimal\(4,2\)"),
        (ListOf(Kind.LONG), [1, "x"], r"field c.\[\] is a text"),
        (struct(d=Kind.LONG), 1, "wants an object"),
    ],
)
def test_what_does_not_fit(column_type: Any, value: object, reason: str) -> None:
    with pytest.raises(MisfitError, match=reason):
        RowMaker(struct(c=column_type)).row({"c": value})


def test_names() -> None:
    assert column_name("a b;c") == "a_b_c"
    assert column_name("_offset", RESERVED) == "_offset_"
    assert column_name("") is None
    maker = RowMaker(struct(id=Kind.LONG, a_b=Kind.LONG), RESERVED)
    assert maker.row({"a b": 1}) == {"a_b": 1}
    with pytest.raises(MisfitError, match="field ID differs from column id only in case"):
        maker.row({"ID": 1})
    with pytest.raises(MisfitError, match="two fields of the record make the same column a_b"):
        maker.row({"a b": 1, "a_b": 2})
    with pytest.raises(MisfitError, match="a list, not an object with fields"):
        maker.row([])


def test_a_table_has_an_end_of_columns_and_of_depth() -> None:
    maker = RowMaker(Struct(), columns_max=10)
    with pytest.raises(MisfitError, match="over 10 columns"):
        maker.row({f"c{number}": 1 for number in range(11)})
    deep: Any = 1
    for _ in range(3000):
        deep = {"d": deep}
    grown = RowMaker(Struct())
    grown.row({"deep": deep})
    assert leaves(evolved(Struct(), grown.growth)) == 1


def test_a_schema_wider_than_a_table_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its records took 36 ms to be refused."""
    wide, narrow = struct(**{f"c{number}": Kind.STRING for number in range(11)}), struct(a=Kind.LONG)
    maker = RowMaker(Struct(), columns_max=10)
    for _ in range(2):
        with pytest.raises(MisfitError, match="its new fields would take the table over 10 columns"):
            maker.declare(wide)
        monkeypatch.setattr("barnabas_pipeline.core.rows.additions", None)
    monkeypatch.undo()
    maker.declare(narrow)
    maker.row({"c0": 1})  # of another schema: what was refused says nothing of it
    assert maker.growth == struct(a=Kind.LONG, c0=Kind.LONG)


def test_new_columns_of_one_batch_take_the_type_that_holds_all() -> None:
    assert merged(Kind.LONG, Kind.DOUBLE) is Kind.DOUBLE
    assert merged(Kind.LONG, struct(a=Kind.LONG)) is Kind.STRING
    assert merged(DecimalOf(5, 2), DecimalOf(8, 1)) == DecimalOf(9, 2)
    assert merged(ListOf(Kind.UNKNOWN), ListOf(Kind.LONG)) == ListOf(Kind.LONG)


def test_a_column_that_is_there_keeps_its_type() -> None:
    assert evolved(struct(a=Kind.LONG), struct(a=Kind.STRING, A=Kind.LONG, b=Kind.UNKNOWN)) == struct(a=Kind.LONG)


def test_types_are_parsed_or_reported() -> None:
    assert parse_type("decimal(12, 2)") == DecimalOf(12, 2)
    assert parse_type(" Timestamp ") is Kind.TIMESTAMP
    for wrong in ("int", "decimal(50,1)", "decimal(2,3)", "unknown", "decimal"):
        with pytest.raises(ValueError, match="use boolean, long, double"):
            parse_type(wrong)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(min_size=1, max_size=3), _json, max_size=4), max_size=5))
def test_after_growing_once_nothing_grows_again(values: list[dict[str, Any]]) -> None:
    """Whatever JSON says: the second look has rows or misfits, and asks for no more columns."""
    first = RowMaker(Struct())
    for value in values:
        try:
            first.row(value)
        except MisfitError:
            continue
    second = RowMaker(evolved(Struct(), first.growth))
    for value in values:
        try:
            second.row(json.loads(json.dumps(value)))
        except MisfitError:
            continue
    assert evolved(second.columns, second.growth) == second.columns


def test_inference_of_nothing_is_nothing() -> None:
    assert inferred({}) == Struct()
    maker = RowMaker(Struct())
    assert maker.row({"empty": {}, "list": [], "null": None}) == {}
    assert not maker.growth.columns


def test_a_schema_decides_what_columns_hold_not_the_first_values() -> None:
    maker = RowMaker(Struct(), frozenset({"_offset"}))
    money = Struct((Column("price", DecimalOf(12, 2)), Column("open", Kind.UNKNOWN)))
    maker.declare(
        Struct((Column("money", ListOf(money)), Column("tags", MapOf(Kind.LONG)), Column("_offset", Kind.DOUBLE)))
    )
    maker.row(
        {
            "money": [{"price": decimal.Decimal("1.00"), "open": 1.5}],
            "tags": {"a": 1},
            "_offset": 1,
            "more": {"x": True},
        }
    )
    grown = evolved(Struct(), maker.growth)
    assert grown == Struct(
        (
            Column("money", ListOf(Struct((Column("price", DecimalOf(12, 2)), Column("open", Kind.DOUBLE))))),
            Column("tags", MapOf(Kind.LONG)),
            Column("_offset_", Kind.DOUBLE),
            Column("more", Struct((Column("x", Kind.BOOLEAN),))),
        )
    )
    # A later schema's field inside of a column that is there already, and one more that only a value has.
    maker = RowMaker(grown)
    later = Struct((Column("money", ListOf(Struct((Column("rate", DecimalOf(5, 4)), *money.columns)))),))
    maker.declare(later)
    maker.row({"money": [{"rate": decimal.Decimal("0.1900"), "seen": "x"}]})
    element = evolved(grown, maker.growth).columns[0].type
    assert element == ListOf(
        Struct(
            (
                Column("price", DecimalOf(12, 2)),
                Column("open", Kind.DOUBLE),
                Column("rate", DecimalOf(5, 4)),
                Column("seen", Kind.STRING),
            )
        )
    )
