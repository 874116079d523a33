"""The simulated producers do what the real ones were recorded to do.

For each script, round by round and broker by broker: the same batches, with the same epoch, first sequence and values,
in the same order of each partition, in requests with the same partitions; and the same delivery reports in the same
order of each partition. Not compared is in which order requests of different partitions leave, which depends on the
threads of librdkafka and on the order of a hash table of Java.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.sim.clients.producers.calls import IdempotentProducer, ProducerConfig
from tests.sim.clients.producers.java_sender import JavaProducer
from tests.sim.clients.producers.librdkafka_producer import LibrdkafkaProducer
from tests.sim.clients.producers.play import config_of, play
from tests.sim.clients.producers.recordings import RecordedRound, Recording, read_recordings
from tests.sim.clients.producers.scripts import SCRIPTS

CLIENTS: dict[str, Callable[[ProducerConfig, Callable[[], float]], IdempotentProducer]] = {
    "java": JavaProducer,
    "librdkafka": LibrdkafkaProducer,
}
