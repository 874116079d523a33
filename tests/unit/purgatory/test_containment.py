"""An unexpected exception costs the parked entry that it met: it is answered as if its time were over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.channel.generated.packing import pack_park_request
from barnabas.channel.messages import Completion, Outcome, ParkFetch, ParkProduce, ParkRequest
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import UpdateMetadata
from barnabas.containment import Containment, Uncontained
from barnabas.metrics.conditions import ConditionKind
from barnabas.wire.errors import ErrorCode
from barnabas_purgatory.core.group_watches import ParkedGroup
from barnabas_purgatory.core.meter import ENTRY, MESSAGE
from barnabas_purgatory.core.parked_entries import ParkedEntries
from barnabas_purgatory.core.purgatory import PurgatoryCore
from barnabas_purgatory.core.timing_wheel import TimingWheel
from barnabas_purgatory.core.turn_work import SHORT
from barnabas_purgatory.core.waiting import DelayedFetch, ParkedProduce, ProduceWait
from barnabas_purgatory.core.watches import PartitionWatch, WaitHeap
from barnabas_purgatory.shell.driver import ParkStream, PurgatoryDriver
from tests.compiled import interpreted_only
from tests.unit.purgatory.support import EPOCH, LEADER, STREAM, completions
from tests.unit.purgatory.test_group_waits import group_state, joining
from tests.unit.purgatory.test_purgatory import condition, fetch, image, polled, produce, state

pytestmark = interpreted_only("replaces methods")

POISON, SOUND = 1, 2
TIMED_OUT = [ErrorCode.REQUEST_TIMED_OUT]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have a method raise for the poisonous entry: of it, of a wait of it, or with one of these as an argument."""

    def plant(owner: type, method: str, *, once: bool = False, after: bool = False) -> None:
        original = getattr(owner, method)
        left = [1 if once else 1_000]

        def raises(*arguments: Any) -> Any:
            result = original(*arguments) if after else None
            if left[0] and any(_id_of(each) == POISON for each in arguments):
                left[0] -= 1
                raise RuntimeError("planted")
            return result if after else original(*arguments)

        monkeypatch.setattr(owner, method, raises)

    return plant


def _id_of(each: object) -> int | None:
    entry = getattr(each, "entry", each)
    return getattr(entry, "entry_id", None)


def assert_contained(core: PurgatoryCore, count: int = 1) -> None:
    assert core.contained.counts == {MESSAGE: 0, ENTRY: count}
    reports = core.contained.take_reports()
    assert [each.fields["entry_id"] for each in reports] == [POISON] * count
    assert core.entries == 0
    core.take_outputs()
    assert (core.watched_partitions, core.watched_groups) == (0, 0)
    assert core.next_deadline_ms() is None


PARKING = [
    (ProduceWait, "judge"),
    (WaitHeap, "push"),
    (ParkedEntries, "admit"),
    (TimingWheel, "add"),
]


@pytest.mark.parametrize("after", [False, True], ids=["entry", "exit"])
@pytest.mark.parametrize(("owner", "method"), PARKING)
def test_a_produce_that_cannot_be_parked(
    core: PurgatoryCore, plant: Callable[..., None], owner: type, method: str, after: bool
) -> None:
    plant(owner, method, once=True, after=after)
    for entry_id in (POISON, SOUND):
        core.park_produce(STREAM, produce(entry_id, condition(10), condition(10, partition=1)), 0)
    assert completions(core) == [Completion(POISON, Outcome.EXPIRED, TIMED_OUT * 2)]
    core.partition_states(LEADER, [state(10), state(10, partition=1)])
    assert completions(core) == [Completion(SOUND, Outcome.SATISFIED, [ErrorCode.NONE] * 2)]
    assert_contained(core)


@pytest.mark.parametrize("after", [False, True], ids=["entry", "exit"])
@pytest.mark.parametrize("method", ["must_read_again", "count_bytes", "queue"])
@pytest.mark.parametrize("partitions", [2, 2 * SHORT], ids=["short", "long"])
def test_a_fetch_that_cannot_be_parked(
    core: PurgatoryCore, plant: Callable[..., None], method: str, partitions: int, after: bool
) -> None:
    plant(DelayedFetch, method, once=True, after=after)
    for entry_id in (POISON, SOUND):
        core.park_fetch(STREAM, fetch(entry_id, *[polled(100, partition=each) for each in range(partitions)]), 0)
    assert completions(core) == [Completion(POISON, Outcome.EXPIRED, [])]
    core.partition_states(LEADER, [state(20, position=200)])
    assert completions(core) == [Completion(SOUND, Outcome.SATISFIED, [])]
    core.expire(1)
    assert_contained(core)


def test_a_long_produce_that_cannot_be_parked(core: PurgatoryCore, plant: Callable[..., None]) -> None:
    plant(ProduceWait, "judge", once=True)
    core.park_produce(STREAM, produce(POISON, *[condition(10, partition=each) for each in range(2 * SHORT)]), 0)
    assert completions(core) == [Completion(POISON, Outcome.EXPIRED, TIMED_OUT * 2 * SHORT)]
    core.expire(1)
    assert_contained(core)


@pytest.mark.parametrize("after", [False, True], ids=["entry", "exit"])
@pytest.mark.parametrize(("owner", "method"), [(ParkedGroup, "outcome"), (ParkedEntries, "admit")])
def test_a_member_of_a_group_that_cannot_be_parked(
    core: PurgatoryCore, plant: Callable[..., None], owner: type, method: str, after: bool
) -> None:
    plant(owner, method, once=True, after=after)
    for entry_id in (POISON, SOUND):
        core.park_group(STREAM, joining(entry_id), 0)
    assert completions(core) == [Completion(POISON, Outcome.EXPIRED)]
    core.group_states(LEADER, [group_state(5)])
    assert completions(core) == [Completion(SOUND, Outcome.SATISFIED)]
    assert_contained(core)


JUDGED: list[tuple[type, str, ParkProduce | ParkFetch | int, Callable[[PurgatoryCore], None]]] = [
    (ProduceWait, "judge", produce(POISON, condition()), lambda core: core.partition_states(LEADER, [state(10)])),
    (ParkedProduce, "outcome", produce(POISON, condition()), lambda core: core.partition_states(LEADER, [state(10)])),
    (
        DelayedFetch,
        "count_bytes",
        fetch(POISON, polled()),
        lambda core: core.partition_states(LEADER, [state(20, position=200)]),
    ),
    (
        DelayedFetch,
        "must_read_again",
        fetch(POISON, polled()),
        lambda core: core.partition_states(LEADER, [state(20, log_start_offset=15)]),
    ),
    (ParkedEntries, "answer", fetch(POISON, polled()), lambda core: core.metadata_applied(image(EPOCH + 1))),
    (ParkedProduce, "outcome", produce(POISON, condition()), lambda core: core.metadata_applied(image(EPOCH + 1, 9))),
    (ParkedGroup, "outcome", 0, lambda core: core.group_states(LEADER, [group_state(5)])),
    (ParkedEntries, "answer", 0, lambda core: core.metadata_applied(image(EPOCH + 1))),
    (ParkedEntries, "answer", produce(POISON, condition()), lambda core: core.expire(2_000)),
    (ParkedEntries, "end", fetch(POISON, polled()), lambda core: core.expire(2_000)),
]


@pytest.mark.parametrize("after", [False, True], ids=["entry", "exit"])
@pytest.mark.parametrize(("owner", "method", "park", "end"), JUDGED)
def test_an_entry_whose_end_fails_is_answered_once(
    core: PurgatoryCore,
    plant: Callable[..., None],
    owner: type,
    method: str,
    park: ParkProduce | ParkFetch | int,
    end: Callable[[PurgatoryCore], None],
    after: bool,
) -> None:
    core.partition_states(LEADER, [])
    if isinstance(park, ParkProduce):
        core.park_produce(STREAM, park, 0)
        core.park_produce(STREAM, produce(SOUND, condition(50), wait_ms=9_000), 0)
    elif isinstance(park, ParkFetch):
        core.park_fetch(STREAM, park, 0)
        core.park_fetch(STREAM, fetch(SOUND, polled(fetch_offset=99), bytes_wanted=5_000, wait_ms=9_000), 0)
    else:
        core.park_group(STREAM, joining(POISON), 0)
        core.park_group(STREAM, joining(SOUND, step=99), 0)
    core.partition_states(LEADER, [state(0)])
    core.take_outputs()
    plant(owner, method, once=True, after=after)
    end(core)
    assert [each.entry_id for each in completions(core)].count(POISON) == 1
    core.cancel(STREAM, SOUND)
    assert_contained(core)


def test_what_all_entries_share_ends_the_process(core: PurgatoryCore, monkeypatch: pytest.MonkeyPatch) -> None:
    core.park_produce(STREAM, produce(POISON, condition()), 0)
    monkeypatch.setattr(TimingWheel, "cancel", raises)
    with pytest.raises(Uncontained):
        core.partition_states(LEADER, [state(10)])


def test_a_fault_that_can_not_be_noted_ends_the_process(
    core: PurgatoryCore, plant: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    core.park_produce(STREAM, produce(POISON, condition()), 0)
    plant(ParkedEntries, "answer", once=True)
    monkeypatch.setattr(Containment, "contain", raises)
    with pytest.raises(Uncontained):
        core.partition_states(LEADER, [state(10)])


def raises(*arguments: object) -> object:
    raise RuntimeError("planted")


def test_a_logstore_is_heard_after_its_states_could_not_be_applied(
    core: PurgatoryCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came next waited for ever behind what was left, and the fault met what had the turn."""
    core.park_produce(STREAM, produce(SOUND, condition(10)), 0)
    core._work.steps_left = 0
    core.partition_states(LEADER, [state(5)])
    core.take_outputs()
    with monkeypatch.context() as patch:
        patch.setattr(PartitionWatch, "learn", raises)
        core.expire(1)
    assert core.contained.counts == {MESSAGE: 1, ENTRY: 0}
    core.partition_states(LEADER, [state(10)])
    assert completions(core) == [Completion(SOUND, Outcome.SATISFIED, [ErrorCode.NONE])]


def test_nothing_waits_for_a_state_that_was_applied_by_half(core: PurgatoryCore) -> None:
    """The state was known, so that what it had not woken was not woken by the next one like it, either."""
    core.park_fetch(STREAM, fetch(SOUND, polled(), bytes_wanted=1, wait_ms=9_000), 0)
    core._work.steps_left = 0
    core.partition_states(LEADER, [state(10, position=101)])
    core.take_outputs()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WaitHeap, "pop_reached", raises)
        core.expire(1)
    (watch,) = core._watches
    assert watch.state is None
    core.partition_states(LEADER, [state(10, position=101)])
    assert [each.entry_id for each in completions(core)] == [SOUND]


def test_an_image_is_applied_after_one_that_could_not_be(core: PurgatoryCore) -> None:
    """No image was ever applied again: what waited for a leader that was gone waited its whole time."""
    core.metadata_applied(image(EPOCH))
    core.park_produce(STREAM, produce(SOUND, condition(10)), 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PurgatoryCore, "_tidy", raises)
        with pytest.raises(RuntimeError):
            core.metadata_applied(image(EPOCH))
    core.metadata_applied(ClusterImage())
    assert [each.entry_id for each in completions(core)] == [SOUND]


# --- the driver ------------------------------------------------------------------------------------------------------


class Stream:
    peer = "gateway"

    def __init__(self) -> None:
        self.closed = ""
        self.sent = 0

    def send(self, data: bytes) -> None:
        self.sent += 1

    def close(self, reason: str) -> None:
        self.closed = reason


@pytest.fixture
async def driver() -> PurgatoryDriver:
    return PurgatoryDriver("purgatory-0", entries_max=100)


def opened(driver: PurgatoryDriver) -> tuple[Any, ParkStream]:
    stream: Any = Stream()
    return stream, driver.open_stream(stream)


def parked(*produces: ParkProduce) -> bytes:
    return pack_park_request(ParkRequest(produces=list(produces)))


async def test_it_is_reported_as_a_condition_and_the_stream_stays(
    driver: PurgatoryDriver, plant: Callable[..., None]
) -> None:
    assert driver.conditions() == []
    plant(ProduceWait, "judge")
    stream, park = opened(driver)
    park.on_message(parked(produce(POISON, condition()), produce(SOUND, condition())))
    await asyncio.sleep(0.05)
    assert (stream.closed, stream.sent) == ("", 1)
    (reported,) = driver.conditions()
    assert reported.kind is ConditionKind.CONTAINED_EXCEPTION
    assert "purgatory.entry (1)" in reported.text


@pytest.mark.parametrize("message", [True, False], ids=["a message", "the end of a stream"])
async def test_the_process_ends_by_what_all_entries_share(
    driver: PurgatoryDriver, monkeypatch: pytest.MonkeyPatch, message: bool
) -> None:
    _, park = opened(driver)
    park.on_message(parked(produce(SOUND, condition())))
    monkeypatch.setattr(TimingWheel, "cancel", raises)
    if message:
        park.on_message(pack_park_request(ParkRequest(cancels=[SOUND])))
    else:
        park.on_closed("gone")
    with pytest.raises(RuntimeError, match="half-changed"):
        await asyncio.shield(driver.failed)


async def test_an_image_that_cannot_be_applied_ends_the_process(
    driver: PurgatoryDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PurgatoryCore, "metadata_applied", raises)
    driver.metadata_updated(UpdateMetadata(1, True, "cluster", 1, [], [], []))
    with pytest.raises(RuntimeError, match="planted"):
        await driver.failed
