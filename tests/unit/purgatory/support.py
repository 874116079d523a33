"""What tests of the pod share: who waits for whom, and what it has said."""

from __future__ import annotations

from barnabas.channel.messages import Completion
from barnabas_purgatory.core.purgatory import PurgatoryCore

TOPIC = b"t" * 16
OTHER_TOPIC = b"o" * 16
LEADER = 1
STREAM = 7
EPOCH = 4


def completions(core: PurgatoryCore) -> list[Completion]:
    return core.take_outputs().completions.get(STREAM, [])
