"""What gateways, logstores and partitions cost together, from measured unit costs and named guesses.

Every logstore replicates with every other one that it shares a partition with, every processor of a gateway has streams
to every logstore, and every member has the whole image: so some costs grow with the product of two numbers. The
functions here compute each of them; nothing is rounded before it is printed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from bench.scaling.unit_costs import UnitCosts

STREAMS_TO_A_LOGSTORE: Final = 3
"""Of a processor: Exchange, Read, Coordinate."""
BEATS_PER_SECOND: Final = 2
"""`barnabas.runtime.loop.beat`: all streams of a host send their heartbeats in the same moments."""
TURN_MS_MAX: Final = 50
"""No turn of a loop is to take longer."""
ETCD_TXN_BYTES_MAX: Final = 1_000_000
"""`state/writes.py`: what one Txn puts."""
ETCD_CHUNK_PARTITIONS: Final = 500
REPLICATION_FACTOR: Final = 3
PROCESSORS: Final = 3
"""Of a gateway, as the chart has them; its acceptor has an image too."""


@dataclass(slots=True, frozen=True)
class Guesses:
    """What was not measured. Each is named on the page."""

    etcd_txn_ms: float = 10.0
    """A Txn of 1 MB, from its request to the watch event: three members with own disks, 1 GB/s between them."""
    etcd_quota_bytes: float = 8e9
    """The largest that etcd's documentation recommends."""
    etcd_revisions: float = 3.0
    """How often the state is in etcd's file: with the revisions that were not compacted, and free pages."""
    network_bytes_per_second: float = 1e9
    """Of the active controller's host."""
    purgatory_pods: int = 2


@dataclass(slots=True, frozen=True)
class StreamCost:
    """Of small messages between hosts."""

    message_end_us: float
    """CPU to send one by gRPC, or to receive one."""


@dataclass(slots=True, frozen=True)
class Size:
    gateways: int
    logstores: int
    partitions: int


@dataclass(slots=True, frozen=True)
class Figures:
    """What one size comes to. CPU is in cores, at rest, of heartbeats alone, if it does not say otherwise."""

    size: Size
    streams_of_logstore: float
    streams_of_processor: float
    streams_of_purgatory: float
    streams_of_controller: float
    logstore_idle_cores: float
    processor_idle_cores: float
    beat_ms: float
    """How long the burst of one beat takes the busiest loop."""
    image_bytes: float
    """Of one process."""
    gateway_image_bytes: float
    """Of a gateway's processors and acceptor."""
    whole_image_bytes: float
    """As a message to one subscriber."""
    apply_seconds: float
    """CPU of a member for a whole image, spread over turns."""
    fan_out_bytes: float
    """A whole image to each gateway and purgatory pod, when another controller takes over."""
    fan_out_seconds: float
    etcd_bytes: float
    death_partitions: float
    """Partitions with a replica on a logstore that dies."""
    death_etcd_bytes: float
    death_txns: float
    death_etcd_seconds: float
    death_controller_seconds: float
    """CPU of the controller's core."""
    death_update_bytes: float
    """To all subscribers together."""
    takeover_seconds: float
    """CPU of a new controller until it has the state."""


def peers_of_logstore(size: Size) -> float:
    """How many other logstores one shares a partition with, as replicas are placed at random."""
    others = size.logstores - 1
    if others < 1:
        return 0.0
    replicas = size.partitions * REPLICATION_FACTOR / size.logstores
    return others * (1 - math.exp(-replicas * (REPLICATION_FACTOR - 1) / others))


def chunks_touched(size: Size, partitions: float) -> float:
    """How many chunks have at least one of so many partitions, as these are spread at random."""
    chunks = max(1.0, size.partitions / ETCD_CHUNK_PARTITIONS)
    return chunks * (1 - math.exp(-partitions / chunks))


def figures(size: Size, unit: UnitCosts, stream: StreamCost, guesses: Guesses) -> Figures:
    subscribers = size.gateways + guesses.purgatory_pods
    of_logstore = (
        size.gateways * PROCESSORS * STREAMS_TO_A_LOGSTORE
        # It follows some of its peers' partitions, and they some of its own.
        + 2 * peers_of_logstore(size)
        + guesses.purgatory_pods
        + 1
    )
    of_processor = size.logstores * STREAMS_TO_A_LOGSTORE + guesses.purgatory_pods
    of_purgatory = size.gateways * PROCESSORS + size.logstores + 1
    of_controller = size.logstores + subscribers
    # A beat sends one message on every stream and receives one, within the same moment.
    beat_us = 2 * stream.message_end_us
    cores = BEATS_PER_SECOND * beat_us / 1e6
    death_partitions = min(size.partitions, size.partitions * REPLICATION_FACTOR / size.logstores)
    whole_image_bytes = unit.update_bytes * size.partitions
    image_bytes = unit.image_bytes * size.partitions
    death_etcd_bytes = chunks_touched(size, death_partitions) * ETCD_CHUNK_PARTITIONS * unit.etcd_bytes
    death_txns = math.ceil(death_etcd_bytes / ETCD_TXN_BYTES_MAX)
    return Figures(
        size,
        of_logstore,
        of_processor,
        of_purgatory,
        of_controller,
        of_logstore * cores,
        of_processor * cores,
        max(of_logstore, of_processor, of_purgatory, of_controller) * beat_us / 1e3,
        image_bytes,
        image_bytes * (PROCESSORS + 1),
        whole_image_bytes,
        unit.member_cpu_us * size.partitions / 1e6,
        whole_image_bytes * subscribers,
        whole_image_bytes * subscribers / guesses.network_bytes_per_second,
        unit.etcd_bytes * size.partitions * guesses.etcd_revisions,
        death_partitions,
        death_etcd_bytes,
        death_txns,
        death_txns * guesses.etcd_txn_ms / 1e3,
        # It goes with the values that are written: a changed partition has its whole chunk written again.
        unit.death.cpu_seconds * death_etcd_bytes / unit.death.etcd_bytes,
        unit.death.update_bytes / unit.death.partitions * death_partitions * subscribers,
        unit.controller_load_us * size.partitions / 1e6,
    )
