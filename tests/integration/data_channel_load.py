"""Fills a logstore's data channel: `python -m tests.integration.data_channel_load ADDRESS TOPIC_ID PARTITIONS EPOCH`.

It opens Exchange streams as a gateway's processors do, and keeps as many appends unanswered as standard input asks for,
a number a line. Each line, also an empty one, is answered by a line of JSON (`Standing`). What there is no credit for
waits here, as it does in a gateway. It ends with standard input.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass

from barnabas.channel.credits import CreditAccount
from barnabas.channel.generated.packing import pack_exchange_request
from barnabas.channel.messages import Append, Credit, ExchangeRequest, Hello
from barnabas.runtime.rpc import DATA_OPTIONS
from barnabas.runtime.streams import StreamLink
from barnabas.wire.record_batch import Record, build_batch
from barnabas_protos.logstore.v1 import data_pb2

METHOD = "/barnabas.logstore.v1.DataChannel/Exchange"
STREAMS = 16
"""With k busy streams each gets 1/(k+1) of the credit: so many leave little of it unused."""
APPENDS_PER_MESSAGE_MAX = 64
_ACKS_LEADER = 1


@dataclass(slots=True, frozen=True)
class Standing:
    """Appends wanted unanswered, unanswered, and those without credit yet; answered, those of them that were refused
    (with the streams that were lost); CPU used.
    """

    offered: int
    unanswered: int
    without_credit: int
    answered: int
    refused: int
    cpu_seconds: float


class Stream:
    """One processor's worth of load."""

    def __init__(self, address: str, topic_id: bytes, partitions: int, leader_epoch: int, batch: bytes) -> None:
        appends = [
            Append(number, topic_id, number % partitions, leader_epoch, _ACKS_LEADER, batch)
            for number in range(APPENDS_PER_MESSAGE_MAX)
        ]
        # Packed once: this process must be far quicker than the logstore, or there would be no backlog over there.
        self._messages = [
            pack_exchange_request(ExchangeRequest(appends=appends[:count]))
            for count in range(APPENDS_PER_MESSAGE_MAX + 1)
        ]
        self._batch_bytes = len(batch)
        self._credit = CreditAccount()
        self.wanted = 0
        self.unanswered = 0
        self.answered = 0
        self.refused = 0
        self._link = StreamLink(
            address,
            METHOD,
            hello=pack_exchange_request(ExchangeRequest(hello=Hello("", "barnabas-tests"))),
            pack_heartbeat=lambda count: pack_exchange_request(ExchangeRequest(heartbeat=count)),
            on_up=self._on_message,
            on_message=self._on_message,
            on_down=self._on_down,
            options=DATA_OPTIONS,
        )

    def start(self) -> None:
        self._link.start()

    def send(self) -> None:
        """As much as is wanted, and as credit allows."""
        if not self._link.up:
            return
        count, credit = 0, self._credit
        while self.unanswered < self.wanted and credit.try_spend(1, self._batch_bytes):
            self.unanswered += 1
            count += 1
            if count == APPENDS_PER_MESSAGE_MAX:
                self._link.send(self._messages[count])
                count = 0
        if count:
            self._link.send(self._messages[count])

    def _on_message(self, data: bytes) -> None:
        response = data_pb2.ExchangeResponse.FromString(data)
        if response.HasField("credit"):
            self._credit.grant(Credit(response.credit.requests, response.credit.bytes))
        results = response.append_results
        self.unanswered -= len(results)
        self.answered += len(results)
        self.refused += sum([result.error_code != 0 for result in results])
        self.send()

    def _on_down(self, _reason: str) -> None:
        self._credit.reset()
        self.unanswered = 0
        self.refused += 1


class Load:
    def __init__(self, streams: list[Stream]) -> None:
        self._streams = streams
        self._offered = 0

    def offer(self, appends: int) -> None:
        """Keep so many unanswered from now on."""
        self._offered = appends
        for number, stream in enumerate(self._streams):
            stream.wanted = appends // len(self._streams) + (number < appends % len(self._streams))
            stream.send()

    def standing(self) -> Standing:
        streams = self._streams
        return Standing(
            self._offered,
            sum(stream.unanswered for stream in streams),
            sum(max(0, stream.wanted - stream.unanswered) for stream in streams),
            sum(stream.answered for stream in streams),
            sum(stream.refused for stream in streams),
            time.process_time(),
        )


async def run(address: str, topic_id: bytes, partitions: int, leader_epoch: int, value_bytes: int) -> None:
    batch = build_batch([Record(None, bytes(value_bytes), time.time_ns() // 1_000_000)])
    streams = [Stream(address, topic_id, partitions, leader_epoch, batch) for _ in range(STREAMS)]
    for stream in streams:
        stream.start()
    load = Load(streams)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := (await reader.readline()).decode():
        if line.strip():
            load.offer(int(line))
        print(json.dumps(asdict(load.standing())), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.integration.data_channel_load", description=__doc__)
    parser.add_argument("address")
    parser.add_argument("topic_id")
    parser.add_argument("partitions", type=int)
    parser.add_argument("leader_epoch", type=int)
    parser.add_argument("--value-bytes", type=int, default=1000)
    arguments = parser.parse_args()
    topic_id = bytes.fromhex(arguments.topic_id)
    asyncio.run(run(arguments.address, topic_id, arguments.partitions, arguments.leader_epoch, arguments.value_bytes))


if __name__ == "__main__":
    main()
