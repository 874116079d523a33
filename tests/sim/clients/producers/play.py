"""Plays a script to a simulated producer, in virtual time, with a network that takes none."""

from __future__ import annotations

from tests.sim.clients.producers.calls import (
    IdempotentProducer,
    ProduceCall,
    ProducerConfig,
    ProducerIdAndEpoch,
    Step,
)
from tests.sim.clients.producers.recordings import Recording
from tests.sim.clients.producers.scripted_broker import TOPIC, Reply, Script, ScriptedBroker

RECORDS_PER_BATCH = 3
LINGER_MS = 1
RETRY_BACKOFF_MS = 200
# How long a client sends nothing before a round is over: longer than its backoffs.
QUIET_MS = 600
# How long a broker is answered for before the next one is.
BETWEEN_BROKERS_MS = 50
# How long it takes until a client has Metadata, with its own wait before it asks: Java's asks before it sends again,
# librdkafka's after.
METADATA_MS = {"java": 100, "librdkafka": 300}
PRODUCER_ID = 1_000
_STEPS_MAX = 10_000


def config_of(script: Script) -> ProducerConfig:
    return ProducerConfig(
        batch_records_max=RECORDS_PER_BATCH,
        linger_ms=LINGER_MS,
        delivery_timeout_ms=script.delivery_timeout_ms,
        request_timeout_ms=script.request_timeout_ms,
        retry_backoff_ms=RETRY_BACKOFF_MS,
        retry_backoff_max_ms=RETRY_BACKOFF_MS,
    )


class _Play:
    """One script and one producer."""

    def __init__(self, script: Script, client: str, producer: IdempotentProducer) -> None:
        self._script = script
        self._metadata_wait_ms = METADATA_MS[client]
        self._producer = producer
        self._broker: ScriptedBroker[ProduceCall] = ScriptedBroker(script)
        self.recording = Recording(self._broker.recorded)
        self._now_ms = 1_000
        self._round_ms: int | None = None
        self._metadata_ms: int | None = None
        # Replies on their way, by when they arrive; and calls that are not answered, by when their client gives up.
        self._replies: list[tuple[int, list[Reply[ProduceCall]]]] = []
        self._unanswered: dict[ProduceCall, int] = {}

    def run(self) -> None:
        script, producer = self._script, self._producer
        for partition in range(len(script.leaders)):
            for value in script.values(partition):
                producer.append((TOPIC, partition), value, self._now_ms)
        producer.learn(self._broker.leaders, self._now_ms)
        self._now_ms += LINGER_MS
        for _ in range(_STEPS_MAX):
            step = producer.step(self._now_ms)
            self._take_reports()
            self._carry_out(step)
            if step.calls or step.connect or step.needs_producer_id:
                continue
            if not producer.unreported:
                return
            wakes = [step.wake_ms, self._round_ms, self._metadata_ms, *self._unanswered.values()]
            wakes += [due_ms for due_ms, _ in self._replies]
            self._now_ms = max(self._now_ms, min(each for each in wakes if each is not None))
            self._arrive()

    def _take_reports(self) -> None:
        for report in self._producer.reports:
            line = f"{report.value.decode()} {report.error or report.offset}"
            self.recording.reports.setdefault(str(report.partition[1]), []).append(line)
        self._producer.reports.clear()

    def _carry_out(self, step: Step) -> None:
        for call in step.calls:
            self._broker.produce(call.node_id, call, call.batches)
            self._unanswered[call] = self._now_ms + self._script.request_timeout_ms
            self._round_ms = self._now_ms + QUIET_MS
        for node_id in step.connect:
            self._producer.connected(node_id, self._now_ms)
        if step.needs_metadata and self._metadata_ms is None:
            self._metadata_ms = self._now_ms + self._metadata_wait_ms
        if step.needs_producer_id:
            self._producer.producer_id_assigned(ProducerIdAndEpoch(PRODUCER_ID, 0))

    def _arrive(self) -> None:
        """Whatever is due by now."""
        now_ms = self._now_ms
        if self._metadata_ms is not None and now_ms >= self._metadata_ms:
            self._metadata_ms = None
            self._producer.learn(self._broker.leaders, now_ms)
        if self._round_ms is not None and now_ms >= self._round_ms:
            self._round_ms = None
            by_node: dict[int, list[Reply[ProduceCall]]] = {}
            for reply in self._broker.end_round():
                by_node.setdefault(reply.node_id, []).append(reply)
            for place, replies in enumerate(by_node.values()):
                self._replies.append((now_ms + place * BETWEEN_BROKERS_MS, replies))
        if self._replies and now_ms >= self._replies[0][0]:
            self._reply(self._replies.pop(0)[1])
        for node_id in {call.node_id for call, due_ms in self._unanswered.items() if now_ms >= due_ms}:
            self._disconnect(node_id, is_timeout=True)

    def _reply(self, replies: list[Reply[ProduceCall]]) -> None:
        for reply in replies:
            if reply.answers is None:
                self._disconnect(reply.node_id, is_timeout=False)
                return
            if self._unanswered.pop(reply.request, None) is not None:
                self._producer.answered(reply.request, reply.answers, self._now_ms)

    def _disconnect(self, node_id: int, *, is_timeout: bool) -> None:
        self._unanswered = {call: due_ms for call, due_ms in self._unanswered.items() if call.node_id != node_id}
        self._producer.disconnected(node_id, self._now_ms, is_timeout=is_timeout)


def play(script: Script, client: str, producer: IdempotentProducer) -> Recording:
    """Until everything is reported."""
    played = _Play(script, client, producer)
    played.run()
    return played.recording
