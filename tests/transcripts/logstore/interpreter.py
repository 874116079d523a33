"""The commands of transcripts about groups, transactions and replicas."""

from __future__ import annotations

from barnabas_logstore.core.config import LogstoreConfig
from barnabas_logstore.core.coordinator.groups.config import GroupConfig
from barnabas_logstore.core.coordinator.transactions.config import TransactionConfig
from barnabas_logstore.core.replication.replication import ReplicationConfig
from barnabas_logstore.core.streams.outbox import Outputs
from tests.transcripts.logstore.calls import Calls
from tests.transcripts.logstore.cluster import Cluster
from tests.transcripts.logstore.data import DataCommands
from tests.transcripts.logstore.groups import GroupCommands
from tests.transcripts.logstore.node import CLUSTER_ID, COORDINATE, Node
from tests.transcripts.logstore.replication import ReplicationCommands
from tests.transcripts.logstore.transactions import TransactionCommands
from tests.transcripts.script import Command, ScriptError, milliseconds


class LogstoreInterpreter:
    """Logstores are started when a command names them first; all answers and new records are its output."""

    def __init__(self) -> None:
        self._settings: dict[str, int] = {}
        self._cluster = Cluster(self._config)
        self._cluster.on_outputs = self._on_outputs
        self._calls = Calls(self._cluster)
        groups = GroupCommands(self._cluster, self._calls)
        transactions = TransactionCommands(self._cluster, self._calls, groups)
        self._data = DataCommands(self._cluster, transactions)
        self._replication = ReplicationCommands(self._cluster)
        self._verbs = {
            "server.properties": self._configure,
            "features": self._set_features,
            "advance": self._advance,
            **groups.verbs,
            **transactions.verbs,
            **self._data.verbs,
            **self._replication.verbs,
        }

    def run(self, command: Command) -> list[str]:
        carry_out = self._verbs.get(command.verb)
        if carry_out is None:
            raise ScriptError(f"there is no command {command.verb!r}")
        try:
            carry_out(command)
        except (KeyError, ValueError) as error:
            raise ScriptError(f"{command.verb}: {error}") from error
        self._cluster.settle()
        return self._cluster.take_lines()

    # --- the environment ----------------------------------------------------------------------------------------------

    def _configure(self, command: Command) -> None:
        """Set keys of all logstores that are started later; a duration with its unit."""
        for key, value in command.configs().items():
            if key not in _KEYS:
                raise ScriptError(f"{key} is not a key of transcripts")
            self._settings[key] = int(value) if value.isdigit() else milliseconds(value)

    def _config(self, node_id: int) -> LogstoreConfig:
        values = {key: self._settings.get(key, default) for key, default in _KEYS.items()}
        groups = GroupConfig(
            initial_rebalance_delay_ms=values["group.initial.rebalance.delay.ms"],
            max_size=values["group.max.size"],
            offsets_retention_ms=values["offsets.retention.minutes"],
            offsets_retention_check_interval_ms=values["offsets.retention.check.interval.ms"],
        )
        transactions = TransactionConfig(
            max_timeout_ms=values["transaction.max.timeout.ms"],
            id_expiration_ms=values["transactional.id.expiration.ms"],
        )
        return LogstoreConfig(
            node_id,
            CLUSTER_ID,
            replication=ReplicationConfig(values["replica.lag.time.max.ms"]),
            groups=groups,
            transactions=transactions,
        )

    def _set_features(self, command: Command) -> None:
        """Finalize the level of transaction.version."""
        self._cluster.transaction_version = command.number("transaction.version", 2)
        self._cluster.send_metadata()

    def _advance(self, command: Command) -> None:
        self._cluster.advance(milliseconds(command.argument()))

    # --- what comes back ----------------------------------------------------------------------------------------------

    def _on_outputs(self, node: Node, outputs: Outputs) -> None:
        for _, exchanged in outputs.exchanges:
            self._data.results(exchanged.append_results)
            self._data.offsets(exchanged.offset_answers)
        for _, read in outputs.reads:
            self._data.pieces(read.pieces)
        for stream_id, coordinated in outputs.coordinations:
            for answer in coordinated.answers if stream_id == COORDINATE else ():
                self._calls.answered(answer)
        for _, watched in outputs.watches:
            self._data.states(node, watched.states)
            self._calls.group_states(node, watched.group_states)
        self._replication.answered(node, outputs.replication.responses)


_DAY_MS = 24 * 60 * 60 * 1000
_KEYS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.max.size": 0x7FFF_FFFF,
    "offsets.retention.minutes": 7 * _DAY_MS,
    "offsets.retention.check.interval.ms": 10 * 60 * 1000,
    "replica.lag.time.max.ms": 30_000,
    "transaction.max.timeout.ms": 15 * 60 * 1000,
    "transactional.id.expiration.ms": 7 * _DAY_MS,
}
"""Kafka's defaults in ms; but rebalances begin without a delay."""
