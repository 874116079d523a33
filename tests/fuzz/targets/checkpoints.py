"""The small files of a log directory: the first byte picks the file, the rest is its content.

Each is read, or is None; nothing is raised. What is read, written again, reads the same.
"""

from __future__ import annotations

import struct
from random import Random

from crc32c import crc32c

from barnabas_logstore.core.storage import checkpoints
from barnabas_logstore.core.storage.checkpoints import DirectoryIdentity
from barnabas_logstore.core.storage.log.state.leader_epochs import LeaderEpochs
from barnabas_logstore.core.storage.log.state.producer_state import ProducerState, parse_snapshot
from tests.fuzz.target import Target

_KINDS = 5
_SNAPSHOT = 4


def check(data: bytes) -> None:
    if not data:
        return
    content = data[1:]
    match data[0] % _KINDS:
        case 0:
            offsets = checkpoints.parse_offsets(content)
            assert offsets is None or checkpoints.parse_offsets(checkpoints.format_offsets(offsets)) == offsets
        case 1:
            epochs = LeaderEpochs.parse(content)
            if epochs is not None:
                again = LeaderEpochs.parse(epochs.format())
                assert again is not None
                assert again.entries() == epochs.entries()
        case 2:
            topic_id = checkpoints.parse_partition_metadata(content)
            if topic_id is not None:
                assert checkpoints.parse_partition_metadata(checkpoints.format_partition_metadata(topic_id)) == topic_id
        case 3:
            identity = checkpoints.parse_meta_properties(content)
            if identity is not None:
                assert checkpoints.parse_meta_properties(checkpoints.format_meta_properties(identity)) == identity
        case _:
            entries = parse_snapshot(content)
            if entries is not None:
                producers = ProducerState()
                producers.load(entries)
                assert parse_snapshot(producers.snapshot()) == producers.entries()


def build(random: Random) -> bytes:
    kind = random.randrange(_KINDS)
    match kind:
        case 0:
            topics = [
                (random.choice(("t", "a.b", "x" * 30)), random.randint(0, 3)) for _ in range(random.randint(0, 4))
            ]
            content = checkpoints.format_offsets({topic: random.randint(0, 10**6) for topic in topics})
        case 1:
            content = random_epochs(random).format()
        case 2:
            content = checkpoints.format_partition_metadata(random.randbytes(16))
        case 3:
            identity = DirectoryIdentity("cluster", random.randint(0, 9), random.randbytes(16))
            content = checkpoints.format_meta_properties(identity)
        case _:
            content = random_producers(random).snapshot()
    return bytes([kind]) + content


def random_epochs(random: Random) -> LeaderEpochs:
    epochs = LeaderEpochs()
    epoch = offset = 0
    for _ in range(random.randint(0, 4)):
        epochs.assign(epoch, offset)
        epoch += random.randint(1, 3)
        offset += random.randint(0, 50)
    return epochs


def random_producers(random: Random) -> ProducerState:
    producers = ProducerState()
    offset = 0
    for _ in range(random.randint(0, 6)):
        delta = random.randint(0, 3)
        producers.update(random.randint(0, 2), 0, random.randint(0, 9), delta, offset + delta, 1_700_000_000_000)
        offset += delta + 1
    return producers


def with_snapshot_crc(content: bytes) -> bytes:
    """A snapshot whose checksum is that of its entries."""
    return content[:2] + struct.pack(">I", crc32c(content[6:])) + content[6:] if len(content) >= 6 else content


def repair(data: bytes) -> bytes:
    return data[:1] + with_snapshot_crc(data[1:]) if data and data[0] % _KINDS == _SNAPSHOT else data


TARGET = Target("checkpoints", check, build, repair)
