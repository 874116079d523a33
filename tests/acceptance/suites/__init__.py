"""How each suite is brought, run and read."""

from __future__ import annotations

from typing import Final

from tests.acceptance.suite import Suite
from tests.acceptance.suites import (
    connect,
    flink,
    javatools,
    javatools39,
    kafka_python,
    kgo,
    librdkafka,
    mirror,
    quixstreams,
    sarama,
    spring,
    streams,
)

SUITES: Final[dict[str, Suite]] = {
    suite.name: suite
    for suite in (
        kgo.SUITE,
        sarama.SUITE,
        javatools.SUITE,
        javatools39.SUITE,
        librdkafka.SUITE,
        kafka_python.SUITE,
        streams.SUITE,
        quixstreams.SUITE,
        spring.SUITE,
        flink.SUITE,
        connect.SUITE,
        mirror.SUITE,
    )
}
"""In the order of the page."""
