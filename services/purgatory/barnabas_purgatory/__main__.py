"""`python -m barnabas_purgatory --config FILE`: one purgatory pod, wired together."""

from __future__ import annotations

import asyncio
import signal
import sys

from google.protobuf.message import Message

import barnabas.runtime.code_loading  # noqa: F401 - before what it is for
from barnabas.cluster.keys import Keys, PurgatoryRegistration, Role
from barnabas.cluster.messages import UpdateMetadata
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.cluster_version import VersionRefused
from barnabas.runtime.configuration.config import load_config
from barnabas.runtime.health_reports import HealthReports
from barnabas.runtime.logs import configure_logging, get_logger
from barnabas.runtime.loop.background import awaited_task
from barnabas.runtime.loop.event_loop import new_event_loop
from barnabas.runtime.membership import MembershipClient
from barnabas.runtime.metrics.endpoint import MetricsEndpoint
from barnabas.runtime.metrics.listener import advertised_metrics_address, bind_metrics
from barnabas.runtime.metrics.pod_metrics import PodMetrics
from barnabas.runtime.metrics.process_metrics import measures_of_process
from barnabas.runtime.registration import IdentityTaken, Registration
from barnabas.runtime.rpc import add_health, add_reflection, create_server, stop_server
from barnabas.runtime.streams import register_stream
from barnabas.runtime.tracing.traces import trace_exporter
from barnabas_protos.purgatory.v1 import purgatory_pb2
from barnabas_purgatory.shell.config import PurgatoryConfig
from barnabas_purgatory.shell.driver import PurgatoryDriver

SERVICE = purgatory_pb2.DESCRIPTOR.services_by_name["Purgatory"].full_name
# Completions that one gateway has not read: far more than all that it could have parked.
PENDING_BYTES_MAX = 64 << 20
STOP_GRACE_MS = 500

_log = get_logger("purgatory")


async def serve(config: PurgatoryConfig) -> None:
    """Run until SIGTERM or SIGINT. Raises IdentityTaken, OSError (the listener)."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    config.take_identity()
    traces = trace_exporter(config.traces_otlp_endpoint, "purgatory", config.pod_id)
    metrics_socket = bind_metrics(config.metrics_listeners)
    driver = PurgatoryDriver(config.pod_id, config.purgatory_entries_max, traces)
    server, port = create_server(config.listeners)
    register_stream(server, SERVICE, "Park", driver.open_stream, pending_bytes_max=PENDING_BYTES_MAX)
    health = await add_health(server, SERVICE, serving=False, probed=(config.health_listeners, config.health_tls))
    add_reflection(server, SERVICE)
    await server.start()
    address = config.advertised_address(port)
    metrics_address = advertised_metrics_address(config.metrics_listeners, metrics_socket, address)
    etcd = config.etcd_client()
    keys = Keys(config.etcd_prefix)
    membership = MembershipClient(etcd, keys, monotonic_ms)
    registration = Registration(
        etcd,
        keys,
        Role.PURGATORY,
        config.pod_id,
        describe=lambda incarnation: PurgatoryRegistration(config.pod_id, incarnation, address, metrics_address),
        ttl_ms=config.lease_ttl_ms,
    )

    metrics = PodMetrics("purgatory", config.pod_id, [*measures_of_process("purgatory"), *driver.measured])
    health_reports = HealthReports(Role.PURGATORY, config.pod_id, membership)
    health_reports.add_source(driver.conditions)
    metrics.measure(registration, etcd.meter, health_reports)
    endpoint = (
        MetricsEndpoint(metrics_socket, metrics.collect, config.metrics_security)
        if metrics_socket is not None
        else None
    )

    def apply(update: UpdateMetadata, _: Message) -> None:
        driver.metadata_updated(update)
        # Required by the protocol; no answer waits for a pod, whose image only ends waits for a leader that is gone.
        membership.acknowledge(driver.image.revision)

    async def live() -> None:
        if endpoint is not None:
            endpoint.start()
        await registration.start()
        await health.set_serving(True)
        _log.info("serving", pod_id=config.pod_id, address=address)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(registration.run())
            tasks.create_task(membership.subscribe(Role.PURGATORY, config.pod_id, apply))
            tasks.create_task(driver.logstores.run())
            tasks.create_task(health_reports.run(lambda: registration.incarnation))
            tasks.create_task(_fail_with(driver))

    life = awaited_task(live())
    stop = awaited_task(stopped.wait())
    try:
        await asyncio.wait([life, stop], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
        life.cancel()
        (failure, _) = await asyncio.gather(life, stop, return_exceptions=True)
        await registration.stop()
        await stop_server(server, STOP_GRACE_MS)
        await health.stop(0)
        await etcd.close()
    if isinstance(failure, Exception):
        raise failure


async def _fail_with(driver: PurgatoryDriver) -> None:
    """The process ends with the turn that fails; gateways ask the leaders themselves."""
    await asyncio.shield(driver.failed)


def main() -> None:
    loaded = load_config(PurgatoryConfig, sys.argv[1:], program="barnabas-purgatory")
    config = loaded.config
    configure_logging("purgatory", config.log_level, config.log_format)
    loaded.log_start()
    refusal: Exception | None = None
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(serve(config))
    except* (IdentityTaken, VersionRefused, OSError) as refused:
        refusal = refused.exceptions[0]
    # Not in the clause: before Python 3.11.4 what is raised there is shown as a group, with its traceback.
    if refusal is not None:
        sys.exit(f"barnabas-purgatory: {refusal}")


if __name__ == "__main__":
    main()
