"""What is read by its annotations is not compiled: the build refuses it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from barnabas.cluster.topic_config import TopicConfig
from scripts.compiled.annotations import ErasedAnnotationError, check_annotations, readings_of, refused
from scripts.compiled.sources import compiled_modules, product_files
from tests.compiled import interpreted_only

pytestmark = interpreted_only("reads annotations, which the binary does not have")

ORDERS = "barnabas_logstore.core.storage.compaction.orders"


def test_nothing_of_the_product_is_decoded_by_annotations_that_the_binary_lacks() -> None:
    check_annotations(product_files(), compiled_modules())


def test_the_orders_of_the_cleaner_would_be_refused_if_they_were_compiled() -> None:
    with pytest.raises(ErasedAnnotationError) as error:
        check_annotations(product_files(), compiled_modules() | {ORDERS})
    assert f"{ORDERS}.CleanOrder (config, segments, producers)" in str(error.value)
    assert f"{ORDERS}.PassEnded (outcome, disk_error, statistics)" in str(error.value)
    assert "barnabas_logstore/shell/cleaner_messages.py:" in str(error.value)


@dataclass(slots=True, frozen=True)
class Plain:
    number: int
    text: str


@dataclass(slots=True, frozen=True)
class WithList:
    parts: list[Plain]
    plain: Plain


@dataclass(slots=True, frozen=True)
class Around:
    inner: dict[str, tuple[WithList | None, ...]]


def test_only_plain_fields_are_kept() -> None:
    assert list(refused(Plain, {__name__})) == []
    assert list(refused(WithList, {__name__})) == [f"{__name__}.WithList (parts, plain)"]
    assert set(refused(list[Around], {__name__})) == {
        f"{__name__}.Around (inner)",
        f"{__name__}.WithList (parts, plain)",
    }
    assert list(refused(Around, set())) == []
    assert list(refused(TopicConfig, compiled_modules())) == []


@pytest.mark.parametrize(
    ("source", "expression"),
    [
        ("decoder = msgspec.msgpack.Decoder(Order)", "Order"),
        ("decoder = msgspec.json.Decoder(type=list[Order])", "list[Order]"),
        ("found = msgspec.json.decode(data, type=Order)", "Order"),
        ("found = msgspec.convert(data, Order)", "Order"),
        ("found = msgspec.convert(data, type=Order)", "Order"),
        ("found = from_proto(Order, message)", "Order"),
        ("hints = typing.get_type_hints(Order)", "Order"),
        ("hints = get_type_hints(Order)", "Order"),
    ],
)
def test_every_way_to_read_annotations_is_found(source: str, expression: str) -> None:
    assert [reading.expression for reading in readings_of(source, "a.py")] == [expression]


@pytest.mark.parametrize("source", ["text = data.decode()", "each.decode(payload)", "pending.convert(appends)"])
def test_other_calls_of_these_names_are_none(source: str) -> None:
    assert list(readings_of(source, "a.py")) == []


@pytest.mark.parametrize("source", ["import pickle", "from copyreg import dispatch_table", "import marshal, json"])
def test_nothing_is_pickled(source: str) -> None:
    with pytest.raises(ErasedAnnotationError, match=r"a\.py:1: it imports"):
        list(readings_of(source, "a.py"))


def test_a_class_that_is_given_needs_its_package_named(tmp_path: Path) -> None:
    path = tmp_path / "cores.py"
    path.write_text("found = msgspec.json.decode(data, type=kind)\n")
    with pytest.raises(ErasedAnnotationError, match="name the package"):
        check_annotations({"barnabas/cores.py": path}, compiled_modules())
