"""Conversions of old message formats: Produce v0 to v2 up, Fetch v0 to v3 down, on a worker of the host.

To convert a megabyte of small records takes tens of milliseconds, in which a processor would serve nobody. So a
conversion is an effect: the host runs `Conversion.run` on one thread, one after the other, and reports its end with the
time it took. What it works on is its own until then. While a produce is converted its connection starts nothing new,
which keeps the order of its appends.

Counted as Kafka 3 did, for each of the two APIs: MessageConversionsTimeMs and TemporaryMemoryBytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from barnabas.metrics.histogram import BYTE_BOUNDS, Histogram
from barnabas.ports.compression import Codecs
from barnabas.wire.errors import ErrorCode
from barnabas.wire.primitives import Buffer
from barnabas_gateway.core.backends.down_conversion import DownConverted, down_convert
from barnabas_gateway.core.backends.partition_appends import PendingAppend
from barnabas_gateway.core.backends.up_conversion import Refusal, UpConverted, up_convert
from barnabas_gateway.core.model.fetch_target import FetchTarget
from barnabas_gateway.core.model.outputs import Conversion
from barnabas_gateway.core.timing.hops import Hop
from barnabas_gateway.core.timing.request_timing import RequestTiming


@dataclass(slots=True)
class ConversionCounts:
    """Of one API, since the processor started: one value for each request that needed a conversion."""

    time_ms: Histogram = field(default_factory=Histogram)
    memory_bytes: Histogram = field(default_factory=lambda: Histogram(BYTE_BOUNDS, unit=1))

    def add(self, elapsed_ms: float, memory_bytes: int) -> None:
        self.time_ms.add(round(elapsed_ms * 1000))
        self.memory_bytes.add(memory_bytes)


class UpConversionOwner(Protocol):
    """The Produce request whose message sets are converted."""

    @property
    def timing(self) -> RequestTiming | None: ...

    def up_converted(self, conversion: UpConversion) -> None:
        """The conversion has ended. The connection may be gone."""


class DownConversionOwner(Protocol):
    """The Fetch request whose batches are converted."""

    @property
    def timing(self) -> RequestTiming | None: ...

    def down_converted(self, conversion: DownConversion) -> None:
        """The conversion has ended. The connection may be gone."""


@dataclass(slots=True, eq=False)
class UpConversion:
    """The message sets of one Produce request."""

    owner: UpConversionOwner
    counts: ConversionCounts
    appends: Sequence[PendingAppend]
    """All of the request's, in order."""
    to_convert: Sequence[PendingAppend]
    outcomes: list[UpConverted | Refusal] = field(default_factory=list)
    fault: str = ""
    """Of ours, for the log: the host sets it where `run` did not come to its end."""

    def run(self, codecs: Codecs) -> None:
        self.outcomes = [up_convert(append.records, codecs) for append in self.to_convert]

    def ended(self, elapsed_ms: float) -> None:
        memory_bytes = sum(outcome.memory_bytes for outcome in self.outcomes if isinstance(outcome, UpConverted))
        self.counts.add(elapsed_ms, memory_bytes)
        if self.owner.timing is not None:
            self.owner.timing.enter(Hop.GATEWAY)
        self.owner.up_converted(self)


@dataclass(slots=True, eq=False)
class DownConversion:
    """The records of one Fetch response."""

    owner: DownConversionOwner
    counts: ConversionCounts
    magic: int
    targets: Sequence[FetchTarget]
    records: Sequence[Buffer]
    """Of each target."""
    outcomes: list[DownConverted | ErrorCode] = field(default_factory=list)
    fault: str = ""

    def run(self, codecs: Codecs) -> None:
        self.outcomes = [
            down_convert(records, self.magic, target.fetch_offset, codecs)
            for target, records in zip(self.targets, self.records, strict=True)
        ]

    def ended(self, elapsed_ms: float) -> None:
        memory_bytes = sum(outcome.memory_bytes for outcome in self.outcomes if isinstance(outcome, DownConverted))
        self.counts.add(elapsed_ms, memory_bytes)
        if self.owner.timing is not None:
            self.owner.timing.enter(Hop.GATEWAY)
        self.owner.down_converted(self)


class RecordFormatConverter:
    __slots__ = ("_to_run", "fetch", "produce")

    def __init__(self) -> None:
        self._to_run: list[Conversion] = []
        self.produce = ConversionCounts()
        self.fetch = ConversionCounts()

    def convert_up(
        self, owner: UpConversionOwner, appends: Sequence[PendingAppend], to_convert: Sequence[PendingAppend]
    ) -> None:
        """Make batches of those of a request's appends that are message sets; `owner.up_converted` follows."""
        if owner.timing is not None:
            owner.timing.enter(Hop.CONVERSION)
        self._to_run.append(UpConversion(owner, self.produce, appends, to_convert))

    def convert_down(self, owner: DownConversionOwner, magic: int, targets: Sequence[FetchTarget]) -> None:
        """Make message sets of what was read; `owner.down_converted` follows."""
        if owner.timing is not None:
            owner.timing.enter(Hop.CONVERSION)
        records = [target.records for target in targets]
        self._to_run.append(DownConversion(owner, self.fetch, magic, targets, records))

    def drain_conversions(self) -> list[Conversion]:
        to_run, self._to_run = self._to_run, []
        return to_run
