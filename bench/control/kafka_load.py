"""`python -m bench.control.kafka_load HOST PORT TOPIC CONNECTIONS`: clients that each wait for one produce at a time.

A broker reads a connection's next request when it has answered the last one, so it takes as many connections as its
request queue has places, and more, to fill it. Each line of standard input is answered by the number of produces that
have been acknowledged so far; it ends with standard input.
"""

from __future__ import annotations

import argparse
import resource
import selectors
import sys
import time

from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import Record, build_batch
from bench.control.connection import PRODUCE_VERSION, PipelinedConnection, produce_error, produce_request

_ACKS_LEADER = 1
_TIMEOUT_MS = 60_000


def run(host: str, port: int, topic: str, connections: int, value_bytes: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    batch = build_batch([Record(None, bytes(value_bytes), time.time_ns() // 1_000_000)])
    produce = produce_request(topic, 0, batch, _ACKS_LEADER, _TIMEOUT_MS)
    acknowledged = 0
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ)
        for _ in range(connections):
            connection = PipelinedConnection(host, port)
            selector.register(connection, selectors.EVENT_READ, connection)
            connection.send(produce, PRODUCE_VERSION)
        while True:
            for key, _ in selector.select():
                if key.data is None:
                    if not sys.stdin.readline():
                        return
                    print(acknowledged, flush=True)
                    continue
                ready: PipelinedConnection = key.data
                for response in ready.receive():
                    error = produce_error(response)
                    assert error == ErrorCode.NONE, ErrorCode(error)
                    acknowledged += 1
                    ready.send(produce, PRODUCE_VERSION)
                while ready.wants_to_send:
                    ready.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.control.kafka_load", description=__doc__)
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("topic")
    parser.add_argument("connections", type=int)
    parser.add_argument("--value-bytes", type=int, default=1000)
    arguments = parser.parse_args()
    run(arguments.host, arguments.port, arguments.topic, arguments.connections, arguments.value_bytes)


if __name__ == "__main__":
    main()
