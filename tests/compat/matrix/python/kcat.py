"""kcat, as people use it: it produces, consumes and lists. It has no administration, so the topic that its groups share
is made with confluent-kafka.
"""

from __future__ import annotations

import os
import re
import subprocess

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.compat.matrix.python.checks import (
    CODECS,
    PARTITIONS,
    RECORDS,
    SECONDS,
    equal,
    run,
    target_of_arguments,
    until,
    values_of,
)

TARGET = target_of_arguments()
TOPIC, GROUP_TOPIC = TARGET.name("topic"), TARGET.name("shared")


def kcat(*arguments: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run(
        ["kcat", "-b", TARGET.bootstrap, *arguments], input=stdin, capture_output=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def produce(topic: str, values: list[bytes], *options: str) -> None:
    kcat("-P", "-t", topic, *options, stdin=b"".join(value + b"\n" for value in values))


def consume(topic: str, count: int, offset: str = "beginning") -> list[bytes]:
    return kcat("-C", "-q", "-t", topic, "-p", "0", "-o", offset, "-c", str(count)).splitlines()


class Member:
    """`kcat -G` in the background: records come on its standard output, news of rebalances on the other."""

    def __init__(self, group: str) -> None:
        options = ["-u", "-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=10000", "-G", group, GROUP_TOPIC]
        self._process = subprocess.Popen(
            ["kcat", "-b", TARGET.bootstrap, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._records, self._news = self._process.stdout.fileno(), self._process.stderr.fileno()
        self._read = self._reported = b""

    @property
    def partitions(self) -> int:
        """What the last news says that it has."""
        self._reported += _available(self._news)
        last = self._reported.rfind(b"assigned: ")
        if last < self._reported.rfind(b"revoked: "):
            return 0
        return len(re.findall(rb"\[\d+\]", self._reported[last:].split(b"\n")[0]))

    @property
    def seen(self) -> set[bytes]:
        self._read += _available(self._records)
        return set(self._read.splitlines())

    def leave(self) -> None:
        self._process.terminate()
        self._process.wait(SECONDS)


def _available(descriptor: int) -> bytes:
    os.set_blocking(descriptor, False)
    read = b""
    try:
        while more := os.read(descriptor, 65536):
            read += more
    except BlockingIOError:
        pass
    return read


def create_topic() -> None:
    """By producing to it."""
    produce(TOPIC, values_of("seek"), "-p", "0")


def list_topics() -> None:
    listed = kcat("-L").decode()
    assert f'topic "{TOPIC}"' in listed, listed


def round_trip(name: str, *options: str) -> None:
    topic = TARGET.name(name)
    produce(topic, values_of(name), "-p", "0", *options)
    equal(consume(topic, RECORDS), values_of(name))


def consume_assigned() -> None:
    equal(consume(TOPIC, RECORDS // 2, str(RECORDS // 2)), values_of("seek")[RECORDS // 2 :])


def list_offsets() -> None:
    equal(kcat("-Q", "-t", f"{TOPIC}:0:-2").split()[-1], b"0")
    equal(kcat("-Q", "-t", f"{TOPIC}:0:-1").split()[-1], str(RECORDS).encode())


def group_share() -> None:
    """One has all, two have half each and read everything, and when one leaves the other reads all again."""
    made = NewTopic(GROUP_TOPIC, PARTITIONS, TARGET.replication)
    admin = AdminClient({"bootstrap.servers": TARGET.bootstrap})
    admin.create_topics([made])[GROUP_TOPIC].result(SECONDS)
    group, values = TARGET.name("share"), values_of("shared", 2 * RECORDS)
    first = Member(group)
    try:
        until(lambda: first.partitions == PARTITIONS, "the first member has all")
        second = Member(group)
        try:
            until(lambda: first.partitions == second.partitions == PARTITIONS // 2, "both have half")
            produce(GROUP_TOPIC, values[:RECORDS], "-p", "-1")
            until(lambda: first.seen | second.seen >= set(values[:RECORDS]), "both together read all")
        finally:
            second.leave()
        produce(GROUP_TOPIC, values[RECORDS:])
        until(lambda: first.seen | second.seen >= set(values), "who is left reads all")
    finally:
        first.leave()


def group_resume() -> None:
    """`-c` leaves the group after so many records, and commits what it has read."""
    half = RECORDS // 2
    arguments = ("-q", "-X", "auto.offset.reset=earliest", "-c", str(half), "-G", TARGET.name("group"), TOPIC)
    equal(kcat(*arguments).splitlines(), values_of("seek")[:half])
    equal(kcat(*arguments).splitlines(), values_of("seek")[half:])


def version() -> str:
    said = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Version (\S+) \(.*librdkafka (\S+)", said)
    return f"{found[1]} (librdkafka {found[2]})" if found is not None else "unknown"


run(
    version(),
    {
        "create-topic": create_topic,
        "list-topics": list_topics,
        "produce": lambda: round_trip("produce"),
        "produce-acks-0": lambda: round_trip("acks-0", "-X", "acks=0"),
        "produce-acks-1": lambda: round_trip("acks-1", "-X", "acks=1"),
        "produce-idempotent": lambda: round_trip("idempotent", "-X", "enable.idempotence=true"),
        **{
            f"produce-{codec}": lambda codec=codec: round_trip(codec, "-X", f"compression.codec={codec}")  # type: ignore[misc]
            for codec in CODECS
        },
        "consume-assigned": consume_assigned,
        "list-offsets": list_offsets,
        "group-share": group_share,
        "group-resume": group_resume,
    },
    ["transactions"],
)
