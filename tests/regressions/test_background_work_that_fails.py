"""Work of the background goes on after an exception, which is reported, or ends its process.

Each of these was a task, a timer or a thread that ended with an exception that no one read: keys, certificates and
shares of quotas stayed as they were for ever, a request to the controller was never answered, no TLS handshake of a
processor went on, and metrics stopped.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.keys import Role
from barnabas.cluster.messages import AllocateProducerIdsRequest, UpdateMetadata
from barnabas.cluster.quotas.shares import QuotaUse, ShareQuotasResponse
from barnabas.metrics.conditions import Condition, ConditionKind
from barnabas.metrics.snapshot import unpack
from barnabas.runtime.contained import HEALTH, SCRAPE, ProcessContainment
from barnabas.runtime.health_reports import HealthReports
from barnabas.runtime.loop import background
from barnabas.runtime.loop.background import BackgroundTasks
from barnabas.runtime.processes import contained_counts
from barnabas_controller.core.members.reported_health import ReportedHealth
from barnabas_controller.shell import control_stream, packing
from barnabas_controller.shell.containment import AUDIT, PACKING, PROBE
from barnabas_controller.shell.control_stream import ControlStream
from barnabas_controller.shell.driver import ControllerDriver
from barnabas_controller.shell.operators.call_records import CallRecords
from barnabas_controller.shell.packing import Packer
from barnabas_gateway.core.model.containment import CONNECTION, QUOTAS
from barnabas_gateway.shell import logstore_calls, processor_ipc, quota_sharing
from barnabas_gateway.shell.containment import CERTIFICATES, CONTROLLER_CALL, KEYS, LOGSTORE_CALL
from barnabas_gateway.shell.driver import GatewayDriver
from barnabas_gateway.shell.metadata_reader import MetadataReader
from barnabas_gateway.shell.oauth.key_sources import JwksSource
from barnabas_gateway.shell.processors import Processors, full_update
from barnabas_gateway.shell.quota_sharing import QuotaSharing
from barnabas_gateway.shell.tls import listener_contexts
from barnabas_gateway.shell.tls.listener_contexts import ListenerContexts
from barnabas_gateway.shell.tls.tls_socket import HandshakeQueue, TlsSocket
from barnabas_logstore.shell import control_process, data_metrics
from barnabas_logstore.shell.containment import DISKS, REGISTRATION
from barnabas_logstore.shell.control_process import ControlProcess
from barnabas_logstore.shell.data_metrics import DataMetrics, Disks
from barnabas_logstore.shell.node import LogstoreNode
from tests.unit.controller.operators.test_call_records import World
from tests.unit.gateway.authentication.test_oauthbearer import CONFIG
from tests.unit.gateway.test_logstore_calls import EXCHANGES, ConnectedLogstore
from tests.unit.gateway.test_logstore_calls import connected as connected
from tests.unit.gateway.test_shell import properties
from tests.unit.runtime.containment_counts import Counted
from tests.unit.runtime.test_background import failing_at_first
from tests.unit.runtime.test_streams import until


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PAUSE_S_MIN", 0.001)


def fail(*_: Any, **__: Any) -> Any:
    raise RuntimeError("a bug")


# --- the gateway ------------------------------------------------------------------------------------------------------


async def test_keys_of_tokens_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0

    def read(_: object) -> bytes:
        nonlocal reads
        reads += 1
        raise OSError("as expected")

    counted = Counted()
    monkeypatch.setattr(JwksSource, "_read", failing_at_first(2, read))
    source = JwksSource(CONFIG)
    await until(lambda: reads)
    source.stop()
    assert counted.at(KEYS) == 2


async def test_certificates_of_one_listener_do_not_keep_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_contexts, "RELOAD_S", 0.001)
    reloads = 0

    def reload() -> bool:
        nonlocal reloads
        reloads += 1
        return False

    counted = Counted()
    contexts = ListenerContexts({})
    contexts._by_listener = {"A": SimpleNamespace(reload=fail), "B": SimpleNamespace(reload=reload)}  # type: ignore[dict-item]
    following = BackgroundTasks(CERTIFICATES).keep(contexts._follow)
    await until(lambda: reloads >= 3)
    following.cancel()
    assert counted.at(CERTIFICATES) >= 3


async def test_a_request_to_the_controller_that_fails_is_answered() -> None:
    sent: list[tuple[bytes, bytes]] = []
    messages = SimpleNamespace(send=lambda kind, payload: sent.append((kind, payload)))
    processors: Any = SimpleNamespace(_ask_controller=fail)
    processor: Any = SimpleNamespace(child=SimpleNamespace(messages=messages))
    counted = Counted()
    payload = processor_ipc.encode_call(7, AllocateProducerIdsRequest("gateway-0"))
    await Processors._call(processors, processor, payload)
    ((kind, answer),) = sent
    assert kind == processor_ipc.ANSWER
    assert processor_ipc.decode_answer(answer) == (7, None)
    assert counted.at(CONTROLLER_CALL) == 1


async def test_a_call_to_a_logstore_that_fails_is_answered(
    connected: ConnectedLogstore, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted()
    with monkeypatch.context() as patch:
        patch.setattr(logstore_calls, "to_proto", fail)
        connected.ask(7, EXCHANGES[0][0])
        assert await connected.answers.get() == (7, None)
    assert counted.at(LOGSTORE_CALL) == 1


async def test_shares_of_quotas_are_agreed_on_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_sharing, "PERIOD_MS", 0)
    asked = 0

    async def ask(_: object) -> ShareQuotasResponse:
        nonlocal asked
        asked += 1
        if asked <= 2:
            raise RuntimeError("a bug")
        return ShareQuotasResponse()

    counted = Counted()
    sharing = QuotaSharing("gateway-0", ask)
    sharing.gateways_changed(2)
    sharing.reported("0", [QuotaUse(0, "alice", "", 100.0, 1.0, 1000, 0, 0.0)])
    await until(lambda: asked >= 4)
    sharing.stop()
    assert counted.at(QUOTAS) == 2


async def test_a_handshake_that_fails_keeps_no_other_one() -> None:
    class Owner:
        def __init__(self) -> None:
            self.failures: list[str] = []

        def handshake_failed(self, connection_id: int, reason: str) -> None:
            self.failures.append(reason)

    def socket_of(context: Any, queue: HandshakeQueue) -> tuple[TlsSocket, Any, socket.socket]:
        client, theirs = socket.socketpair()
        owner: Any = Owner()
        return TlsSocket(1, theirs, context, owner, queue, 20_000), owner, client

    counted, queue = Counted(), HandshakeQueue()
    broken_context: Any = SimpleNamespace(wrap_bio=fail)
    broken, owner, client = socket_of(broken_context, queue)
    sound, other, other_client = socket_of(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), queue)
    queue.add(broken)
    queue.add(sound)
    await until(lambda: sound._tls is not None)
    assert (owner.failures, other.failures) == (["an internal error"], [])
    assert counted.at(CONNECTION) == 1
    for each in (sound, client, other_client):
        each.close()


async def test_large_metadata_that_is_not_applied_is_the_end_and_nothing_follows_it() -> None:
    applied: list[UpdateMetadata] = []
    ends: list[BaseException] = []
    reader = MetadataReader(applied.append, lambda: None, ends.append)
    reader.take(b"\xff" * (1 << 20))
    reader.take(processor_ipc.encode_metadata(full_update(ClusterImage())))
    await until(lambda: ends)
    await asyncio.sleep(0.01)
    assert (len(ends), applied) == (1, [])


async def test_a_processor_that_can_not_be_started_is_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[int] = []

    def spawn(*_: object, **__: object) -> Any:
        attempts.append(1)
        raise OSError("out of processes")

    monkeypatch.setattr("barnabas_gateway.shell.processors.spawn", spawn)
    monkeypatch.setattr("barnabas_gateway.shell.processors._RESTART_MS_MAX", 1)
    processors: Any = Processors.__new__(Processors)
    processors._wanted, processors._by_index, processors._next_serial = 1, {}, 0
    processors._loop = asyncio.get_running_loop()
    processors._start(0)
    await until(lambda: len(attempts) >= 3)
    processors._wanted = 0
    await asyncio.sleep(0.01)


async def test_what_a_processor_has_contained_reaches_its_acceptor() -> None:
    """For the conditions of the gateway: a processor reports none."""
    sent: list[tuple[bytes, bytes]] = []
    acceptor: Any = SimpleNamespace(send=lambda kind, payload=b"": sent.append((kind, payload)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contained_counts, "CONTAINED", ProcessContainment(()))
        driver = GatewayDriver(processor_ipc.ProcessorSettings(0, properties(), {"PLAINTEXT": 9092}), acceptor)
    driver._core.log_lines.contained.contain(QUOTAS, RuntimeError("a bug"), {})
    driver._schedule_turn()
    await until(lambda: sent)
    ((kind, payload),) = sent
    assert kind == contained_counts.KIND
    heard = ProcessContainment(())
    processors: Any = None
    processor: Any = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contained_counts, "CONTAINED", heard)
        Processors._message(processors, processor, kind, payload)
    assert "gateway.quotas (1)" in heard.conditions()[0].text
    driver.close()


# --- the logstore -----------------------------------------------------------------------------------------------------


class Samples:
    """A part whose samples fail at first."""

    def __init__(self) -> None:
        self.samples: Callable[[], Any] = failing_at_first(1, lambda: iter(()))


async def test_metrics_of_the_data_process_come_again_after_a_scrape_that_failed(tmp_path: Path) -> None:
    told: list[bytes] = []
    counted = Counted()
    metrics = DataMetrics([str(tmp_path)], told.append)
    metrics.add([Samples()])
    metrics.asked()
    assert (told, counted.at(SCRAPE)) == ([], 1)
    metrics.asked()
    assert len(unpack(told[0])) > 0


async def test_a_scan_that_fails_in_a_later_slice_is_begun_again(tmp_path: Path) -> None:
    told: list[bytes] = []
    counted = Counted()

    def steps(*outcomes: Any) -> Any:
        left = list(outcomes)

        def step(_: int) -> bool:
            outcome = left.pop(0)
            if isinstance(outcome, Exception):
                raise outcome
            return bool(outcome)

        return SimpleNamespace(step=step, samples=lambda: iter(()))

    scans = [steps(False, RuntimeError("a bug")), steps(False, True)]
    measures = SimpleNamespace(scan_partitions=lambda _: scans.pop(0), samples=lambda: iter(()))
    metrics = DataMetrics([str(tmp_path)], told.append)
    core: Any = SimpleNamespace(measures=measures)
    metrics.serve(core)
    metrics.asked()
    await until(lambda: counted.at(SCRAPE))
    metrics.asked()
    await until(lambda: told)


async def test_disks_are_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted, disks = Counted(), Disks([str(tmp_path)])
    monkeypatch.setattr(data_metrics.os, "statvfs", failing_at_first(1, data_metrics.os.statvfs))
    disks.look()
    await until(lambda: counted.at(DISKS))
    await until(lambda: not disks._is_looking)
    disks.look()
    await until(lambda: list(disks.samples()))


async def test_offline_directories_are_registered_after_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas_logstore.shell.node.REGISTER_AGAIN_S", 0.001)
    updates = 0

    async def update() -> None:
        nonlocal updates
        updates += 1
        if updates <= 2:
            raise RuntimeError("a bug")

    counted = Counted()
    node: Any = SimpleNamespace(_log_dirs_changed=asyncio.Event())
    registration: Any = SimpleNamespace(update=update)
    node._log_dirs_changed.set()
    reporting = background.awaited_task(LogstoreNode._report_log_dirs(node, registration))
    await until(lambda: updates == 3)
    reporting.cancel()
    assert counted.at(REGISTRATION) == 2


async def test_what_the_control_process_has_contained_reaches_the_data_process() -> None:
    heard = ProcessContainment(())
    scraped: Any = None
    control = ControlProcess("127.0.0.1:0", (), lambda *_: None, scraped, None, lambda: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contained_counts, "CONTAINED", heard)
        control._on_message(contained_counts.KIND, b'{"runtime.message":1}', [])
    assert "runtime.message (1)" in heard.conditions()[0].text


async def test_a_control_process_that_can_not_be_started_is_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[int] = []

    def spawn(*_: object, **__: object) -> Any:
        attempts.append(1)
        raise OSError("out of processes")

    monkeypatch.setattr(control_process, "spawn", spawn)
    monkeypatch.setattr(control_process, "RESTART_MS_MAX", 1)
    scraped: Any = None
    control = ControlProcess("127.0.0.1:0", (), lambda *_: None, scraped, None, lambda: None)
    control._restart_ms = 1
    control._spawn_again()
    await until(lambda: len(attempts) >= 3)
    await control.stop()
    await asyncio.sleep(0.01)


# --- the controller ---------------------------------------------------------------------------------------------------


async def test_records_that_can_not_be_sent_are_dropped_and_the_next_ones_are_sent() -> None:
    counted, world = Counted(), World()
    sound = world.records._send
    world.records._send = fail
    world.elect("controller-2")
    world.records._is_wanted = True
    world.record("lost")
    await until(lambda: counted.at(AUDIT))
    world.records._send = sound
    world.record("sent")
    await until(lambda: world.others)
    assert world.others == [("controller-2:9091", ["sent"])]
    assert world.counts() == {"handed over": 1, "dropped": 1}
    await world.records.close()


async def test_records_are_handed_over_after_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas_controller.shell.operators.call_records._RETRY_MS", 1)
    counted, world = Counted(), World()
    gateway = world.gateway()
    monkeypatch.setattr(CallRecords, "_forget_old", failing_at_first(1, CallRecords._forget_old))
    world.record("a")
    await until(lambda: gateway.batches)
    assert counted.at(AUDIT) == 1
    await world.records.close()


async def test_what_the_active_controller_has_contained_is_its_condition() -> None:
    contained = ProcessContainment((PROBE,))
    contained.contain(PROBE, RuntimeError("a bug"))
    image: Any = None
    of_core: Any = None
    reported = ReportedHealth(image, "controller-1", of_core)
    assert reported.conditions() == []
    reported.own_source = contained.conditions
    (own,) = reported.conditions()
    assert (own.role, own.member_id) == (Role.CONTROLLER, "controller-1")
    assert "controller.probe (1)" in own.condition.text


async def test_a_lost_logstore_is_probed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuses(_: str) -> bool:
        return True

    monkeypatch.setattr(control_stream, "refuses_connections", failing_at_first(2, refuses))
    counted, gone = Counted(), asyncio.Event()
    stream = ControlStream(
        "127.0.0.1:1",
        "127.0.0.1:2",
        on_up=lambda: None,
        on_response=lambda response: None,
        on_down=lambda: None,
        on_gone=gone.set,
    )
    stream._down("lost")
    await gone.wait()
    assert counted.at(PROBE) == 2
    await stream.close()


@pytest.mark.parametrize("event", ["_on_up", "_on_down", "_on_gone"])
async def test_a_control_stream_whose_event_is_not_handled_ends_the_controller(event: str) -> None:
    core: Any = SimpleNamespace(
        on_control_connected=fail, on_control_disconnected=fail, on_peer_gone=fail, contained=SimpleNamespace()
    )
    driver: Any = ControllerDriver.__new__(ControllerDriver)
    driver.core, driver._streams = core, {}
    driver._meter = SimpleNamespace(stream_lost=lambda node_id: None)
    driver.failed = asyncio.get_running_loop().create_future()
    effect: Any = SimpleNamespace(node_id=1, broker_epoch=2, control_address="127.0.0.1:1", data_address="127.0.0.1:1")
    driver._connect(effect)
    stream = driver._streams[1, 2]
    getattr(stream, event)()
    assert isinstance(driver.failed.exception(), RuntimeError)
    await stream.close()


@pytest.mark.parametrize("event", ["subscribe", "acknowledge", "unsubscribe"])
async def test_a_subscription_that_is_not_handled_ends_the_controller(event: str) -> None:
    core: Any = SimpleNamespace(on_subscribed=fail, on_acknowledged=fail, on_unsubscribed=fail)
    driver: Any = ControllerDriver.__new__(ControllerDriver)
    driver.core, driver._subscribers, driver._last_id = core, {}, 0
    driver.failed = asyncio.get_running_loop().create_future()
    arguments = {"subscribe": (None, None, "pod"), "acknowledge": (1, 2), "unsubscribe": (1,)}[event]
    getattr(driver, event)(*arguments)
    assert isinstance(driver.failed.exception(), RuntimeError)


async def test_an_update_that_can_not_be_packed_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted()
    monkeypatch.setattr(packing, "to_proto_in_steps", fail)
    with pytest.raises(RuntimeError):
        await Packer().large_subscribe_response(full_update(ClusterImage()))
    assert counted.at(PACKING) == 1


# --- every member -----------------------------------------------------------------------------------------------------


async def test_a_source_of_conditions_that_fails_silences_no_other_one() -> None:
    reported: list[list[Condition]] = []

    async def report_health(*arguments: Any) -> bool:
        reported.append(arguments[-1])
        return True

    counted = Counted()
    membership: Any = SimpleNamespace(active_revision=1, report_health=report_health)
    role: Any = None
    reports = HealthReports(role, "1", membership, ProcessContainment(()))
    behind = Condition(ConditionKind.COMPACTION_BEHIND, "a log grows")
    reports.add_source(fail)
    reports.add_source(lambda: [behind])
    await reports.check("first")
    assert reported == [[behind]]
    assert counted.at(HEALTH) == 1
