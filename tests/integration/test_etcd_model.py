"""The model of etcd against a real one, operation by operation: the same programs, the same answers.

What Barnabas does not ask of etcd (compares of versions and values, filters and previous values of watches, reads of
old revisions) is in neither `barnabas.ports.etcd` nor the model. A planted difference has to be seen: otherwise this
would prove nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import grpc
import grpc.aio
import pytest

from barnabas.ports.etcd import (
    Compare,
    CompareTarget,
    EtcdRefused,
    Get,
    KeyValue,
    Operation,
    Put,
    Txn,
    TxnResult,
    WatchEvent,
    prefix_end,
)
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.etcd import EtcdClient, values
from barnabas_protos.etcd.v1 import rpc_pb2 as pb
from barnabas_protos.etcd.v1 import rpc_pb2_grpc as rpc
from tests.integration.etcd_process import EtcdProcess, needs_etcd
from tests.integration.etcd_programs import (
    NO_SUCH_LEASE,
    TTL_S,
    Answer,
    AskWhetherAlive,
    Author,
    Compact,
    Drain,
    Grant,
    KeepAlive,
    ModelEtcd,
    OpenWatch,
    ReadPrefix,
    Revoke,
    Step,
    Transaction,
    marker_txn,
    numbered_event,
    renumbered,
    with_leases,
    with_number,
)
from tests.sim.etcd_model import EtcdModel, ModelWatch

if TYPE_CHECKING:
    # The generated asynchronous flavours exist in the stubs only.
    from barnabas_protos.etcd.v1.rpc_pb2_grpc import LeaseAsyncStub, WatchAsyncStub

pytestmark = [pytest.mark.integration, needs_etcd, pytest.mark.deep]

SEEDS = range(12)
STEPS = 250
ELECTION_MS = 1_000
"""The default of etcd, and so the shortest lease that the model grants."""


class RealEtcd:
    """Runs programs against a real etcd, each in a store of its own."""

    def __init__(self, endpoint: str) -> None:
        self.client = EtcdClient([endpoint], monotonic_ms)
        self._channel = grpc.aio.insecure_channel(endpoint, options=[("grpc.enable_http_proxy", 0)])
        self._leases: dict[int, int] = {0: 0, NO_SUCH_LEASE: NO_SUCH_LEASE}
        self._numbers: dict[int, int] = {0: 0}
        self._watches: list[RealWatch] = []

    async def begin(self) -> None:
        await self.client.version(timeout_ms=10_000)

    async def close(self) -> None:
        for watch in self._watches:
            watch.close()
        await self.client.close()
        await self._channel.close(None)

    async def answer(self, step: Step) -> Answer:
        client = self.client
        match step:
            case Transaction(txn):
                try:
                    return renumbered(await client.txn(with_leases(txn, self._leases)), self._numbers)
                except EtcdRefused as refused:
                    return str(refused)
            case ReadPrefix(prefix):
                snapshot = await client.get_prefix(prefix)
                return snapshot.revision, tuple(with_number(each, self._numbers) for each in snapshot.key_values)
            case Grant(ttl_s):
                lease = await client.grant(ttl_s * 1000)
                number = len(self._numbers)
                self._leases[number], self._numbers[lease.lease_id] = lease.lease_id, number
                return lease.ttl_ms // 1000
            case KeepAlive(lease_number):
                return await self._keep_alive(self._leases[lease_number])
            case Revoke(lease_number):
                return await self._revoke(self._leases[lease_number])
            case AskWhetherAlive(lease_number):
                return await client.time_to_live_ms(self._leases[lease_number]) > 0
            case Compact(revision):
                try:
                    await client.compact(revision)
                except EtcdRefused as refused:
                    return str(refused)
                return None
            case OpenWatch():
                watch = RealWatch(step)
                await watch.open(self._channel)
                self._watches.append(watch)
                return None
            case Drain(number):
                return await self._drain(self._watches[number])

    async def _keep_alive(self, lease: int) -> int:
        call = lease_stub(self._channel).LeaseKeepAlive()  # type: ignore[call-arg]  # requests are written
        await call.write(pb.LeaseKeepAliveRequest(ID=lease))
        response = await call.read()
        assert isinstance(response, pb.LeaseKeepAliveResponse)
        call.cancel()
        return response.TTL

    async def _revoke(self, lease: int) -> bool:
        try:
            await lease_stub(self._channel).LeaseRevoke(pb.LeaseRevokeRequest(ID=lease))
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            return False
        return True

    async def _drain(self, watch: RealWatch) -> Answer:
        if watch.is_over:
            return "over"
        opened = watch.opened
        while (upto := (await self.client.txn(marker_txn(opened.prefix))).revision) < opened.start_revision:
            pass
        batches = await watch.read(upto)
        if batches is None:
            return "compacted"
        return tuple(
            (revision, tuple(numbered_event(event, self._numbers) for event in events))
            for revision, events in batches.items()
        )


@dataclass(slots=True, eq=False)
class RealWatch:
    opened: OpenWatch
    is_over: bool = False
    _call: grpc.aio.StreamStreamCall[pb.WatchRequest, pb.WatchResponse] = field(init=False)
    _read: dict[int, list[WatchEvent]] = field(default_factory=dict)

    async def open(self, channel: grpc.aio.Channel) -> None:
        """Until etcd says that it watches."""
        prefix = self.opened.prefix
        stub: WatchAsyncStub = rpc.WatchStub(channel)
        self._call = stub.Watch()  # type: ignore[call-arg]  # requests are written
        create = pb.WatchCreateRequest(
            key=prefix.encode(), range_end=prefix_end(prefix).encode(), start_revision=self.opened.start_revision
        )
        await self._call.write(pb.WatchRequest(create_request=create))
        response = await self._call.read()
        assert isinstance(response, pb.WatchResponse)
        assert response.created

    async def read(self, upto_revision: int) -> dict[int, list[WatchEvent]] | None:
        """Events by revision, each in one answer; None where the start is compacted away."""
        batches: dict[int, list[WatchEvent]] = {}
        while upto_revision not in batches:
            async with asyncio.timeout(10):
                response = await self._call.read()
            assert isinstance(response, pb.WatchResponse)
            if response.compact_revision:
                assert response.canceled
                self.is_over = True
                return None
            begun = set(batches)
            for event in map(values.watch_event, response.events):
                revision = event.key_value.mod_revision
                assert revision not in begun, "the changes of one revision come in one answer"
                batches.setdefault(revision, []).append(event)
        return batches

    def close(self) -> None:
        self._call.cancel()


def lease_stub(channel: grpc.aio.Channel) -> LeaseAsyncStub:
    return rpc.LeaseStub(channel)


Transcript = tuple[list[Step], list[Answer]]


@pytest.fixture(scope="module")
def transcripts(tmp_path_factory: pytest.TempPathFactory) -> list[Transcript]:
    """What a real etcd answers to each of the programs."""

    async def run(endpoint: str, steps: list[Step]) -> list[Answer]:
        real = RealEtcd(endpoint)
        await real.begin()
        try:
            return [await real.answer(step) for step in steps]
        finally:
            await real.close()

    made = []
    for seed in SEEDS:
        process = EtcdProcess(tmp_path_factory.mktemp("etcd"))
        process.start()
        steps = Author(seed).write(STEPS)
        try:
            made.append((steps, asyncio.run(run(process.endpoint, steps))))
        finally:
            process.kill()
    return made


def first_difference(model: EtcdModel, transcript: Transcript) -> str:
    """What a model answers otherwise; "" when it is etcd to the letter."""
    ours = ModelEtcd(model)
    for number, (step, expected) in enumerate(zip(*transcript, strict=True)):
        try:
            answer = ours.answer(step)
        except (AssertionError, KeyError) as error:
            return f"step {number}, {step}: {error!r}"
        if answer != expected:
            return f"step {number}, {step}: etcd says {expected}, the model {answer}"
    return ""


@pytest.mark.parametrize("seed", SEEDS)
def test_the_model_answers_as_etcd_does(transcripts: list[Transcript], seed: int) -> None:
    assert not first_difference(EtcdModel(), transcripts[seed])


def test_the_programs_ask_for_everything_and_get_every_kind_of_answer(transcripts: list[Transcript]) -> None:
    asked = {type(step) for steps, _ in transcripts for step in steps}
    assert asked == set(get_args(Step))
    answers = [answer for _, given in transcripts for answer in given]
    assert {answer for answer in answers if isinstance(answer, str)} == {
        "etcdserver: duplicate key given in txn request",
        "etcdserver: too many operations in txn request",
        "etcdserver: requested lease not found",
        "etcdserver: mvcc: required revision has been compacted",
        "etcdserver: mvcc: required revision is a future revision",
        "compacted",
        "over",
    }
    taken = {answer.succeeded for answer in answers if isinstance(answer, TxnResult)}
    assert taken == {True, False}


# --- planted differences ---------------------------------------------------------------------------------------------


class IgnoresCompares(EtcdModel):
    def _holds(self, compare: Compare) -> bool:
        return True


class ComparesCreateAsMod(EtcdModel):
    def _holds(self, compare: Compare) -> bool:
        return super()._holds(replace(compare, target=CompareTarget.MOD_REVISION))


class HoldsForAbsentKeys(EtcdModel):
    def _holds(self, compare: Compare) -> bool:
        return compare.key not in self._keys or super()._holds(compare)


class ARevisionPerPut(EtcdModel):
    def _operate(self, operation: Operation, before: int) -> tuple[KeyValue, ...]:
        return super()._operate(operation, self.revision)


class ARevisionPerTxn(EtcdModel):
    def txn(self, txn: Txn) -> TxnResult:
        before = self.revision
        result = super().txn(txn)
        self.revision = before + 1
        return replace(result, revision=self.revision)


class ReadsBeforeItWrites(EtcdModel):
    def _operate(self, operation: Operation, before: int) -> tuple[KeyValue, ...]:
        found = super()._operate(operation, before)
        if isinstance(operation, Get):
            return tuple(each for each in found if each.mod_revision <= before)
        return found


class CreatesAgain(EtcdModel):
    def _put_key(self, put: Put) -> None:
        super()._put_key(put)
        self._keys[put.key] = replace(self._keys[put.key], create_revision=self.revision)


class KeepsTheOldLease(EtcdModel):
    def _put_key(self, put: Put) -> None:
        found = self._keys.get(put.key)
        super()._put_key(put if put.lease or found is None else replace(put, lease=found.lease))


class RangesAreInclusive(EtcdModel):
    def _range(self, key: str, range_end: str) -> list[str]:
        return sorted(each for each in self._keys if key <= each <= range_end)


class TakesDuplicates(EtcdModel):
    def _check(self, txn: Txn) -> None:
        for operation in txn.success:
            if isinstance(operation, Put) and operation.lease and operation.lease not in self._leases:
                raise EtcdRefused("etcdserver: requested lease not found")


class ForgetsLeasesOfDeletedKeys(EtcdModel):
    """A key that has moved to another lease goes with its first one."""

    def _put_key(self, put: Put) -> None:
        found = self._keys.get(put.key)
        super()._put_key(put)
        if found is not None and found.lease in self._leases:
            self._leases[found.lease].keys[put.key] = None

    def _delete_key(self, key: str) -> None:
        if key in self._keys:
            super()._delete_key(key)


class RevokesWithoutTheKeys(EtcdModel):
    def revoke(self, lease: int) -> bool:
        return self._leases.pop(lease, None) is not None


class RevokesKeyByKey(EtcdModel):
    def _delete_key(self, key: str) -> None:
        if any(key in lease.keys for lease in self._leases.values()):
            self.revision += 1
        super()._delete_key(key)


class RenewsWhatIsGone(EtcdModel):
    def keep_alive(self, lease: int) -> int:
        return super().keep_alive(lease) or TTL_S * 1000


class ForgetsTheCompactedRevision(EtcdModel):
    def compact(self, revision: int) -> None:
        super().compact(revision)
        self._history.pop(revision, None)


class CompactsTwice(EtcdModel):
    def compact(self, revision: int) -> None:
        if revision != self.compacted_revision:
            super().compact(revision)


class CompactsTheFuture(EtcdModel):
    def compact(self, revision: int) -> None:
        super().compact(min(revision, self.revision))


class WatchesFromTheNextRevision(EtcdModel):
    def watch(self, prefix: str, after_revision: int | None = None) -> ModelWatch:
        return super().watch(prefix, after_revision and after_revision + 1)


class WatchesWhatIsCompacted(EtcdModel):
    def watch(self, prefix: str, after_revision: int | None = None) -> ModelWatch:
        return super().watch(prefix, after_revision and max(after_revision, self.compacted_revision - 1))


class DeletionsTellTheirOldValue(EtcdModel):
    def _delete_key(self, key: str) -> None:
        found = self._keys[key]
        super()._delete_key(key)
        reported = self._history[self.revision].pop()
        self._history[self.revision].append(replace(reported, key_value=replace(reported.key_value, value=found.value)))


@pytest.mark.parametrize(
    "mutant",
    [
        IgnoresCompares,
        ComparesCreateAsMod,
        HoldsForAbsentKeys,
        ARevisionPerPut,
        ARevisionPerTxn,
        ReadsBeforeItWrites,
        CreatesAgain,
        KeepsTheOldLease,
        RangesAreInclusive,
        TakesDuplicates,
        ForgetsLeasesOfDeletedKeys,
        RevokesWithoutTheKeys,
        RevokesKeyByKey,
        RenewsWhatIsGone,
        ForgetsTheCompactedRevision,
        CompactsTwice,
        CompactsTheFuture,
        WatchesFromTheNextRevision,
        WatchesWhatIsCompacted,
        DeletionsTellTheirOldValue,
    ],
)
def test_a_planted_difference_is_seen(transcripts: list[Transcript], mutant: type[EtcdModel]) -> None:
    assert any(first_difference(mutant(), transcript) for transcript in transcripts)


# --- leases that end by themselves -----------------------------------------------------------------------------------


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdProcess]:
    process = EtcdProcess(tmp_path, election_ms=ELECTION_MS)
    process.start()
    yield process
    process.kill()


@pytest.fixture
async def real(etcd: EtcdProcess) -> AsyncIterator[RealEtcd]:
    real = RealEtcd(etcd.endpoint)
    await real.begin()
    yield real
    await real.close()


async def test_leases_that_end_take_their_keys_in_one_revision_each(real: RealEtcd) -> None:
    """The first ends before the second; what hangs on a third, or has been moved there, stays."""
    begin = (
        Grant(2),
        Grant(5),
        Grant(TTL_S),
        Transaction(Txn((), (Put("/m/b", b"", 1), Put("/m/a", b"", 1), Put("/n/a", b"", 1)))),
        Transaction(Txn((), (Put("/m/c", b"", 2), Put("/m/d", b"", 3)))),
        Transaction(Txn((), (Put("/n/a", b"", 3),))),
        OpenWatch("/", 1),
    )
    end = (Drain(0), ReadPrefix("/"), KeepAlive(1), KeepAlive(2), KeepAlive(3))
    ours = ModelEtcd()
    answers = [ours.answer(step) for step in begin]
    assert [await real.answer(step) for step in begin] == answers
    # In the model time passes on request; here the last key under the two leases has to be waited for.
    ours.model.advance(2_000)
    ours.model.advance(5_000)
    keys = Get("/m/", "/m0")
    async with asyncio.timeout(20):
        while [each.key for each in (await real.client.get_prefix("/m/")).key_values] != ["/m/d"]:
            await asyncio.sleep(0.1)
    assert [each.key for each in ours.model.get(keys)] == ["/m/d"]
    assert [await real.answer(step) for step in end] == [ours.answer(step) for step in end]


async def test_the_shortest_lease(real: RealEtcd) -> None:
    """etcd grants no less than one and a half of its election timeout, which is a second."""
    steps = (Grant(1), Grant(2), Grant(3), KeepAlive(1))
    ours = ModelEtcd()
    assert [await real.answer(step) for step in steps] == [ours.answer(step) for step in steps]
