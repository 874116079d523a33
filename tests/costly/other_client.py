"""The other client: it produces one record after the other, in a process of its own, and says how long it waited.

Within the process that sends the costly requests it would wait for that one's interpreter, too: for the encoding and
decoding of its messages, and for its garbage collector, which takes hundreds of milliseconds with a few responses of
10,000 partitions each.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Final

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response, encode_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.costly.connection import Connection
from tests.unit.logstore.storage.support import batch

_PAUSE_SECONDS: Final = 0.002
"""Between two records: it is there to wait, not to keep a core busy."""


@dataclass
class Waits:
    """Of the records that were answered since `OtherClient.begin`."""

    longest_ms: float = 0.0
    records: int = 0
    failures: list[str] = field(default_factory=list)


class OtherClient:
    """Starts the process; a line to it begins a measurement, or asks for what was measured."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.costly.other_client", bootstrap, topic],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.begin()

    def begin(self) -> None:
        """Forget what was measured; returns between two records."""
        self._ask("begin")

    @property
    def waits(self) -> Waits:
        """What was measured so far; the record in flight is waited for."""
        return Waits(**json.loads(self._ask("waits")))

    def stop(self) -> None:
        self._process.communicate()

    def _ask(self, command: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the other client has ended"
        return answer


def main() -> None:
    """Produce until standard input ends."""
    bootstrap, topic = sys.argv[1:]
    connection = Connection(bootstrap)
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch(1))])
    frame = b"".join(encode_request(ProduceRequest(None, 1, 30_000, [data]), 9, 1, "other"))
    waits = Waits()
    while True:
        began_s = time.monotonic()
        _, response = decode_response(ApiKey.PRODUCE, 9, memoryview(connection.ask(frame)))
        waits.longest_ms = max(waits.longest_ms, (time.monotonic() - began_s) * 1000)
        waits.records += 1
        assert isinstance(response, ProduceResponse)
        error = response.responses[0].partition_responses[0].error_code
        if error:
            waits.failures.append(ErrorCode(error).name)
        if select.select([sys.stdin], [], [], _PAUSE_SECONDS)[0]:
            command = sys.stdin.readline().strip()
            if not command:
                break
            if command == "begin":
                waits = Waits()
            print(json.dumps(asdict(waits)), flush=True)
    connection.close()


if __name__ == "__main__":
    main()
