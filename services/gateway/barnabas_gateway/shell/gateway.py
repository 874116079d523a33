"""The gateway's main process: acceptor, processors, membership, health."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from google.protobuf.message import Message

from barnabas.cluster.controller_calls.table import SHARE_QUOTAS, method_of
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.keys import GatewayRegistration, Keys, Role
from barnabas.cluster.messages import ALL_BROKERS, UpdateMetadata
from barnabas.metrics.connection_families import CONTROLLER_SILENCE
from barnabas.metrics.family import Sample
from barnabas.metrics.security_families import ACLS
from barnabas.runtime.clock import monotonic_ms, wall_ms
from barnabas.runtime.configuration.config import Loaded
from barnabas.runtime.contained import CONTAINED, HEALTH
from barnabas.runtime.health_reports import HealthReports
from barnabas.runtime.logs import get_logger
from barnabas.runtime.loop.background import awaited_task
from barnabas.runtime.loop.beat import next_beat
from barnabas.runtime.membership import MembershipClient
from barnabas.runtime.metrics.endpoint import MetricsEndpoint
from barnabas.runtime.metrics.listener import advertised_metrics_address, bind_metrics
from barnabas.runtime.metrics.pod_metrics import PodMetrics
from barnabas.runtime.metrics.process_metrics import measures_of_process
from barnabas.runtime.registration import Registration
from barnabas.runtime.rpc import Health, add_health, add_reflection, create_health_server, stop_server
from barnabas_gateway.core.model.outputs import ControllerAnswer, ControllerRequest
from barnabas_gateway.shell.acceptor import Acceptor
from barnabas_gateway.shell.config import GatewayProperties
from barnabas_gateway.shell.kerberos.acceptors import KerberosAcceptors
from barnabas_gateway.shell.listener_security import kerberos_configs, oauth_configs, tls_configs
from barnabas_gateway.shell.oauth.listener_tokens import require_library
from barnabas_gateway.shell.processors import Processors
from barnabas_gateway.shell.quota_sharing import QuotaSharing
from barnabas_gateway.shell.tls.tls_config import create_context

_log = get_logger("gateway")

_STOP_GRACE_MS = 500


class Gateway:
    def __init__(self, loaded: Loaded[GatewayProperties]) -> None:
        """Binds the bootstrap ports. Raises OSError that names the address, and ValueError that names a key store."""
        properties = loaded.config
        properties.take_identity()
        securities = properties.security()
        for tls in tls_configs(securities).values():
            create_context(tls)
        require_library(oauth_configs(securities))
        KerberosAcceptors(kerberos_configs(securities), wall_ms)
        self._properties = properties
        self._keys = Keys(properties.etcd_prefix)
        self._etcd = properties.etcd_client()
        self._membership = MembershipClient(self._etcd, self._keys, monotonic_ms)
        self._image = ClusterImage()
        self._acceptor = Acceptor(properties)
        self._metrics_socket = bind_metrics(properties.metrics_listeners)
        self._metrics = PodMetrics("gateway", properties.gateway_id, measures_of_process("acceptor"))
        self._processors = Processors(
            properties,
            loaded.settings,
            self._acceptor.bound_ports,
            self._image,
            self._ask_controller,
            self._applied,
            self._acceptor.connection_closed,
            self._metrics,
        )
        self._sharing = QuotaSharing(
            properties.gateway_id, lambda report: self._membership.ask_once(SHARE_QUOTAS, report)
        )
        self._processors.on_quota_uses = self._sharing.reported
        self._health_reports = HealthReports(Role.GATEWAY, properties.gateway_id, self._membership)
        self._health_reports.add_source(self._processors.deaths.conditions)
        self._metrics.measure(self, self._health_reports, self._acceptor.meter, self._processors, self._etcd.meter)
        self._wanted_processors = 0
        self._is_accepting = False

    async def run(self, stopping: asyncio.Event) -> None:
        """Run until `stopping`; then drain. Raises IdentityTaken, OSError (the ops listener)."""
        properties = self._properties
        server, ops_port = create_health_server(properties.ops_listeners, properties.health_tls)
        health = await add_health(server, serving=False)
        add_reflection(server)
        await server.start()
        if self._metrics_socket is not None:
            MetricsEndpoint(self._metrics_socket, self._metrics.collect, properties.metrics_security).start()
        ops_address = f"{properties.ops_listeners.rpartition(':')[0]}:{ops_port}"
        registration = Registration(
            self._etcd,
            self._keys,
            Role.GATEWAY,
            properties.gateway_id,
            describe=lambda incarnation: self._describe(incarnation, ops_address),
            ttl_ms=properties.lease_ttl_ms,
        )
        self._metrics.measure(registration)
        self._follow_dynamic_configs()

        async def live() -> None:
            await registration.start()
            _log.info("registered", gateway_id=properties.gateway_id, ports=self._acceptor.bound_ports)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(registration.run())
                take_calls = self._processors.write_operator_calls if properties.audit_topic else None
                tasks.create_task(
                    self._membership.subscribe(Role.GATEWAY, properties.gateway_id, self._updated, take_calls)
                )
                tasks.create_task(self._watch_readiness(health))
                tasks.create_task(self._health_reports.run(lambda: registration.incarnation))

        life = awaited_task(live())
        stop = awaited_task(stopping.wait())
        try:
            await asyncio.wait([life, stop], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await health.set_serving(False)
            self._acceptor.stop()
            self._sharing.stop()
            stop.cancel()
            life.cancel()
            failure, _ = await asyncio.gather(life, stop, return_exceptions=True)
            await registration.stop()
            await self._processors.stop()
            await stop_server(server, _STOP_GRACE_MS)
            await self._etcd.close()
        if isinstance(failure, Exception):
            raise failure

    def samples(self) -> Iterator[Sample]:
        yield Sample(ACLS, (), len(self._image.acls))
        yield Sample(CONTROLLER_SILENCE, (), monotonic_ms() - self._membership.last_heard_ms)

    def reload(self, properties: GatewayProperties) -> None:
        """Apply changes of `num.network.threads` and the limits of connections."""
        self._properties = properties
        self._follow_dynamic_configs()

    def _follow_dynamic_configs(self) -> None:
        """Dynamic configs for all gateways override the static ones of this gateway."""
        given = self._image.broker_configs.get(ALL_BROKERS, {})
        properties = self._properties
        self._acceptor.limit(
            int(given.get("max.connections", properties.max_connections)),
            int(given.get("max.connections.per.ip", properties.max_connections_per_ip)),
            int(given.get("max.connection.creation.rate", properties.max_connection_creation_rate)),
        )
        processors = int(given.get("num.network.threads", properties.num_network_threads))
        if processors != self._wanted_processors:
            self._wanted_processors = processors
            _log.info("processors", wanted=processors)
            self._processors.resize(processors)

    def _describe(self, incarnation: str, ops_address: str) -> GatewayRegistration:
        config = self._properties.core_config(self._acceptor.bound_ports)
        addresses = {each.name: f"{each.advertised_host}:{each.advertised_port}" for each in config.listeners}
        first = next(iter(addresses.values()))
        metrics_address = advertised_metrics_address(self._properties.metrics_listeners, self._metrics_socket, first)
        return GatewayRegistration(self._properties.gateway_id, incarnation, addresses, ops_address, metrics_address)

    def _updated(self, update: UpdateMetadata, message: Message) -> None:
        """Brokers' ports are open before they are advertised to any client."""
        if self._image.apply(update):
            self._acceptor.add_brokers(self._image.brokers)
            self._sharing.gateways_changed(update.gateways)
            if update.full or update.client_quotas:
                self._acceptor.quotas_changed(self._image.client_quotas)
            self._follow_dynamic_configs()
            self._processors.metadata_updated(message.SerializeToString())

    def _applied(self, revision: int) -> None:
        self._membership.acknowledge(revision)
        if not self._is_accepting:
            self._is_accepting = True
            self._acceptor.start(self._processors)
            _log.info("accepting", revision=revision)

    async def _watch_readiness(self, health: Health) -> None:
        """Ready: clients are accepted, some processor serves them, and the controller has been heard lately."""
        was_ready = False
        while True:
            heard_ms = self._membership.last_heard_ms
            silence_ms = monotonic_ms() - heard_ms
            is_heard = silence_ms < self._properties.controller_silence_max_ms
            is_ready = self._is_accepting and is_heard and self._processors.has_live()
            if is_ready != was_ready:
                why_not = "the processors are silent" if is_heard else "the controller is silent"
                _log.info("ready" if is_ready else f"not ready: {why_not}", silence_ms=silence_ms)
                try:
                    await health.set_serving(is_ready)
                    was_ready = is_ready
                except Exception as error:
                    CONTAINED.contain(HEALTH, error)
            now_s = asyncio.get_running_loop().time()
            await asyncio.sleep(next_beat(now_s) - now_s)

    async def _ask_controller(self, request: ControllerRequest) -> ControllerAnswer:
        answer: ControllerAnswer = await self._membership.ask(method_of(request), request)
        return answer
