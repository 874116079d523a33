"""Purgatory agrees with a model that looks at every entry after every step.

The model knows conditions and states only; the core's heaps, sums and watches must not show, nor how much of the work
is done in one turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from barnabas.channel.messages import (
    FetchCondition,
    Outcome,
    ParkFetch,
    ParkProduce,
    PartitionState,
    ProduceCondition,
)
from barnabas_purgatory.core.outputs import Outputs
from barnabas_purgatory.core.purgatory import PurgatoryCore
from barnabas_purgatory.core.turn_work import STEPS_PER_TURN
from tests.tiers import Cost, examples

NODES = (1, 2)
TOPICS = (b"a" * 16, b"b" * 16)
PARTITIONS = (0, 1)
NOT_LEADER, TIMED_OUT, AFTER_APPEND, STORAGE = 6, 7, 20, 56

# Mostly one logstore, one topic and one epoch: what is rare must not keep the common from meeting.
node = st.sampled_from((1, 1, 1, 1, 2))
topic_id = st.sampled_from((TOPICS[0], TOPICS[0], TOPICS[0], TOPICS[1]))
partition = st.sampled_from(PARTITIONS)
epoch = st.sampled_from((1, 1, 1, 1, 0, 2))
offset = st.integers(0, 6)
produce_condition = st.builds(ProduceCondition, topic_id, partition, node, epoch, offset)
fetch_condition = st.builds(
    FetchCondition,
    topic_id,
    partition,
    node,
    epoch,
    offset,
    st.sampled_from((0, 5, 12, 30)),
    st.just(0) | st.just(1),
    st.booleans(),
)
moved = st.tuples(
    st.just("state"),
    node,
    topic_id,
    partition,
    st.sampled_from((1, 1, 1, 1, 1, 1, 1, -1, 2)),
    offset,
    st.sampled_from((0, 0, 0, 0, 3)),
    st.sampled_from((0, 1, 2, *range(3, 30))),
)
step = st.one_of(
    st.tuples(st.just("produce"), st.integers(1, 90), st.lists(produce_condition, max_size=3)),
    st.tuples(
        st.just("fetch"), st.integers(1, 90), st.sampled_from((0, 1, 3, 10, 20)), st.lists(fetch_condition, max_size=3)
    ),
    moved,
    moved,
    st.tuples(st.just("advance"), st.integers(0, 40)),
    st.tuples(st.just("cancel"), st.integers(0, 30)),
    st.tuples(st.just("down"), node),
    st.tuples(st.just("up"), node),
)


@dataclass
class Entry:
    park: ParkProduce | ParkFetch
    deadline_ms: int
    codes: list[int | None] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    """Up to where each condition of a fetch was ever known to be readable."""


@dataclass
class Model:
    states: dict[tuple[int, bytes, int], PartitionState] = field(default_factory=dict)
    up: set[int] = field(default_factory=set)
    entries: dict[int, Entry] = field(default_factory=dict)
    completed: list[tuple[int, Outcome, tuple[int, ...]]] = field(default_factory=list)

    def known(self, condition: ProduceCondition | FetchCondition) -> PartitionState | None:
        if condition.leader_id not in self.up:
            return None
        return self.states.get((condition.leader_id, condition.topic_id, condition.partition))

    def settle(self) -> None:
        for entry_id, entry in list(self.entries.items()):
            if isinstance(entry.park, ParkProduce):
                self._settle_produce(entry_id, entry, entry.park)
            else:
                self._settle_fetch(entry_id, entry, entry.park)

    def _settle_produce(self, entry_id: int, entry: Entry, park: ParkProduce) -> None:
        for index, condition in enumerate(park.conditions):
            state = self.known(condition)
            if state is None or entry.codes[index] is not None:
                continue
            if state.leader_epoch == condition.leader_epoch and not state.online:
                entry.codes[index] = STORAGE
            elif state.leads_since(condition.leader_epoch):
                if state.high_watermark >= condition.required_offset:
                    entry.codes[index] = 0 if state.in_sync_replicas_at_minimum else AFTER_APPEND
            elif state.leader_epoch >= condition.leader_epoch or state.leader_epoch == -1:
                entry.codes[index] = NOT_LEADER
        if None not in entry.codes:
            codes = tuple(code for code in entry.codes if code is not None)
            self._complete(entry_id, Outcome.FENCED if any(codes) else Outcome.SATISFIED, codes)

    def _settle_fetch(self, entry_id: int, entry: Entry, park: ParkFetch) -> None:
        for index, condition in enumerate(park.conditions):
            state = self.known(condition)
            if state is None or -1 < state.leader_epoch < condition.leader_epoch:
                continue
            serves = state.leading or condition.from_follower
            is_same = state.leader_epoch == condition.leader_epoch and state.online
            if not (is_same and serves) or state.log_start_offset > condition.fetch_offset:
                self._complete(entry_id, Outcome.FENCED, ())
                return
            known = entry.positions.get(index, condition.fetch_position)
            entry.positions[index] = max(known, state.high_watermark_position)
        total = sum(entry.positions[index] - park.conditions[index].fetch_position for index in entry.positions)
        if total >= park.bytes_wanted:
            self._complete(entry_id, Outcome.SATISFIED, ())

    def expire(self, now_ms: int) -> None:
        for entry_id, entry in list(self.entries.items()):
            if entry.deadline_ms <= now_ms:
                codes = tuple(TIMED_OUT if code is None else code for code in entry.codes)
                self._complete(entry_id, Outcome.EXPIRED, codes)

    def _complete(self, entry_id: int, outcome: Outcome, codes: tuple[int, ...]) -> None:
        del self.entries[entry_id]
        self.completed.append((entry_id, outcome, codes))


def logstore_state(key: tuple[int, bytes, int], known: PartitionState | None, step: tuple) -> PartitionState:  # type: ignore[type-arg]
    """The next state of a partition: offsets and positions never go back within an epoch, nor do epochs."""
    _, _, topic_id, partition, leader_epoch, high_watermark, log_start, kind = step
    if leader_epoch == -1:
        return PartitionState(topic_id, partition)
    if known is not None and leader_epoch < known.leader_epoch:
        leader_epoch = known.leader_epoch
    if known is not None and known.leader_epoch == leader_epoch:
        high_watermark = max(high_watermark, known.high_watermark)
        log_start = max(log_start, known.log_start_offset)
    online, leading, at_minimum = kind != 0, kind != 1, kind != 2
    has_led = known is not None and known.leading and known.online and kind != 3
    earlier = leader_epoch - known.leader_epoch + known.earlier_epochs_led if known is not None and has_led else 0
    return PartitionState(
        topic_id,
        partition,
        leader_epoch,
        high_watermark,
        high_watermark,
        log_start,
        high_watermark * 5,
        leading,
        online,
        at_minimum,
        earlier if leading and online else 0,
    )


def take_all(core: PurgatoryCore, now_ms: int, steps_per_turn: int) -> Outputs:
    """What the next turns come to, until nothing is left to be done."""
    outputs = core.take_outputs()
    while (due_ms := core.next_deadline_ms()) is not None and due_ms <= now_ms:
        core._work.steps_left = steps_per_turn
        core.expire(now_ms)
        following = core.take_outputs()
        for each in ("completions", "watches", "unwatches"):
            mine = getattr(outputs, each)
            for key, values in getattr(following, each).items():
                mine.setdefault(key, []).extend(values)
    return outputs


@examples(Cost.LOW)
@given(
    steps=st.lists(step, min_size=20, max_size=60),
    steps_at_once=st.sampled_from((0, 1, 2, STEPS_PER_TURN)),
    steps_per_turn=st.sampled_from((1, 2, STEPS_PER_TURN)),
)
def test_purgatory_completes_what_a_look_at_everything_would(
    steps: list[tuple],  # type: ignore[type-arg]
    steps_at_once: int,
    steps_per_turn: int,
) -> None:
    """With `steps_at_once` done as something arrives, and so many in each turn after that."""
    core, model = PurgatoryCore(now_ms=0), Model()
    published: dict[tuple[int, bytes, int], PartitionState] = {}
    watched: dict[int, set[tuple[bytes, int]]] = {each: set() for each in NODES}
    now_ms = 0
    for entry_id, each in enumerate([("up", 1), *steps]):
        core._work.steps_left = steps_at_once
        match each[0]:
            case "produce":
                park = ParkProduce(entry_id, each[1], each[2])
                model.entries[entry_id] = Entry(park, now_ms + park.wait_ms, [None] * len(park.conditions))
                core.park_produce(0, park, now_ms)
            case "fetch":
                fetch = ParkFetch(entry_id, each[1], each[2], each[3])
                model.entries[entry_id] = Entry(fetch, now_ms + fetch.wait_ms)
                core.park_fetch(0, fetch, now_ms)
            case "state":
                key = each[1:4]
                published[key] = logstore_state(key, published.get(key), each)
                if key[1:] in watched[key[0]]:
                    model.states[key] = published[key]
                    core.partition_states(key[0], [published[key]])
            case "advance":
                now_ms += each[1]
                core.expire(now_ms)
                model.expire(now_ms)
            case "cancel":
                model.entries.pop(each[1], None)
                core.cancel(0, each[1])
            case "down":
                core.logstore_down(each[1])
                model.up.discard(each[1])
                watched[each[1]].clear()
                model.states = {key: state for key, state in model.states.items() if key[0] != each[1]}
            case "up" if each[1] not in model.up:
                core.logstore_up(each[1])
                model.up.add(each[1])
        model.settle()
        outputs = take_all(core, now_ms, steps_per_turn)
        answered = [(c.entry_id, c.outcome, tuple(c.error_codes)) for c in outputs.completions.get(0, [])]
        for node_id, partitions in outputs.watches.items():
            for one in partitions:
                watched[node_id].add((one.topic_id, one.partition))
                key = (node_id, one.topic_id, one.partition)
                # The logstore's first answer to a watch: the present state.
                model.states[key] = published.get(key, PartitionState(one.topic_id, one.partition))
                core.partition_states(node_id, [model.states[key]])
                model.settle()
        for node_id, partitions in outputs.unwatches.items():
            for one in partitions:
                watched[node_id].remove((one.topic_id, one.partition))
                model.states.pop((node_id, one.topic_id, one.partition), None)
        model.settle()
        second = take_all(core, now_ms, steps_per_turn)
        answered += [(c.entry_id, c.outcome, tuple(c.error_codes)) for c in second.completions.get(0, [])]
        assert not second.watches
        for node_id, partitions in second.unwatches.items():
            for one in partitions:
                watched[node_id].remove((one.topic_id, one.partition))
                model.states.pop((node_id, one.topic_id, one.partition), None)
        assert sorted(answered) == sorted(model.completed)
        model.completed.clear()
        assert core.entries == sum(max(1, len(entry.park.conditions)) for entry in model.entries.values())
    core.expire(now_ms + 1_000)
    take_all(core, now_ms + 1_000, STEPS_PER_TURN)
    assert (core.entries, core.watched_partitions, core.next_deadline_ms()) == (0, 0, None)
