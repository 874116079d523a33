"""Conversions of old message formats: Produce v0 to v2 up, Fetch v0 to v3 down, on a worker of the host.

Converting a megabyte of small records takes tens of milliseconds, in which a processor would serve no other client. So
a conversion is an effect: the host runs `Conversion.run` on one thread, one after the other, and reports its end with
the time it took. Its data is not shared until then. While a produce is converted, its connection starts no further
request, which keeps the order of its appends.

Counted as in Kafka 3, for each of the two APIs: MessageConversionsTimeMs and TemporaryMemoryBytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from barnabas.metrics.histogram import BYTE_BOUNDS, Histogram
from barnabas.ports.compression import Codecs
from barnabas.wire.errors import ErrorCode
from barnabas.wire.file_range import FileRange
from barnabas.wire.primitives import Buffer
from barnabas_gateway.core.backends.down_conversion import DownConverted, down_convert
from barnabas_gateway.core.backends.partition_appends import PendingAppend
from barnabas_gateway.core.backends.up_conversion import Refusal, UpConverted, up_convert
from barnabas_gateway.core.model.containment import end_by
from barnabas_gateway.core.model.fetch_target import FetchTarget
from barnabas_gateway.core.model.outputs import Turn
from barnabas_gateway.core.timing.hops import Hop
from barnabas_gateway.core.timing.request_timing import RequestTiming


@dataclass(slots=True)
class ConversionCounts:
    """Counts of one API since the processor started: one value for each request that needed a conversion."""

    time_ms: Histogram = field(default_factory=Histogram)
    memory_bytes: Histogram = field(default_factory=lambda: Histogram(BYTE_BOUNDS, unit=1))

    def add_conversion(self, elapsed_ms: float, memory_bytes: int) -> None:
        self.time_ms.add(round(elapsed_ms * 1000))
        self.memory_bytes.add(memory_bytes)


class UpConversionOwner(Protocol):
    """The Produce request whose message sets are converted."""

    @property
    def timing(self) -> RequestTiming | None: ...

    def up_converted(self, conversion: UpConversion) -> None:
        """The message sets are converted, or can't be. The connection may be gone."""

    def failed_in_worker(self, fault: str) -> None:
        """The conversion has met an unexpected exception; `fault` is its traceback."""

    def failed(self, error: Exception) -> None:
        """Its end has met an unexpected exception."""


class DownConversionOwner(Protocol):
    """The Fetch request whose batches are converted."""

    @property
    def timing(self) -> RequestTiming | None: ...

    def down_converted(self, conversion: DownConversion) -> None:
        """The batches are converted, or can't be. The connection may be gone."""

    def failed_in_worker(self, fault: str) -> None:
        """The conversion has met an unexpected exception; `fault` is its traceback."""

    def failed(self, error: Exception) -> None:
        """Its end has met an unexpected exception."""


@dataclass(slots=True, eq=False)
class UpConversion:
    """The message sets of one Produce request."""

    owner: UpConversionOwner
    counts: ConversionCounts
    appends: Sequence[PendingAppend]
    """All appends of the request, in order."""
    to_convert: Sequence[PendingAppend]
    outcomes: list[UpConverted | Refusal] = field(default_factory=list)
    fault: str = ""
    """The traceback of an internal error, for the log: the host sets it if `run` failed."""

    def run(self, codecs: Codecs) -> None:
        self.outcomes = [up_convert(append.records, codecs) for append in self.to_convert]

    def ended(self, elapsed_ms: float) -> None:
        owner = self.owner
        try:
            # First of all: a second exception must not hide the first one.
            if self.fault:
                owner.failed_in_worker(self.fault)
                return
            memory_bytes = sum(outcome.memory_bytes for outcome in self.outcomes if isinstance(outcome, UpConverted))
            self.counts.add_conversion(elapsed_ms, memory_bytes)
            if owner.timing is not None:
                owner.timing.enter(Hop.GATEWAY)
            owner.up_converted(self)
        except Exception as error:
            end_by(owner, error)


@dataclass(slots=True, eq=False)
class DownConversion:
    """The records of one Fetch response."""

    owner: DownConversionOwner
    counts: ConversionCounts
    magic: int
    targets: Sequence[FetchTarget]
    records: Sequence[Buffer]
    """The records of each target."""
    outcomes: list[DownConverted | ErrorCode] = field(default_factory=list)
    fault: str = ""

    def run(self, codecs: Codecs) -> None:
        self.outcomes = [
            down_convert(records, self.magic, target.fetch_offset, codecs)
            for target, records in zip(self.targets, self.records, strict=True)
        ]

    def ended(self, elapsed_ms: float) -> None:
        owner = self.owner
        try:
            # First of all: a second exception must not hide the first one.
            if self.fault:
                owner.failed_in_worker(self.fault)
                return
            memory_bytes = sum(outcome.memory_bytes for outcome in self.outcomes if isinstance(outcome, DownConverted))
            self.counts.add_conversion(elapsed_ms, memory_bytes)
            if owner.timing is not None:
                owner.timing.enter(Hop.GATEWAY)
            owner.down_converted(self)
        except Exception as error:
            end_by(owner, error)


class RecordFormatConverter:
    __slots__ = ("_turn", "fetch", "produce")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.produce = ConversionCounts()
        self.fetch = ConversionCounts()

    def convert_up(
        self, owner: UpConversionOwner, appends: Sequence[PendingAppend], to_convert: Sequence[PendingAppend]
    ) -> None:
        """Convert those of a request's appends that are message sets to batches; `owner.up_converted` follows."""
        if owner.timing is not None:
            owner.timing.enter(Hop.CONVERSION)
        self._turn.rare.conversions.append(UpConversion(owner, self.produce, appends, to_convert))

    def convert_down(self, owner: DownConversionOwner, magic: int, targets: Sequence[FetchTarget]) -> None:
        """Convert what was read to message sets; `owner.down_converted` follows."""
        if owner.timing is not None:
            owner.timing.enter(Hop.CONVERSION)
        records: list[Buffer] = []
        for target in targets:
            assert not isinstance(target.records, FileRange), "no range is asked for if records are to be converted"
            records.append(target.records)
        self._turn.rare.conversions.append(DownConversion(owner, self.fetch, magic, targets, records))
