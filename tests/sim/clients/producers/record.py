"""Records the real producers, Kafka's own of Java and librdkafka's, with every script (`make record-clients`).

The brokers of a script listen on ports of this machine. A client is a process of its own, which is given all records
before it has a producer id, so that what is in which batch does not depend on time.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_request, encode_response
from barnabas.wire.errors import ErrorCode
from barnabas.wire.frames import FrameSplitter
from barnabas.wire.headers import RequestHeader, decode_request_header
from barnabas.wire.messages import Response
from barnabas.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdResponse
from barnabas.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.wire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas.wire.record_batch import decode_records, parse_header
from tests.integration.kafka_tools import LIBS
from tests.sim.clients.producers.calls import Answer, ProducerIdAndEpoch, SentBatch, TopicPartition
from tests.sim.clients.producers.play import (
    BETWEEN_BROKERS_MS,
    LINGER_MS,
    PRODUCER_ID,
    QUIET_MS,
    RECORDS_PER_BATCH,
    RETRY_BACKOFF_MS,
)
from tests.sim.clients.producers.recordings import Recording, read_recordings, write_recordings
from tests.sim.clients.producers.scripted_broker import NODE_IDS, TOPIC, Reply, Script, ScriptedBroker
from tests.sim.clients.producers.scripts import SCRIPTS

HOST = "127.0.0.1"
VALUE_BYTES = 300
BATCH_BYTES = 1_000
SECONDS_MAX = 60.0
FRAME_BYTES_MAX = 1 << 20
TOPIC_ID = bytes(15) + b"\1"

# librdkafka takes new record batches to be known only where Fetch knows them, too.
VERSIONS = {
    ApiKey.PRODUCE: (3, 12),
    ApiKey.FETCH: (4, 12),
    ApiKey.METADATA: (0, 12),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.INIT_PRODUCER_ID: (0, 4),
}


@dataclass(slots=True, eq=False)
class ReceivedRequest:
    """A request that came, in its place on its connection; `response` is made when it is its turn."""

    header: RequestHeader
    response: Callable[[], Response] | None = None


@dataclass(slots=True, eq=False)
class ClientConnection:
    writer: asyncio.StreamWriter
    received: list[ReceivedRequest] = field(default_factory=list)

    def flush(self) -> None:
        """Answer in order, as far as the answers are there."""
        while self.received and self.received[0].response is not None:
            first = self.received.pop(0)
            assert first.response is not None
            for part in encode_response(first.response(), first.header.api_version, first.header.correlation_id):
                self.writer.write(part)


class Brokers:
    """All brokers of one script, on ports of their own."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.broker: ScriptedBroker[tuple[ClientConnection, ReceivedRequest]] = ScriptedBroker(script)
        self.gives_producer_ids = False
        self.ports: dict[int, int] = {}
        self._quiet: asyncio.TimerHandle | None = None

    async def start(self, stack: AsyncExitStack) -> None:
        for node_id in NODE_IDS:
            server = await asyncio.start_server(lambda r, w, node_id=node_id: self._serve(node_id, r, w), HOST, 0)
            await stack.enter_async_context(server)
            self.ports[node_id] = server.sockets[0].getsockname()[1]

    async def _serve(self, node_id: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = ClientConnection(writer)
        splitter = FrameSplitter(FRAME_BYTES_MAX)
        try:
            while data := await reader.read(1 << 16):
                for frame in splitter.feed(data):
                    self._take(node_id, connection, frame)
                connection.flush()
        except ConnectionError:
            pass
        finally:
            writer.close()

    def _take(self, node_id: int, connection: ClientConnection, frame: memoryview) -> None:
        header, position = decode_request_header(frame)
        received = ReceivedRequest(header)
        connection.received.append(received)
        match header.api_key:
            case ApiKey.API_VERSIONS:
                error = ErrorCode.NONE
                if header.api_version > VERSIONS[ApiKey.API_VERSIONS][1]:
                    # Every client can read version 0, and asks again in a version that is there (KIP-511).
                    received.header, error = replace(header, api_version=0), ErrorCode.UNSUPPORTED_VERSION
                received.response = lambda: ApiVersionsResponse(
                    error, [ApiVersion(int(key), *versions) for key, versions in VERSIONS.items()]
                )
            case ApiKey.METADATA:
                received.response = self._metadata
            case ApiKey.INIT_PRODUCER_ID:
                received.response = self._producer_id
            case ApiKey.PRODUCE:
                request = decode_request(header.api_key, header.api_version, frame, position)
                assert isinstance(request, ProduceRequest)
                self.broker.produce(node_id, (connection, received), batches_of(request))
                if self._quiet is not None:
                    self._quiet.cancel()
                self._quiet = asyncio.get_running_loop().call_later(QUIET_MS / 1_000, self._end_round)
            case _:
                raise AssertionError(f"a client asks for API key {header.api_key}")

    def _end_round(self) -> None:
        by_node: dict[int, list[Reply[tuple[ClientConnection, ReceivedRequest]]]] = {}
        for reply in self.broker.end_round():
            by_node.setdefault(reply.node_id, []).append(reply)
        for place, replies in enumerate(by_node.values()):
            delay_s = place * BETWEEN_BROKERS_MS / 1_000
            asyncio.get_running_loop().call_later(delay_s, self._reply, replies)

    def _reply(self, replies: list[Reply[tuple[ClientConnection, ReceivedRequest]]]) -> None:
        for reply in replies:
            connection, request = reply.request
            answers = reply.answers
            if answers is None:
                connection.writer.transport.abort()
            else:
                request.response = partial(self._produced, answers)
        for reply in replies:
            reply.request[0].flush()

    # --- answers -----------------------------------------------------------------------------------------------------

    def _metadata(self) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(0, index, leader.node_id, leader.epoch, list(NODE_IDS), list(NODE_IDS), [])
            for (_, index), leader in self.broker.leaders.items()
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id, HOST, port) for node_id, port in self.ports.items()],
            cluster_id="scripted",
            controller_id=1,
            topics=[MetadataResponseTopic(0, TOPIC, TOPIC_ID, False, partitions)],
        )

    def _producer_id(self) -> InitProducerIdResponse:
        """Not before every record waits in the client: until then it has to ask again."""
        if not self.gives_producer_ids:
            return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return InitProducerIdResponse(producer_id=PRODUCER_ID, producer_epoch=0)

    def _produced(self, answers: dict[TopicPartition, Answer]) -> ProduceResponse:
        partitions = []
        for (_, index), answer in answers.items():
            leader = answer.current_leader
            partitions.append(
                PartitionProduceResponse(
                    index,
                    answer.error_code,
                    answer.base_offset,
                    log_start_offset=answer.log_start_offset,
                    current_leader=LeaderIdAndEpoch(*leader) if leader is not None else LeaderIdAndEpoch(),
                )
            )
        response = ProduceResponse([TopicProduceResponse(TOPIC, bytes(16), partitions)])
        if self.script.has_hints:
            response.node_endpoints = [NodeEndpoint(node_id, HOST, port) for node_id, port in self.ports.items()]
        return response


def batches_of(request: ProduceRequest) -> list[SentBatch]:
    batches = []
    for topic in request.topic_data:
        for each in topic.partition_data:
            assert each.records is not None
            header = parse_header(each.records)
            values = tuple((record.value or b"").split(b" ")[0] for record in decode_records(each.records))
            producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
            batches.append(SentBatch((topic.name, each.index), producer, header.base_sequence, values))
    return sorted(batches, key=lambda batch: batch.partition)


# --- the clients ---------------------------------------------------------------------------------------------------


@cache
def java_classes() -> str:
    """A directory with the compiled program."""
    directory = tempfile.mkdtemp()
    source = Path(__file__).with_name("ScriptedProducer.java")
    subprocess.run(["javac", "-cp", f"{LIBS}/*", "-d", directory, str(source)], check=True)
    return directory


def java_command(script: Script, bootstrap: str) -> list[str]:
    settings = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "batch.size": BATCH_BYTES,
        "linger.ms": LINGER_MS,
        "retry.backoff.ms": RETRY_BACKOFF_MS,
        "retry.backoff.max.ms": RETRY_BACKOFF_MS,
        "request.timeout.ms": script.request_timeout_ms,
        "delivery.timeout.ms": script.delivery_timeout_ms,
        "enable.metrics.push": "false",
    }
    command = ["java", "-Xmx256M", "-cp", f"{LIBS}/*:{java_classes()}", "ScriptedProducer"]
    return [*command, *(f"{key}={each}" for key, each in settings.items())]


def librdkafka_command(script: Script, bootstrap: str) -> list[str]:
    settings = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": "true",
        "batch.num.messages": RECORDS_PER_BATCH,
        "linger.ms": LINGER_MS,
        # What exceeds the most is no more by chance.
        "retry.backoff.ms": 10 * RETRY_BACKOFF_MS,
        "retry.backoff.max.ms": RETRY_BACKOFF_MS,
        "socket.timeout.ms": script.request_timeout_ms,
        "message.timeout.ms": script.delivery_timeout_ms,
    }
    program = Path(__file__).with_name("scripted_librdkafka.py")
    return [sys.executable, str(program), *(f"{key}={each}" for key, each in settings.items())]


COMMANDS = {"java": java_command, "librdkafka": librdkafka_command}


async def record(client: str, script: Script) -> Recording:
    """What one client does with one script, from its first request to its last report."""
    recording = Recording()
    async with AsyncExitStack() as stack:
        brokers = Brokers(script)
        await brokers.start(stack)
        command = COMMANDS[client](script, f"{HOST}:{brokers.ports[NODE_IDS[0]]}")
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        assert process.stdin is not None
        assert process.stdout is not None
        for partition in range(len(script.leaders)):
            for value in script.values(partition):
                padding = "." * (VALUE_BYTES - len(value) - 1)
                process.stdin.write(f"{TOPIC} {partition} {value.decode()} {padding}\n".encode())
        process.stdin.write(b"\n")
        try:
            async with asyncio.timeout(SECONDS_MAX):
                async for line in process.stdout:
                    words = line.decode().split()
                    if words == ["SENT"]:
                        brokers.gives_producer_ids = True
                    elif len(words) == 3 and words[0].isdigit():
                        recording.reports.setdefault(words[0], []).append(" ".join(words[1:]))
                await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    recording.rounds = brokers.broker.recorded
    return recording


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.clients.producers.record", description=__doc__)
    parser.add_argument("--client", choices=list(COMMANDS), help="only this one")
    parser.add_argument("--script", help="only this one; the others stay as they are")
    arguments = parser.parse_args()
    for client in [arguments.client] if arguments.client else list(COMMANDS):
        before = read_recordings(client) if arguments.script else {}
        recordings = {}
        for script in SCRIPTS:
            if arguments.script in (None, script.name):
                recordings[script.name] = await record(client, script)
                print(f"{client}: {script.name}: {len(recordings[script.name].rounds)} rounds", flush=True)
            else:
                recordings[script.name] = before[script.name]
        write_recordings(client, recordings)


if __name__ == "__main__":
    asyncio.run(main())
