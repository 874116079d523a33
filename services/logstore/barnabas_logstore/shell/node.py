"""One logstore process from start to stop.

Start, in this order: directories locked, data listener up (health says NOT_SERVING, streams are refused), control
process spawned, cluster id read from etcd, logs loaded in the background, control listener up, registered, serving.
Stop: leadership handed over, appends refused, everything in progress finished, listeners down, logs flushed,
checkpoints and clean-shutdown markers written, registration revoked. A signal during the start ends it where it is: no
client depends on it yet.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from pathlib import Path
from typing import Final

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.keys import ClusterRecord, Keys, LogstoreRegistration, Role, decode_record
from barnabas.cluster.messages import ControlRequest
from barnabas.cluster.topic_config import TopicConfig
from barnabas.containment import Uncontained
from barnabas.metrics.conditions import Condition
from barnabas.runtime.clock import monotonic_ms, monotonic_us, wall_ms
from barnabas.runtime.cluster_version import check_cluster_version
from barnabas.runtime.compression import CODECS
from barnabas.runtime.configuration.config import Loaded
from barnabas.runtime.contained import CONTAINED, HEALTH
from barnabas.runtime.etcd import EtcdUnavailable
from barnabas.runtime.health_reports import HealthReports
from barnabas.runtime.logs import LoggerLevels, get_logger
from barnabas.runtime.loop.background import awaited_task
from barnabas.runtime.loop.beat import wait_to_beat
from barnabas.runtime.membership import MembershipClient
from barnabas.runtime.metrics.listener import advertised_metrics_address, bind_metrics
from barnabas.runtime.registration import Registration
from barnabas.runtime.rpc import Health, add_health, add_reflection, create_server, stop_server
from barnabas.runtime.tracing.traces import trace_exporter
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.logstore import LogstoreConfig, LogstoreCore
from barnabas_logstore.core.storage.checkpoints import uuid_to_text
from barnabas_logstore.core.storage.compaction.orders import CleanerReport
from barnabas_logstore.core.streams.outbox import Outputs, TransactionOutputs
from barnabas_logstore.core.streams.replication_outbox import NO_REPLICATION, ReplicationOutputs
from barnabas_logstore.shell.administration import ADMINISTRATION_SERVICE, AdministrationListener
from barnabas_logstore.shell.cleaner_messages import CleanerSettings
from barnabas_logstore.shell.cleaner_process import CleanerProcess, log_pass
from barnabas_logstore.shell.config import COMMIT_HOLD_MS, LogstoreSettings
from barnabas_logstore.shell.containment import REGISTRATION
from barnabas_logstore.shell.control_messages import Scraped
from barnabas_logstore.shell.control_process import ControlProcess
from barnabas_logstore.shell.controller_requests import ControllerRequests
from barnabas_logstore.shell.data_listener import LISTENER_SERVICES, DataListener
from barnabas_logstore.shell.data_metrics import DataMetrics
from barnabas_logstore.shell.driver import LogstoreDriver
from barnabas_logstore.shell.io_workers import IoWorkers
from barnabas_logstore.shell.log_dirs import DirectoryLocks, LoadedDirectories, allow_open_files, load_directories
from barnabas_logstore.shell.logstore_links import CoordinateLinks, ReplicaLinks, coordinate_links, replica_links
from barnabas_logstore.shell.posix_disk import PosixDisk
from barnabas_logstore.shell.spans import spans_of
from barnabas_logstore.shell.write_back import begin_write_back

BOOT_ID_FILE: Final = Path("/proc/sys/kernel/random/boot_id")
CLUSTER_ID_POLL_S: Final = 0.2
STOP_GRACE_MS: Final = 300
ERRORS_LOGGED_MAX: Final = 5
OFFLINE_PARTITIONS_NAMED_MAX: Final = 20
"""In the registration, which is one value in etcd."""
IN_SYNC: Final = "in-sync"
"""The health of the replicas: SERVING when every ISR that may contain this logstore does. A rolling restart waits for
it."""
SYNC_CHECK_S: Final = 1.0
REGISTER_AGAIN_S: Final = 1.0
_SERVICES: Final = (*LISTENER_SERVICES, ADMINISTRATION_SERVICE)

_log = get_logger("logstore")


def _conditions_of(core: LogstoreCore) -> list[Condition]:
    health = core.measures.health
    health.step(monotonic_ms(), wall_ms())
    return health.conditions()


class LogstoreNode:
    def __init__(self, loaded: Loaded[LogstoreSettings], levels: LoggerLevels) -> None:
        """Locks the directories and binds the data listener. Raises StartRefused and OSError."""
        settings = loaded.config
        self._levels = levels
        self._settings = settings
        self._described_settings = loaded.settings
        self._boot_id = BOOT_ID_FILE.read_text().strip()
        settings.take_identity()
        allow_open_files()
        self._locks = DirectoryLocks(settings.log_dirs)
        self._disk = PosixDisk()
        self._keys = Keys(settings.etcd_prefix)
        self._etcd = settings.etcd_client()
        self._metrics_socket = bind_metrics(settings.metrics_listeners)
        self._server, self._data_port = create_server(settings.listeners)
        self._listener = DataListener(self._server)
        self._administration = AdministrationListener(self._server)
        self._traces = trace_exporter(settings.traces_otlp_endpoint, "logstore", str(settings.node_id))
        self._metrics = DataMetrics(settings.log_dirs, lambda snapshot: self._control.tell_metrics(snapshot))
        self._control = ControlProcess(
            settings.control_listeners,
            (settings.log_level, settings.log_format, *settings.identity_arguments()),
            self._on_command,
            Scraped(str(settings.node_id), settings.metrics_security),
            self._metrics_socket,
            self._metrics.asked,
        )
        levels.follow(self._control.set_logger_levels)
        levels.follow(lambda own: _log.info("levels of loggers changed", own=own))
        self._offline_log_dirs: dict[str, str] = {}
        self._full_log_dirs: dict[str, str] = {}
        self._offline_partitions: dict[str, str] = {}
        self._room_changes = 0
        self._may_lack_records = False
        self._log_dirs_changed = asyncio.Event()
        self._stop_loading = threading.Event()
        self._loop: LogstoreDriver | None = None
        self._workers: IoWorkers | None = None
        self._cleaner: CleanerProcess | None = None
        self._replica_links: ReplicaLinks | None = None
        self._coordinate_links: CoordinateLinks | None = None
        self._requests: ControllerRequests | None = None
        self._health_reports: HealthReports | None = None
        self._registration: Registration | None = None
        self._health: Health | None = None

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve until `stopping` is set. Raises StartRefused, IdentityTaken, VersionRefused, OSError and
        DirectoriesLost.
        """
        life = awaited_task(self._live())
        stop = awaited_task(stopping.wait())
        try:
            await asyncio.wait([life, stop], return_when=asyncio.FIRST_COMPLETED)
            if not life.done() and self._registration is not None and self._requests is not None:
                begin_write_back(self._disk, self._settings.log_dirs)
                await self._requests.hand_over(self._settings.node_id, self._registration.epoch)
        finally:
            stop.cancel()
            life.cancel()
            (failure, _) = await asyncio.gather(life, stop, return_exceptions=True)
            await self._stop(failure if isinstance(failure, Exception) else None)
        if isinstance(failure, Exception):
            raise failure

    # --- start -------------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        probed = self._settings.health_listeners, self._settings.health_tls
        self._health = await add_health(self._server, *_SERVICES, serving=False, probed=probed)
        await self._health.set_service(IN_SYNC, False)
        add_reflection(self._server, *_SERVICES)
        await self._server.start()
        # It starts while the logs are loaded.
        self._control.spawn()
        await check_cluster_version(self._etcd, self._keys)
        cluster_id = await self._learn_cluster_id()
        loaded = await self._load(cluster_id)
        self._start_core(cluster_id, loaded)
        control_port = await self._control.listen()
        registration = self._registration = self._make_registration(loaded, control_port)
        self._metrics.add([registration])
        epoch = await registration.start()
        assert self._loop is not None
        self._listener.serve(self._loop)
        self._administration.serve(self._loop)
        self._control.set_serving(True)
        await self._health.set_serving(True)
        _log.info(
            "serving",
            node_id=self._settings.node_id,
            data=self._settings.data_address(self._data_port),
            control=self._settings.control_address(control_port),
            broker_epoch=epoch,
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(registration.run())
            tasks.create_task(self._report_log_dirs(registration))
            tasks.create_task(self._tell_whether_in_sync(self._health, self._loop.core.image))
            assert self._replica_links is not None
            assert self._coordinate_links is not None
            assert self._requests is not None
            tasks.create_task(self._replica_links.run())
            tasks.create_task(self._coordinate_links.run())
            tasks.create_task(self._requests.run())
            assert self._health_reports is not None
            tasks.create_task(self._health_reports.run(lambda: registration.incarnation))
            tasks.create_task(self._fail_with_the_loop())

    async def _learn_cluster_id(self) -> str:
        """The first controller of a new cluster writes it; until then there is nothing to serve."""
        is_logged = False
        while True:
            try:
                found = await self._etcd.get(self._keys.cluster)
            except EtcdUnavailable:
                found = None
            if found is not None:
                record = decode_record(self._keys, found.key, found.value)
                assert isinstance(record, ClusterRecord)
                return record.cluster_id
            if not is_logged:
                is_logged = True
                _log.info("waiting for a controller to create the cluster", etcd=self._settings.etcd_endpoints)
            await asyncio.sleep(CLUSTER_ID_POLL_S)

    async def _load(self, cluster_id: str) -> LoadedDirectories:
        defaults = TopicConfig.from_overrides(self._settings.topic_defaults())
        assert isinstance(defaults, TopicConfig), "checked with the configuration"
        return await asyncio.to_thread(
            load_directories,
            self._disk,
            self._settings.log_dirs,
            cluster_id,
            self._settings.node_id,
            self._boot_id,
            defaults,
            self._stop_loading,
            self._settings.num_recovery_threads_per_data_dir,
            self._locks.failed,
        )

    def _start_core(self, cluster_id: str, loaded: LoadedDirectories) -> None:
        settings = self._settings
        config = LogstoreConfig(
            settings.node_id,
            cluster_id,
            queued_requests_max=settings.queued_max_requests,
            queued_request_bytes_max=settings.queued_max_request_bytes,
            topic_defaults=settings.topic_defaults(),
            settings=self._described_settings,
            retention_check_interval_ms=settings.log_retention_check_interval_ms,
            producer_id_expiration_ms=settings.producer_id_expiration_ms,
            producer_id_expiration_check_interval_ms=settings.producer_id_expiration_check_interval_ms,
            recovery_point_checkpoint_interval_ms=settings.log_flush_offset_checkpoint_interval_ms,
            log_start_checkpoint_interval_ms=settings.log_flush_start_offset_checkpoint_interval_ms,
            replication=settings.replication(),
            replica_selector=settings.replica_selector(),
            metered_topics_max=settings.metrics_topics_max,
            cleaner_is_enabled=settings.log_cleaner_enable,
            cleaner_backoff_ms=settings.log_cleaner_backoff_ms,
            groups=settings.groups(),
            transactions=settings.transactions(),
            commit_hold_ms=COMMIT_HOLD_MS,
        )
        core = LogstoreCore(
            config, loaded.directories, loaded.partitions, CODECS, _new_member_id, monotonic_us, self._levels
        )
        for directory in loaded.directories:
            if directory.error is not None:
                self._offline_log_dirs[directory.path] = str(directory.error)
        self._workers = IoWorkers(self._disk, settings.num_io_threads)
        self._metrics.add([self._workers, self._etcd.meter])
        self._loop = LogstoreDriver(core, self._workers, self._send, self._control.take_commands)
        self._replica_links = replica_links(self._loop)
        self._coordinate_links = coordinate_links(self._loop)
        membership = MembershipClient(self._etcd, self._keys, monotonic_ms)
        self._requests = ControllerRequests(settings.node_id, membership, self._loop)
        self._cleaner = CleanerProcess(self._cleaner_settings(), self._on_cleaner_report, self._on_cleaner_gone)
        self._levels.follow(self._cleaner.set_logger_levels)
        self._health_reports = HealthReports(Role.LOGSTORE, str(settings.node_id), membership)
        self._health_reports.add_source(lambda: _conditions_of(core))
        self._health_reports.add_source(self._control.deaths.conditions)
        self._health_reports.add_source(self._cleaner.deaths.conditions)
        self._metrics.add([self._health_reports])
        self._loop.start()
        self._metrics.serve(core)

    def _cleaner_settings(self) -> CleanerSettings:
        settings = self._settings
        if settings.log_cleaner_threads > 1:
            _log.info("one process cleans all logs", log_cleaner_threads=settings.log_cleaner_threads)
        return CleanerSettings(
            int(settings.log_cleaner_dedupe_buffer_size * settings.log_cleaner_io_buffer_load_factor),
            settings.log_cleaner_io_buffer_size,
            settings.log_cleaner_io_max_bytes_per_second,
            settings.log_level,
            settings.log_format,
        )

    def _make_registration(self, loaded: LoadedDirectories, control_port: int) -> Registration:
        settings, directory_id = self._settings, loaded.directory_id
        self._may_lack_records = any(
            each.error is not None or each.boot.may_lack_records for each in loaded.directories
        )

        def describe(incarnation: str) -> LogstoreRegistration:
            return LogstoreRegistration(
                settings.node_id,
                incarnation,
                directory_id,
                settings.data_address(self._data_port),
                settings.control_address(control_port),
                settings.broker_rack,
                self._boot_id,
                dict(self._offline_log_dirs),
                dict(self._full_log_dirs),
                self._room_changes,
                self._may_lack_records,
                advertised_metrics_address(
                    settings.metrics_listeners, self._metrics_socket, settings.data_address(self._data_port)
                ),
                dict(self._offline_partitions),
            )

        assert self._loop is not None
        return Registration(
            self._etcd,
            self._keys,
            Role.LOGSTORE,
            str(settings.node_id),
            describe,
            ttl_ms=settings.lease_ttl_ms,
            on_registered=self._loop.core.on_registered,
        )

    # --- while it runs -----------------------------------------------------------------------------------------------

    def _on_command(self, session_id: int, request: ControlRequest) -> None:
        assert self._loop is not None, "the control listener starts after the core"
        registration = self._registration
        if request.leader_and_isr is not None and registration and request.broker_epoch == registration.epoch:
            # No command is sent before the elections that the registration requires: no ISR relies on records that may
            # be lost.
            self._may_lack_records = False
        try:
            self._loop.core.on_control(session_id, request)
        except (Exception, Uncontained) as error:
            self._loop.fail(error)
        self._loop.wake()

    def _send(self, outputs: Outputs) -> None:
        self._listener.send(outputs)
        self._administration.send(outputs)
        if outputs.traced and self._traces is not None:
            node_id = self._settings.node_id
            self._traces.export([span for work in outputs.traced for span in spans_of(work, node_id)])
        if outputs.replication is not NO_REPLICATION:
            self._replicate(outputs.replication)
        if outputs.transactions is not None:
            self._coordinate(outputs.transactions)
        for path, error in outputs.offline:
            self._offline_log_dirs[path] = str(error)
            self._full_log_dirs.pop(path, None)
            self._log_dirs_changed.set()
        for path, lack in outputs.full_disks:
            if lack is None:
                self._full_log_dirs.pop(path, None)
            else:
                self._full_log_dirs[path] = str(lack)
            self._room_changes += 1
            self._log_dirs_changed.set()
        for name, reason in outputs.offline_partitions:
            if len(self._offline_partitions) < OFFLINE_PARTITIONS_NAMED_MAX:
                self._offline_partitions[name] = reason
            # By this the controller asks after all partitions.
            self._room_changes += 1
            self._log_dirs_changed.set()
        for command in outputs.cleaner:
            assert self._cleaner is not None, "it is created before the loop takes a turn"
            self._cleaner.send(command)
        for report in outputs.passes:
            log_pass(report)
        for session_id, response in outputs.controls:
            self._control.answer(session_id, response)
            if response.error_code or response.partition_errors:
                _log.warning(
                    "control command refused",
                    error=ErrorCode(response.error_code).name,
                    partitions={
                        f"{uuid_to_text(each.topic_id)}-{each.partition}": ErrorCode(each.error_code).name
                        for each in response.partition_errors[:ERRORS_LOGGED_MAX]
                    },
                    partitions_refused=len(response.partition_errors),
                )
        for problem in outputs.coordination_problems:
            _log.error("a coordinator has a problem", problem=problem)

    def _replicate(self, outputs: ReplicationOutputs) -> None:
        assert self._replica_links is not None
        assert self._requests is not None
        self._replica_links.send(outputs.links, outputs.requests)
        if outputs.alter_partition is not None:
            self._requests.alter_partition(outputs.alter_partition)
        for problem in outputs.problems:
            _log.error("a replica can't follow its leader", problem=problem)

    def _coordinate(self, outputs: TransactionOutputs) -> None:
        assert self._coordinate_links is not None
        assert self._requests is not None
        self._coordinate_links.send(outputs.links, outputs.requests)
        if outputs.wants_producer_ids:
            self._requests.allocate_producer_ids()

    def _on_cleaner_report(self, report: CleanerReport) -> None:
        assert self._loop is not None
        try:
            self._loop.core.on_cleaner_report(report)
        except (Exception, Uncontained) as error:
            self._loop.fail(error)
        self._loop.wake()

    def _on_cleaner_gone(self) -> None:
        assert self._loop is not None
        try:
            self._loop.core.on_cleaner_gone()
        except (Exception, Uncontained) as error:
            self._loop.fail(error)
        self._loop.wake()

    async def _report_log_dirs(self, registration: Registration) -> None:
        """The registration names the directories that are offline or full: the controller asks which partitions are
        there.
        """
        while True:
            await self._log_dirs_changed.wait()
            self._log_dirs_changed.clear()
            try:
                await registration.update()
            except Exception as error:
                CONTAINED.contain(REGISTRATION, error)
                self._log_dirs_changed.set()
                await asyncio.sleep(REGISTER_AGAIN_S)

    async def _tell_whether_in_sync(self, health: Health, image: ClusterImage) -> None:
        judged_revision, was_in_sync = -1, False
        while True:
            if image.revision != judged_revision:
                revision = image.revision
                try:
                    lagging = image.lagging_replicas(self._settings.node_id)
                    is_in_sync = lagging == 0
                    if is_in_sync != was_in_sync:
                        _log.info("in sync" if is_in_sync else "not in sync", lagging_replicas=lagging)
                        await health.set_service(IN_SYNC, is_in_sync)
                        was_in_sync = is_in_sync
                    judged_revision = revision
                except Exception as error:
                    CONTAINED.contain(HEALTH, error)
            await asyncio.sleep(wait_to_beat(asyncio.get_running_loop().time(), SYNC_CHECK_S))

    async def _fail_with_the_loop(self) -> None:
        """Without a loop no client is served: the process ends, and its lease with it."""
        assert self._loop is not None
        await asyncio.shield(self._loop.failed)

    # --- stop --------------------------------------------------------------------------------------------------------

    async def _stop(self, failure: Exception | None) -> None:
        self._stop_loading.set()
        if self._health is not None:
            await self._health.set_serving(False)
            await self._health.set_service(IN_SYNC, False)
        if self._loop is not None:
            if failure is None:
                self._loop.core.stopping.begin()
            if self._cleaner is not None:
                await self._cleaner.stop()
            if failure is None:
                await self._loop.idle()
            await self._control.stop()
            await stop_server(self._server, STOP_GRACE_MS)
            self._loop.stop()
            if failure is None:
                await self._close_logs(self._loop)
        else:
            await self._control.stop()
            await stop_server(self._server, 0)
        if self._health is not None:
            await self._health.stop(0)
        if self._workers is not None:
            self._workers.stop()
        if self._registration is not None:
            await self._registration.stop()
        await self._etcd.close()
        if self._metrics_socket is not None:
            self._metrics_socket.close()
        self._locks.close()

    async def _close_logs(self, loop: LogstoreDriver) -> None:
        await loop.run_closing_flushes()
        unclean = await asyncio.to_thread(loop.core.stopping.shut_down)
        for path in unclean:
            _log.warning("no clean-shutdown marker: the directory is recovered at the next start", directory=path)
        _log.info("stopped", clean_directories=len(self._settings.log_dirs) - len(unclean))


def _new_member_id(prefix: str) -> str:
    """Return a member id as Kafka's coordinator makes them."""
    return f"{prefix}-{uuid.uuid4()}"
