"""`python -m barnabas_controller --config FILE --set KEY=VALUE`: wiring only."""

from __future__ import annotations

import asyncio
import signal
import sys
import uuid
from base64 import urlsafe_b64encode
from dataclasses import replace

import barnabas.runtime.code_loading  # noqa: F401 - before what it is for
from barnabas.cluster.keys import ControllerRegistration, Keys, Role
from barnabas.runtime.clock import wall_ms
from barnabas.runtime.cluster_version import VersionRefused
from barnabas.runtime.configuration.config import load_config
from barnabas.runtime.contained import CONTAINED
from barnabas.runtime.logs import configure_logging, get_logger
from barnabas.runtime.loop.background import BackgroundTasks
from barnabas.runtime.loop.event_loop import new_event_loop
from barnabas.runtime.metrics.endpoint import MetricsEndpoint
from barnabas.runtime.metrics.listener import advertised_metrics_address, bind_metrics
from barnabas.runtime.metrics.pod_metrics import PodMetrics
from barnabas.runtime.metrics.process_metrics import measures_of_process
from barnabas.runtime.registration import IdentityTaken, Registration
from barnabas.runtime.rpc import add_health, add_reflection, create_server, stop_server
from barnabas.runtime.tracing.traces import trace_exporter
from barnabas_controller.core.controller import ControllerCore
from barnabas_controller.shell import membership, operations
from barnabas_controller.shell.config import ControllerConfig
from barnabas_controller.shell.containment import READINESS
from barnabas_controller.shell.driver import ControllerDriver
from barnabas_controller.shell.operators.call_records import CallRecords
from barnabas_controller.shell.operators.server import create_operators_server

_STOP_GRACE_MS = 500


def new_uuid() -> bytes:
    """Generate ids as Kafka's Uuid.randomUuid does: the printed form never looks like a command line option."""
    while True:
        value = uuid.uuid4().bytes
        if not printed_uuid(value).startswith("-"):
            return value


def printed_uuid(value: bytes) -> str:
    return urlsafe_b64encode(value).decode().rstrip("=")


async def run(config: ControllerConfig) -> None:
    """Serve until SIGTERM or SIGINT. Raises OSError when the listener cannot be bound, IdentityTaken."""
    stopped = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stopped.set)
    config.take_identity()
    keys = Keys(config.etcd_prefix)
    etcd = config.etcd_client()
    metrics_socket = bind_metrics(config.metrics_listeners)
    metrics_address = advertised_metrics_address(config.metrics_listeners, metrics_socket, config.advertised_address)
    records = CallRecords(config.controller_id)
    operators, operations_port = create_operators_server(config, records)
    operations_address = config.advertised_operations(operations_port)
    record = ControllerRegistration(
        config.controller_id, uuid.uuid4().hex, config.advertised_address, metrics_address, operations_address
    )
    core = ControllerCore(
        keys=keys,
        registration=record,
        defaults=config.topic_defaults(),
        new_topic_id=new_uuid,
        new_cluster_id=lambda: printed_uuid(new_uuid()),
        wall_ms=wall_ms,
        settings=config.election_settings(),
        token_settings=config.token_settings(),
    )
    server, _ = create_server(config.listeners)
    probed = config.health_listeners, config.health_tls
    healths = [
        await add_health(server, membership.SERVICE, serving=False, probed=probed),
        await add_health(operators, operations.SERVICE, serving=False),
    ]
    readiness = BackgroundTasks(READINESS)

    def on_ready_changed(ready: bool) -> None:
        for health in healths:
            readiness.start(health.set_serving(ready))

    core.reported_health.own_source = CONTAINED.conditions
    driver = ControllerDriver(core, etcd, keys, on_ready_changed)
    records.elected = driver.elected
    traces = trace_exporter(config.traces_otlp_endpoint, "controller", config.controller_id)
    membership.add_membership(server, driver, records, traces)
    operations.add_operations(operators, driver)
    add_reflection(server, membership.SERVICE)
    add_reflection(operators, operations.SERVICE)
    await server.start()
    await operators.start()
    metrics = PodMetrics(
        "controller", config.controller_id, [*measures_of_process("controller"), *driver.measured, records]
    )
    if metrics_socket is not None:
        MetricsEndpoint(metrics_socket, metrics.collect, config.metrics_security).start()
    registration = Registration(
        etcd,
        keys,
        Role.CONTROLLER,
        config.controller_id,
        describe=lambda incarnation: replace(record, incarnation=incarnation),
        ttl_ms=config.lease_ttl_ms,
        on_renewed=driver.on_lease,
    )
    metrics.measure(registration, etcd.meter)
    get_logger("controller").info(
        "listening",
        address=config.listeners,
        operators=config.operations_listeners,
        operators_authenticate_by=config.authentication_of_operators,
    )
    try:
        async with asyncio.TaskGroup() as tasks:
            working = [
                tasks.create_task(driver.follow_etcd()),
                tasks.create_task(_keep_registered(registration)),
                tasks.create_task(_fail_with(driver)),
            ]
            await stopped.wait()
            for task in working:
                task.cancel()
    finally:
        await registration.stop()
        await asyncio.gather(stop_server(operators, _STOP_GRACE_MS), stop_server(server, _STOP_GRACE_MS))
        await asyncio.gather(*(health.stop(0) for health in healths))
        await records.close()
        await driver.close()
        await etcd.close()


async def _fail_with(driver: ControllerDriver) -> None:
    """The process ends with the turn that fails, and another controller is elected."""
    await asyncio.shield(driver.failed)


async def _keep_registered(registration: Registration) -> None:
    await registration.start()
    await registration.run()


def main() -> None:
    loaded = load_config(ControllerConfig, sys.argv[1:], program="barnabas-controller")
    config = loaded.config
    configure_logging("controller", config.log_level, config.log_format)
    loaded.log_start()
    refusal: Exception | None = None
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(run(config))
    except* (IdentityTaken, VersionRefused, OSError) as refused:
        refusal = refused.exceptions[0]
    # Not in the clause: before Python 3.11.4 what is raised there is shown as a group, with its traceback.
    if refusal is not None:
        sys.exit(f"barnabas-controller: {refusal}")


if __name__ == "__main__":
    main()
