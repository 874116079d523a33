"""Random programs of what Barnabas asks of etcd, to be run by a real one and by its model, answer for answer.

A program names its leases and watches by number, in the order in which they are made, so that it is the same for both.
It is made beside an honest model, from whose revisions it chooses: most compares hold, most watches begin where
something is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from barnabas.ports.etcd import (
    Compare,
    CompareTarget,
    Delete,
    EtcdRefused,
    Get,
    KeyValue,
    Operation,
    Put,
    Snapshot,
    Txn,
    TxnResult,
    WatchBatch,
    WatchEvent,
    absent,
    created_at,
    modified_at,
    prefix_end,
)
from tests.sim.etcd_model import EtcdModel, ModelWatch

KEYS = ("/m/a", "/m/b", "/m/c", "/m/d", "/n/a")
PREFIXES = ("/m/", "/n/", "/")
MARKER = "marker"
# A lease that was never granted.
NO_SUCH_LEASE = 77
TTL_S = 60


@dataclass(slots=True, frozen=True)
class Transaction:
    """Leases of its puts are numbers of the program; answered with a TxnResult or why it was refused."""

    txn: Txn


@dataclass(slots=True, frozen=True)
class ReadPrefix:
    """Answered with the revision and the keys."""

    prefix: str


@dataclass(slots=True, frozen=True)
class Grant:
    """Answered with the TTL that was granted, in seconds."""

    ttl_s: int


@dataclass(slots=True, frozen=True)
class KeepAlive:
    """Answered with the TTL in seconds, 0 where the lease is gone."""

    lease: int


@dataclass(slots=True, frozen=True)
class Revoke:
    """Answered with whether it was there."""

    lease: int


@dataclass(slots=True, frozen=True)
class AskWhetherAlive:
    """Answered with whether it lives."""

    lease: int


@dataclass(slots=True, frozen=True)
class Compact:
    """Answered with nothing or why it was refused."""

    revision: int


@dataclass(slots=True, frozen=True)
class OpenWatch:
    """From `start_revision` on, both past and future."""

    prefix: str
    start_revision: int


@dataclass(slots=True, frozen=True)
class Drain:
    """A change under the watch's prefix, and everything that the watch has delivered up to that: events by revision.

    Answered with "compacted" where the start is compacted away; the watch is over then.
    """

    watch: int


Step = Transaction | ReadPrefix | Grant | KeepAlive | Revoke | AskWhetherAlive | Compact | OpenWatch | Drain
Events = tuple[tuple[int, tuple[WatchEvent, ...]], ...]
Read = tuple[int, tuple[KeyValue, ...]]
Answer = TxnResult | Read | Events | str | int | bool | None


def marker_txn(prefix: str) -> Txn:
    return Txn((), (Put(prefix + MARKER, b""),))


class Author:
    """Writes a program, step by step, beside a model of its own."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._leases = 0
        self._watches: list[OpenWatch] = []
        self._model = ModelEtcd()
        self.steps: list[Step] = []
        self.answers: list[Answer] = []

    def write(self, step_count: int) -> list[Step]:
        makers = (
            (30, self._transaction),
            (3, self._read),
            (3, self._grant),
            (2, self._lease),
            (3, self._watch),
            (4, self._drain),
            (1, self._compact),
        )
        weights = [weight for weight, _ in makers]
        while len(self.steps) < step_count:
            ((_, make),) = self._random.choices(makers, weights)
            make()
        for watch in range(len(self._watches)):
            self._add(Drain(watch))
        self._add(ReadPrefix("/"))
        return self.steps

    def _add(self, step: Step) -> None:
        self.steps.append(step)
        self.answers.append(self._model.answer(step))

    # --- steps -------------------------------------------------------------------------------------------------------

    def _transaction(self) -> None:
        random = self._random
        compares = tuple(self._compare(key) for key in random.sample(KEYS, random.randrange(3)))
        success, failure = (
            tuple(self._operation(key) for key in random.choices(KEYS, k=random.randrange(4))) for _ in range(2)
        )
        if random.random() < 0.02:
            success = tuple(Put(f"/n/{number}", b"") for number in range(random.choice((128, 129))))
        self._add(Transaction(Txn(compares, success, failure)))

    def _operation(self, key: str) -> Operation:
        random = self._random
        match random.randrange(6):
            case 0 | 1 | 2:
                leases = [0, 0, *range(1, 1 + self._leases)]
                lease = NO_SUCH_LEASE if random.random() < 0.02 else random.choice(leases)
                return Put(key, random.randbytes(random.randrange(4)), lease)
            case 3:
                return random.choice([Delete(key), Delete("/m/a", "/m/c"), Delete("/m/c", "/m/a")])
            case _:
                return random.choice([Get(key), Get("/m/", "/m0"), Get("/m/c", "/m/b")])

    def _compare(self, key: str) -> Compare:
        found = self._model.model.get(Get(key))
        right_mod = found[0].mod_revision if found else 0
        right_create = found[0].create_revision if found else 0
        any_revision = self._random.randrange(1 + self._model.model.revision)
        return self._random.choice(
            [
                absent(key),
                modified_at(key, right_mod),
                modified_at(key, right_mod),
                created_at(key, right_create),
                created_at(key, right_create),
                Compare(key, CompareTarget.MOD_REVISION, any_revision),
                Compare(key, CompareTarget.CREATE_REVISION, any_revision),
            ]
        )

    def _read(self) -> None:
        self._add(ReadPrefix(self._random.choice(PREFIXES)))

    def _grant(self) -> None:
        self._leases += 1
        self._add(Grant(TTL_S + self._random.randrange(3)))

    def _lease(self) -> None:
        lease = self._random.choice([NO_SUCH_LEASE, *range(1, 1 + self._leases)])
        steps: list[Step] = [KeepAlive(lease), Revoke(lease), AskWhetherAlive(lease)]
        self._add(self._random.choice(steps))

    def _watch(self) -> None:
        model = self._model.model
        start = self._random.choice(
            [
                model.revision + 1,
                self._random.randrange(1, model.revision + 3),
                model.compacted_revision,
                model.compacted_revision + 1,
            ]
        )
        start = max(1, start)
        if start == model.compacted_revision and any(event.deleted for event in model.history(start)):
            # etcd before 3.4.37 and 3.5.22 may lose a deletion at the very revision that was compacted (its issue
            # 19179): the model keeps it, as newer ones do.
            start += 1
        self._watches.append(OpenWatch(self._random.choice(PREFIXES), start))
        self._add(self._watches[-1])

    def _drain(self) -> None:
        if self._watches:
            self._add(Drain(self._random.randrange(len(self._watches))))

    def _compact(self) -> None:
        # Only behind all watches: how far etcd has come with telling them is not for a test to know.
        drained_upto = self._model.model.revision
        for watch in range(len(self._watches)):
            self._add(Drain(watch))
        future = self._model.model.revision + 1
        self._add(Compact(future if self._random.random() < 0.1 else self._random.randrange(1, drained_upto + 1)))


class ModelEtcd:
    """Runs programs against the model."""

    def __init__(self, model: EtcdModel | None = None) -> None:
        self.model = model if model is not None else EtcdModel()
        # By number in the program, from 1 on.
        self._leases: dict[int, int] = {0: 0, NO_SUCH_LEASE: NO_SUCH_LEASE}
        self._numbers: dict[int, int] = {0: 0}
        self._watches: list[ModelWatchOf] = []

    def answer(self, step: Step) -> Answer:
        model = self.model
        match step:
            case Transaction(txn):
                try:
                    return renumbered(model.txn(with_leases(txn, self._leases)), self._numbers)
                except EtcdRefused as refused:
                    return str(refused)
            case ReadPrefix(prefix):
                found = model.get(Get(prefix, prefix_end(prefix)))
                return model.revision, tuple(with_number(each, self._numbers) for each in found)
            case Grant(ttl_s):
                lease = model.grant(ttl_s * 1000)
                number = len(self._numbers)
                self._leases[number], self._numbers[lease] = lease, number
                return model.time_to_live_ms(lease) // 1000
            case KeepAlive(lease):
                return model.keep_alive(self._leases[lease]) // 1000
            case Revoke(lease):
                return model.revoke(self._leases[lease])
            case AskWhetherAlive(lease):
                return model.time_to_live_ms(self._leases[lease]) > 0
            case Compact(revision):
                try:
                    model.compact(revision)
                except EtcdRefused as refused:
                    return str(refused)
                return None
            case OpenWatch(prefix, start_revision):
                watch = model.watch(prefix, after_revision=start_revision - 1)
                self._watches.append(ModelWatchOf(prefix, start_revision, watch))
                return None
            case Drain(number):
                return self._drain(self._watches[number])

    def _drain(self, watch: ModelWatchOf) -> Answer:
        if watch.is_over:
            return "over"
        while self.model.txn(marker_txn(watch.prefix)).revision < watch.start_revision:
            pass
        changes = watch.watch.take()
        if any(isinstance(change, Snapshot) for change in changes):
            watch.is_over = True
            return "compacted"
        return tuple(
            (change.revision, tuple(numbered_event(event, self._numbers) for event in change.events))
            for change in changes
            if isinstance(change, WatchBatch)
        )


@dataclass(slots=True)
class ModelWatchOf:
    prefix: str
    start_revision: int
    watch: ModelWatch
    is_over: bool = False


# --- leases by number ------------------------------------------------------------------------------------------------


def with_leases(txn: Txn, leases: dict[int, int]) -> Txn:
    """The program's numbers as one etcd's leases."""

    def translated(operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
        return tuple(
            Put(each.key, each.value, leases[each.lease]) if isinstance(each, Put) else each for each in operations
        )

    return Txn(txn.compares, translated(txn.success), translated(txn.failure))


def renumbered(result: TxnResult, numbers: dict[int, int]) -> TxnResult:
    reads = tuple(tuple(with_number(each, numbers) for each in read) for read in result.reads)
    return TxnResult(result.succeeded, result.revision, reads)


def numbered_event(event: WatchEvent, numbers: dict[int, int]) -> WatchEvent:
    return WatchEvent(with_number(event.key_value, numbers), event.deleted)


def with_number(key_value: KeyValue, numbers: dict[int, int]) -> KeyValue:
    return replace(key_value, lease=numbers[key_value.lease])
