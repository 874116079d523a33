"""A full collection happens when the loop has nothing to do, and less often where it takes long."""

from __future__ import annotations

import gc

import pytest

from barnabas.runtime import collector
from barnabas.runtime.collector import Collector


@pytest.fixture
def full_collections(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The milliseconds that each one takes, the first in the list first; one is taken away by each."""
    takes_ms: list[int] = []
    now_ns = 0

    def collect() -> int:
        nonlocal now_ns
        now_ns += takes_ms.pop(0) * 1_000_000
        return 0

    monkeypatch.setattr(gc, "collect", collect)
    monkeypatch.setattr(collector, "perf_counter_ns", lambda: now_ns)
    return takes_ms


def idle_after(middle_collections: int, collecting: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, middle_collections))
    collecting.loop_is_idle()


def test_a_full_collection_waits_until_it_is_worth_it(
    full_collections: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    collecting = Collector()
    full_collections[:] = [1, 1]
    idle_after(99, collecting, monkeypatch)
    assert len(full_collections) == 2
    idle_after(100, collecting, monkeypatch)
    assert len(full_collections) == 1


def test_one_that_took_long_makes_the_next_one_wait_longer(
    full_collections: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    collecting = Collector()
    full_collections[:] = [80, 1, 1]
    idle_after(100, collecting, monkeypatch)
    idle_after(3_999, collecting, monkeypatch)
    assert len(full_collections) == 2
    idle_after(4_000, collecting, monkeypatch)
    idle_after(100, collecting, monkeypatch)
    assert len(full_collections) == 0


def test_none_happens_while_a_large_request_is_held(
    full_collections: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    collecting = Collector()
    full_collections[:] = [1]
    collecting.postpone(while_held=True)
    idle_after(100, collecting, monkeypatch)
    assert len(full_collections) == 1
    collecting.postpone(while_held=False)
    idle_after(100, collecting, monkeypatch)
    assert len(full_collections) == 0


def test_nor_one_of_a_young_generation_unless_too_many_objects_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of 65,000 topics took the youngest generation 40 ms, and the middle one 70, in the turn that made it."""
    collecting = Collector()
    collecting.postpone(while_held=True)
    assert not gc.isenabled()
    with monkeypatch.context() as growing:
        growing.setattr(gc, "get_count", lambda: (4_000_000, 0, 0))
        collecting.postpone(while_held=True)
        assert gc.isenabled()
    collecting.postpone(while_held=True)
    assert not gc.isenabled()
    collecting.postpone(while_held=False)
    assert gc.isenabled()


def test_collections_that_waited_for_the_code_begin_with_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)
    gc.disable()
    try:
        Collector().begin()
        assert gc.isenabled()
    finally:
        gc.enable()
