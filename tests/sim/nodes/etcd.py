"""etcd as a process of the cluster, and its client: requests and watches travel over connections that may be lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from barnabas.cluster.keys import ClusterRecord, Keys, decode_record
from barnabas.ports.etcd import AmbiguousResult, EtcdRefused, Get, Snapshot, Txn, TxnResult, WatchBatch
from tests.sim.etcd_model import EtcdModel, Fate, ModelWatch
from tests.sim.network import End, Network
from tests.sim.process import Process
from tests.sim.protocols import ETCD
from tests.sim.scheduler import MS, Event, Scheduler
from tests.sim.weather import Hit, unnoticed

ADDRESS = "etcd:2379"
REQUEST_TIMEOUT_US = 3_000 * MS
RETRY_US = 50 * MS
LEASE_CHECK_US = 500 * MS
# Watches and answers are streams of their own: neither waits for the other.
WATCH_US_MAX = 300


Result = TxnResult | EtcdRefused | AmbiguousResult | int


@dataclass(slots=True, frozen=True)
class Request:
    """`operation`: a Txn, or the name of a lease operation with its arguments."""

    request_id: int
    operation: Txn | tuple[str, int]

    def __str__(self) -> str:
        operation = self.operation
        if not isinstance(operation, Txn):
            return f"request {self.request_id} {operation[0]} {operation[1]}"
        keys = [each.key for each in operation.success]
        return f"request {self.request_id} txn of {keys}"


@dataclass(slots=True, frozen=True)
class Answer:
    request_id: int
    result: Result

    def __str__(self) -> str:
        result = self.result
        said = (result.succeeded, result.revision) if isinstance(result, TxnResult) else str(result)
        return f"answer {self.request_id} {said}"


@dataclass(slots=True, frozen=True)
class Watch:
    """Everything under `prefix` after `revision`; -1: a Snapshot first."""

    watch_id: int
    prefix: str
    revision: int

    def __str__(self) -> str:
        return f"watch {self.watch_id} of {self.prefix} after {self.revision}"


@dataclass(slots=True, frozen=True)
class Changed:
    watch_id: int
    change: Snapshot | WatchBatch

    def __str__(self) -> str:
        return f"change {self.watch_id} {type(self.change).__name__} at {self.change.revision}"


class EtcdNode(Process):
    """What it has answered survives everything that happens to it here. `changed` is called before any answer."""

    def __init__(self, scheduler: Scheduler, network: Network) -> None:
        super().__init__("etcd", scheduler, network)
        self.changed: Callable[[EtcdModel], None] = lambda model: None
        # Called with the name of the Txn's sender, and the revision before.
        self.wrote: Callable[[str, Txn, int], None] = lambda writer, txn, revision: None
        # The outcome of the next Txns that write, and who learns of it.
        self.fates: deque[tuple[Fate, Hit]] = deque()
        self.model = EtcdModel(self._fate_of)
        self.watch_lag_us: Callable[[], int] | None = None
        self.is_leaderless = False
        self._hit_by_leader_loss: Hit = unnoticed
        # What has been asked since.
        self._waiting: list[tuple[_Session, Request | Watch]] = []
        self._sessions: dict[int, _Session] = {}
        self._last_session_id = 0

    def boot(self) -> None:
        self._sessions.clear()
        self._waiting.clear()
        self.model.renew_all(self.now_ms)
        self.network.listen(ADDRESS, self, self._accept)
        self._expire_leases()

    def _accept(self, end: End) -> _Session:
        self._last_session_id += 1
        session = self._sessions[self._last_session_id] = _Session(self, self._last_session_id, end)
        return session

    def session_closed(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def _fate_of(self, txn: Txn) -> Fate:
        if not self.fates or all(isinstance(each, Get) for each in txn.success):
            return Fate.ANSWERED
        fate, hit = self.fates.popleft()
        hit()
        return fate

    def take(self, session: _Session, message: Request | Watch) -> None:
        """Without a leader everything waits; the caller may have given up when there is one again."""
        if self.is_leaderless:
            self._hit_by_leader_loss()
            self._waiting.append((session, message))
        else:
            session.perform(message)

    def perform(self, operation: Txn | tuple[str, int]) -> Result:
        result: Result
        model = self.model
        model.advance(self.now_ms)
        match operation:
            case Txn():
                try:
                    result = model.txn(operation)
                except (EtcdRefused, AmbiguousResult) as unhappy:
                    result = unhappy
            case ("grant", ttl_ms):
                result = model.grant(ttl_ms)
            case ("keep alive", lease):
                result = model.keep_alive(lease)
            case ("revoke", lease):
                model.revoke(lease)
                result = 0
            case _:
                raise AssertionError(operation)
        self.publish()
        return result

    # --- what goes wrong ---------------------------------------------------------------------------------------------

    def lose_leader(self, hit: Hit) -> None:
        """Nothing is answered, and no lease ends, until there is one again; `hit` is called for what has to wait."""
        self.is_leaderless = True
        self._hit_by_leader_loss = hit

    def elect_leader(self) -> None:
        """It gives every lease its whole TTL once more, and finds what was proposed meanwhile, or a part of it."""
        if not self.is_leaderless:
            return
        self.is_leaderless = False
        self.model.renew_all(self.now_ms)
        waiting, self._waiting = self._waiting, []
        for session, message in waiting if self.alive else ():
            if session.is_open:
                session.perform(message)
            elif isinstance(message, Request) and self.scheduler.random.random() < 0.5:
                self.perform(message.operation)

    def heal(self) -> None:
        self.fates.clear()
        self.watch_lag_us = None
        self.elect_leader()

    def end_a_lease(self) -> bool:
        """Some member's registration goes though it renews in time, as after a clock's jump at etcd."""
        leases = sorted(self.model._leases)
        if self.alive and leases:
            self.model.revoke(self.scheduler.random.choice(leases))
            self.publish()
        return self.alive and bool(leases)

    def compact(self) -> bool:
        """Forget the history: a watch that has to resume begins again with everything."""
        if self.model.revision <= self.model.compacted_revision:
            return False
        self.model.compact(self.model.revision)
        return True

    def publish(self) -> None:
        self.changed(self.model)
        for session in list(self._sessions.values()):
            session.publish()

    def _expire_leases(self) -> None:
        self.after(LEASE_CHECK_US, "looks for expired leases", self._expire_leases)
        if not self.is_leaderless:
            self.model.advance(self.now_ms)
        self.publish()


class _Session:
    """One client's connection, and the watches on it."""

    def __init__(self, node: EtcdNode, session_id: int, end: End) -> None:
        self._node = node
        self._session_id = session_id
        self._end = end
        self._watches: dict[int, ModelWatch] = {}
        self._is_telling = False
        self.is_open = True

    def on_message(self, message: Request | Watch) -> None:
        self._node.take(self, message)

    def perform(self, message: Request | Watch) -> None:
        match message:
            case Request():
                revision_before = self._node.model.revision
                answer = self._node.perform(message.operation)
                if isinstance(message.operation, Txn):
                    self._node.wrote(self._end.other.process.name, message.operation, revision_before)
                self._end.send(Answer(message.request_id, answer))
            case Watch(watch_id, prefix, revision):
                after_revision = None if revision < 0 else revision
                self._watches[watch_id] = self._node.model.watch(prefix, after_revision)
                self._node.publish()

    def publish(self) -> None:
        """Soon, in its own time."""
        if not self._is_telling and any(watch.is_behind for watch in self._watches.values()):
            self._is_telling = True
            lag_us = self._node.scheduler.below(WATCH_US_MAX)
            if self._node.watch_lag_us is not None:
                lag_us += self._node.watch_lag_us()
            self._node.after(lag_us, "tells those who watch", self._tell)

    def _tell(self) -> None:
        self._is_telling = False
        for watch_id, watch in self._watches.items():
            for change in watch.take():
                self._end.send(Changed(watch_id, change))

    def on_closed(self, reason: str) -> None:
        self.is_open = False
        self._node.session_closed(self._session_id)


@dataclass(slots=True)
class _Pending:
    operation: Txn | tuple[str, int]
    done: Callable[[Any], None]
    # Txns are sent once; everything else is repeated until it is answered.
    lost: Callable[[], None] | None
    timer: Event | None = None


@dataclass(slots=True)
class _Following:
    prefix: str
    on_change: Callable[[Snapshot | WatchBatch], None]
    revision: int = -1


class EtcdClient:
    """One connection, opened again when it is lost: reads and leases are repeated, watches resumed, a Txn never."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.keys = Keys()
        self._end: End | None = None
        self._pending: dict[int, _Pending] = {}
        self._watches: dict[int, _Following] = {}
        self._last_id = 0

    # --- requests ----------------------------------------------------------------------------------------------------

    def txn(
        self,
        txn: Txn,
        on_result: Callable[[TxnResult], None],
        on_ambiguous: Callable[[], None],
        on_refused: Callable[[str], None],
    ) -> None:
        """Exactly one of the three is called, once."""

        def done(result: TxnResult | EtcdRefused) -> None:
            if isinstance(result, EtcdRefused):
                on_refused(str(result))
            else:
                on_result(result)

        self._ask(_Pending(txn, done, on_ambiguous))

    def get(self, key: str, on_result: Callable[[TxnResult], None]) -> None:
        """A read of one key, however long it takes."""
        self._ask(_Pending(Txn((), (Get(key),)), on_result, None))

    def lease(self, operation: str, argument: int, on_result: Callable[[int], None]) -> None:
        """ "grant" (TTL in ms → lease), "keep alive" (lease → 0: gone), "revoke" (lease → 0)."""
        self._ask(_Pending((operation, argument), on_result, None))

    def when_present(self, key: str, on_value: Callable[[bytes], None]) -> None:
        """Call once with the value of `key`, as soon as it has one."""

        def look(result: TxnResult) -> None:
            if result.reads[0]:
                on_value(result.reads[0][0].value)
            else:
                self.process.after(200 * MS, f"looks for {key} again", lambda: self.get(key, look))

        self.get(key, look)

    def cluster_id_of(self, value: bytes) -> str:
        record = decode_record(self.keys, self.keys.cluster, value)
        assert isinstance(record, ClusterRecord)
        return record.cluster_id

    def _ask(self, pending: _Pending) -> None:
        self._last_id += 1
        request_id = self._last_id
        self._pending[request_id] = pending
        self._connected().send(Request(request_id, pending.operation))
        pending.timer = self.process.after(
            REQUEST_TIMEOUT_US, f"waits no longer for etcd's answer {request_id}", self._late
        )

    def _late(self) -> None:
        if self._end is not None:
            self._end.close("no answer in time")
            self.on_closed("no answer in time")

    # --- watches -----------------------------------------------------------------------------------------------------

    def watch(self, prefix: str, on_change: Callable[[Snapshot | WatchBatch], None]) -> None:
        """Follow everything under `prefix`, through outages: a Snapshot first, then what changes."""
        self._last_id += 1
        following = self._watches[self._last_id] = _Following(prefix, on_change)
        self._connected().send(Watch(self._last_id, prefix, following.revision))

    # --- the connection ----------------------------------------------------------------------------------------------

    def _connected(self) -> End:
        if self._end is None:
            self._end = self.process.network.connect(ETCD, self.process, ADDRESS, self)
            for watch_id, following in self._watches.items():
                self._end.send(Watch(watch_id, following.prefix, following.revision))
        return self._end

    def on_message(self, message: Answer | Changed) -> None:
        match message:
            case Answer(request_id, result):
                pending = self._pending.pop(request_id, None)
                if pending is not None:
                    assert pending.timer is not None
                    pending.timer.cancelled = True
                    if isinstance(result, AmbiguousResult):
                        self._no_answer(pending)
                    else:
                        pending.done(result)
            case Changed(watch_id, change):
                following = self._watches[watch_id]
                following.revision = change.revision
                following.on_change(change)

    def on_closed(self, reason: str) -> None:
        self._end = None
        lost, self._pending = self._pending, {}
        for pending in lost.values():
            assert pending.timer is not None
            pending.timer.cancelled = True
            self._no_answer(pending)
        self.process.after(RETRY_US, "connects to etcd again", self._reconnect)

    def _no_answer(self, pending: _Pending) -> None:
        if pending.lost is not None:
            pending.lost()
        else:
            self.process.after(RETRY_US, "asks etcd again", lambda: self._ask(pending))

    def _reconnect(self) -> None:
        self._connected()
