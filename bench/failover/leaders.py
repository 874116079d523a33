"""The leaders that clients see, and the return to the preferred leaders between two measurements."""

from __future__ import annotations

import time
from collections.abc import Sequence

from confluent_kafka.admin import AdminClient

from barnabas.client.kafka_connection import KafkaConnection
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from bench.failover.load import Partition

_SECONDS_MAX = 300.0
_POLL_SECONDS = 0.25
_ELECT_LEADERS_VERSION = 1


class Leaders:
    def __init__(self, bootstrap: str, topics: Sequence[str], partitions_each: int) -> None:
        self._partitions_each = partitions_each
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._bootstrap = bootstrap
        self._topics = list(topics)

    def partitions_of(self, broker: int) -> list[Partition]:
        """Those that it leads."""
        return [
            (name, number)
            for name in self._topics
            for number, partition in self._admin.list_topics(name, timeout=60).topics[name].partitions.items()
            if partition.leader == broker
        ]

    def wait_until_leads_nothing(self, broker: int) -> None:
        """Every partition led by another one."""
        deadline = time.monotonic() + _SECONDS_MAX
        for name in self._topics:
            while any(
                partition.leader in (broker, -1)
                for partition in self._admin.list_topics(name, timeout=60).topics[name].partitions.values()
            ):
                assert time.monotonic() < deadline, f"{broker} still leads partitions of {name}"
                time.sleep(_POLL_SECONDS / 5)

    def wait_until_whole(self) -> None:
        """Every partition known, every replica in sync, every partition led by its preferred leader."""
        deadline = time.monotonic() + _SECONDS_MAX
        while True:
            lagging = elsewhere = 0
            for name in self._topics:
                partitions = self._admin.list_topics(name, timeout=60).topics[name].partitions
                # A broker may not have heard yet of what another one has just created.
                lagging += self._partitions_each - len(partitions)
                for partition in partitions.values():
                    lagging += len(partition.isrs) < len(partition.replicas)
                    elsewhere += partition.leader != partition.replicas[0]
            if lagging == elsewhere == 0:
                return
            assert time.monotonic() < deadline, f"{lagging} partitions are under-replicated, {elsewhere} led elsewhere"
            if lagging == 0:
                self._elect_preferred()
            time.sleep(_POLL_SECONDS)

    def _elect_preferred(self) -> None:
        """By hand, as confluent-kafka's own `elect_leaders` takes no timeout; brokers pass it on to the controller."""
        host, _, port = self._bootstrap.rpartition(":")
        connection = KafkaConnection(host, int(port), _SECONDS_MAX)
        try:
            request = ElectLeadersRequest(timeout_ms=60_000, topic_partitions=None)
            connection.ask(request, _ELECT_LEADERS_VERSION, ElectLeadersResponse, _SECONDS_MAX)
        finally:
            connection.close()
