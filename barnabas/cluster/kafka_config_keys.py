"""Every broker key of Kafka that Barnabas does not have, and why: the complement of
`barnabas.cluster.broker_config_keys`.

The two together are all keys of Kafka 4.4 (a test compares them with Kafka's own list), and those of older brokers that
are still found in files. Names are Kafka's; everything else here is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_UNSUPPORTED: Final = {
    "Barnabas has its own timeouts between services": """
        log.dir.failure.timeout.ms log.initial.task.delay.ms offsets.commit.timeout.ms request.timeout.ms
        socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
    """,
    "Barnabas is no client of another broker, and gets no tickets of Kerberos": """
        sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
        sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter
        sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
        sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
        sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
        sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
        sasl.mechanism.controller.protocol sasl.mechanism.inter.broker.protocol
        sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
        sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
        sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
        sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
        sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
        sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
        sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.jwt.retriever.class
        sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url
        sasl.server.callback.handler.class
    """,
    "TLS is OpenSSL's, without Java's classes; services do not use it between each other yet": """
        ssl.allow.dn.changes ssl.allow.san.changes ssl.endpoint.identification.algorithm ssl.engine.factory.class
        ssl.keymanager.algorithm ssl.provider ssl.secure.random.implementation
        ssl.trustmanager.algorithm
    """,
    "every token's audience and issuer are verified, so both keys are needed": """
        sasl.oauthbearer.allow.unverified.audience sasl.oauthbearer.allow.unverified.issuer
    """,
    "a logstore that stops revokes its registration": """
        controlled.shutdown.enable
    """,
    "cluster state is in etcd, see etcd.endpoints; controllers are separate processes": """
        broker.heartbeat.interval.ms broker.session.timeout.ms controller.listener.names
        controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
        controller.quorum.append.linger.ms controller.quorum.auto.join.enable
        controller.quorum.bootstrap.servers controller.quorum.election.backoff.max.ms
        controller.quorum.election.timeout.ms controller.quorum.fetch.max.bytes
        controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms
        controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms controller.quorum.voters
        controller.socket.timeout.ms
        early.start.listeners initial.broker.registration.timeout.ms internal.metadata.delete.delay.millis
        internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes metadata.log.dir
        metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
        metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms
        metadata.max.retention.bytes metadata.max.retention.ms process.roles server.max.startup.time.ms
    """,
    "every log directory takes new partitions": """
        cordoned.log.dirs
    """,
    "groups of the consumer and streams protocols (KIP-848, KIP-1071) are not supported yet": """
        group.consumer.assignment.interval.ms group.consumer.assignor.offload.enable group.consumer.assignors
        group.consumer.heartbeat.interval.ms
        group.consumer.max.assignment.interval.ms group.consumer.max.heartbeat.interval.ms
        group.consumer.max.session.timeout.ms group.consumer.max.size group.consumer.migration.policy
        group.consumer.min.assignment.interval.ms group.consumer.min.heartbeat.interval.ms
        group.consumer.min.session.timeout.ms group.consumer.regex.refresh.interval.ms
        group.consumer.session.timeout.ms group.coordinator.rebalance.protocols
        group.streams.acceptable.recovery.lag group.streams.assignment.interval.ms
        group.streams.assignor.offload.enable group.streams.assignors group.streams.heartbeat.interval.ms
        group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms
        group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms group.streams.max.size
        group.streams.max.standby.replicas group.streams.max.warmup.replicas
        group.streams.min.assignment.interval.ms group.streams.min.heartbeat.interval.ms
        group.streams.min.session.timeout.ms group.streams.min.task.offset.interval.ms
        group.streams.num.standby.replicas group.streams.num.warmup.replicas
        group.streams.rack.aware.assignment.tags group.streams.session.timeout.ms
        group.streams.task.offset.interval.ms group.streams.topology.description.plugin.class
    """,
    "a coordinator has no threads: a turn writes one batch, and a log is read in pieces of 512 KiB": """
        group.coordinator.append.linger.ms group.coordinator.background.threads
        group.coordinator.cached.buffer.max.bytes group.coordinator.threads offsets.load.buffer.size
        offsets.topic.compression.codec
    """,
    "a follower has one stream to each of its leaders, which sends what is new": """
        num.replica.fetchers replica.fetch.min.bytes replica.socket.timeout.ms
    """,
    "unclean elections are held at once, watermarks are checkpointed every 5 s": """
        replica.high.watermark.checkpoint.interval.ms unclean.leader.election.interval.ms
    """,
    "max.connections.per.ip applies to all addresses": """
        max.connections.per.ip.overrides
    """,
    "metrics have no sample windows (see metrics.listeners), and client telemetry is not supported": """
        metrics.num.samples metrics.recording.level metrics.sample.window.ms telemetry.max.bytes
    """,
    "only stable versions are supported": """
        unstable.api.versions.enable unstable.feature.versions.enable
    """,
    "replicas move between log directories one at a time": """
        num.replica.alter.log.dirs.threads
    """,
    "purgatory is a separate service and drops completed entries at once": """
        delete.records.purgatory.purge.interval.requests fetch.purgatory.purge.interval.requests
        producer.purgatory.purge.interval.requests share.fetch.purgatory.purge.interval.requests
    """,
    "services use gRPC between each other, on separate listeners": """
        inter.broker.listener.name security.inter.broker.protocol
    """,
    "share groups are not supported yet": """
        errors.deadletterqueue.auto.create.topics.enable errors.deadletterqueue.topic.name.prefix
        group.share.assignment.interval.ms group.share.assignor.offload.enable group.share.assignors
        group.share.delivery.count.limit group.share.dlq.manager.class.name group.share.heartbeat.interval.ms
        group.share.initialize.retry.interval.ms
        group.share.max.assignment.interval.ms group.share.max.delivery.count.limit
        group.share.max.heartbeat.interval.ms group.share.max.partition.max.record.locks
        group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms
        group.share.max.share.sessions group.share.max.size group.share.min.assignment.interval.ms
        group.share.min.delivery.count.limit group.share.min.heartbeat.interval.ms
        group.share.min.partition.max.record.locks group.share.min.record.lock.duration.ms
        group.share.min.session.timeout.ms group.share.partition.max.record.locks
        group.share.persister.class.name group.share.record.lock.duration.ms group.share.session.timeout.ms
        share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
        share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.load.buffer.size
        share.coordinator.snapshot.update.records.per.snapshot
        share.coordinator.state.topic.compression.codec share.coordinator.state.topic.min.isr
        share.coordinator.state.topic.num.partitions share.coordinator.state.topic.prune.interval.ms
        share.coordinator.state.topic.replication.factor share.coordinator.state.topic.segment.bytes
        share.coordinator.threads share.coordinator.write.timeout.ms
    """,
    "the system's own sizes are used": """
        replica.socket.receive.buffer.bytes socket.receive.buffer.bytes
    """,
    "there are no such threads: each service has processes and an event loop": """
        background.threads
    """,
    "there is no JVM, so no class can be loaded": """
        alter.config.policy.class.name client.quota.callback.class config.providers
        create.topic.policy.class.name kafka.metrics.polling.interval.secs kafka.metrics.reporters
        metric.reporters principal.builder.class security.providers
    """,
    "there is no tiered storage": """
        log.local.retention.bytes log.local.retention.ms log.remote.copy.lag.bytes log.remote.copy.lag.ms
        follower.fetch.last.tiered.offset.enable remote.fetch.max.wait.ms
        remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
        remote.log.index.file.cache.ttl.ms remote.log.manager.copier.thread.pool.size
        remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
        remote.log.manager.copy.quota.window.size.seconds remote.log.manager.expiration.thread.pool.size
        remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num
        remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.follower.thread.pool.size
        remote.log.manager.task.interval.ms remote.log.manager.task.retry.backoff.max.ms
        remote.log.manager.task.retry.backoff.ms remote.log.manager.task.retry.jitter
        remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes
        remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path
        remote.log.metadata.manager.impl.prefix remote.log.metadata.manager.listener.name
        remote.log.reader.max.pending.tasks remote.log.reader.threads remote.log.storage.manager.class.name
        remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
        remote.log.storage.system.enable
    """,
    "topics can always be deleted": """
        delete.topic.enable
    """,
    "the coordinator of transactions has no such setting": """
        add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
        transaction.partition.verification.enable transaction.state.log.load.buffer.size
        transaction.two.phase.commit.enable
    """,
}

_REMOVED: Final = {
    "Kafka 4 has no ZooKeeper; cluster state is in etcd, see etcd.endpoints": """
        zookeeper.connect zookeeper.connection.timeout.ms zookeeper.session.timeout.ms zookeeper.sync.time.ms
        zookeeper.set.acl zookeeper.max.in.flight.requests zookeeper.metadata.migration.enable
        zookeeper.metadata.migration.min.batch.size zookeeper.clientCnxnSocket
    """,
    "Kafka 4 removed it: node.id is given": "broker.id.generation.enable reserved.broker.max.id",
    "Kafka 4 removed it: use listeners and advertised.listeners": """
        host.name port advertised.host.name advertised.port control.plane.listener.name
    """,
    "Kafka 4 removed it: versions are negotiated, and batches are stored as they are sent": """
        inter.broker.protocol.version log.message.format.version
    """,
    "Kafka 4 removed it: see log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms": """
        log.message.timestamp.difference.max.ms
    """,
    "Kafka 4 removed it": """
        auto.include.jmx.reporter delegation.token.master.key eligible.leader.replicas.enable
        group.coordinator.new.enable group.share.enable
        offsets.commit.required.acks password.encoder.cipher.algorithm password.encoder.iterations
        password.encoder.key.length password.encoder.keyfactory.algorithm password.encoder.old.secret
        password.encoder.secret quota.consumer.default quota.producer.default
    """,
}

_PREFIXES: Final = {
    "listener.name.": "listeners with names are the gateway's",
    "zookeeper.": "Kafka 4 has no ZooKeeper; cluster state is in etcd, see etcd.endpoints",
    "config.providers.": "there is no JVM, so no class can be loaded",
    "rlmm.config.": "there is no tiered storage",
    "rsm.config.": "there is no tiered storage",
    "confluent.": "it is not a key of Apache Kafka",
}


def _by_name(names_by_reason: dict[str, str]) -> Iterator[tuple[str, str]]:
    for reason, names in names_by_reason.items():
        for name in names.split():
            yield name, reason


UNSUPPORTED: Final[dict[str, str]] = dict(_by_name(_UNSUPPORTED))
"""By key of Kafka 4.4: why it has no effect."""

REMOVED: Final[dict[str, str]] = dict(_by_name(_REMOVED))
"""By key of older Kafka versions: what became of it."""


def why_without_effect(name: str) -> str | None:
    """Return the reason for a key that a Kafka broker accepts or accepted and no service of Barnabas has; None: unknown
    key.
    """
    reason = UNSUPPORTED.get(name, REMOVED.get(name))
    if reason is not None:
        return reason
    return next((reason for prefix, reason in _PREFIXES.items() if name.startswith(prefix)), None)
