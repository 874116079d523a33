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
from typing import TYPE_CHECKING

from barnabas.metrics.histogram import BYTE_BOUNDS, Histogram
from barnabas.ports.compression import Codecs
from barnabas.wire.errors import ErrorCode
from barnabas.wire.primitives import Buffer
from services.gateway.core.down_conversion import DownConverted, down_convert
from services.gateway.core.effects import LogLevel
from services.gateway.core.fetch_target import FetchTarget
from services.gateway.core.partition_appends import PendingAppend
from services.gateway.core.request_timing import Hop
from services.gateway.core.up_conversion import Refusal, UpConverted, needs_up_conversion, up_convert

if TYPE_CHECKING:
    from services.gateway.core.fetch import PendingFetch
    from services.gateway.core.processor import Processor
    from services.gateway.core.produce import PendingProduce


@dataclass(slots=True)
class ConversionCounts:
    """Of one API, since the processor started: one value for each request that needed a conversion."""

    time_ms: Histogram = field(default_factory=Histogram)
    memory_bytes: Histogram = field(default_factory=lambda: Histogram(BYTE_BOUNDS, unit=1))


@dataclass(slots=True, eq=False)
class UpConversion:
    """The message sets of one Produce request."""

    slot: PendingProduce
    appends: Sequence[PendingAppend]
    """All of the request's, in order."""
    to_convert: Sequence[PendingAppend]
    outcomes: list[UpConverted | Refusal] = field(default_factory=list)
    fault: str = ""
    """Of ours, for the log: the host sets it where `run` did not come to its end."""

    def run(self, codecs: Codecs) -> None:
        self.outcomes = [up_convert(append.records, codecs) for append in self.to_convert]


@dataclass(slots=True, eq=False)
class DownConversion:
    """The records of one Fetch response."""

    slot: PendingFetch
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


Conversion = UpConversion | DownConversion


class ConversionRoom:
    __slots__ = ("_processor", "_to_run", "fetch", "produce")

    def __init__(self, processor: Processor) -> None:
        self._processor = processor
        self._to_run: list[Conversion] = []
        self.produce = ConversionCounts()
        self.fetch = ConversionCounts()

    def convert_up(self, slot: PendingProduce, appends: Sequence[PendingAppend]) -> None:
        """Submit the appends when those among them that are message sets are batches."""
        to_convert = [append for append in appends if needs_up_conversion(append.records)]
        if not to_convert:
            slot.submit(appends)
            return
        slot.connection.waiting_appends += 1
        if slot.timing is not None:
            slot.timing.enter(Hop.CONVERSION)
        self._to_run.append(UpConversion(slot, appends, to_convert))

    def convert_down(self, slot: PendingFetch, magic: int) -> bool:
        """Begin it, where there is anything to convert; `slot.converted` follows."""
        targets = [target for target in slot.targets if len(target.records)]
        if not targets:
            return False
        self._processor.deadlines.remove(slot)
        if slot.timing is not None:
            slot.timing.enter(Hop.CONVERSION)
        records = [target.records for target in targets]
        self._to_run.append(DownConversion(slot, magic, targets, records))
        return True

    def take(self) -> list[Conversion]:
        to_run, self._to_run = self._to_run, []
        return to_run

    def done(self, conversion: Conversion, elapsed_ms: float) -> None:
        """It has run. Its connection may be gone."""
        memory_bytes = sum(
            outcome.memory_bytes for outcome in conversion.outcomes if isinstance(outcome, UpConverted | DownConverted)
        )
        counts = self.produce if isinstance(conversion, UpConversion) else self.fetch
        counts.time_ms.add(round(elapsed_ms * 1000))
        counts.memory_bytes.add(memory_bytes)
        processor = self._processor
        connection = conversion.slot.connection
        if conversion.slot.timing is not None:
            conversion.slot.timing.enter(Hop.GATEWAY)
        if isinstance(conversion, UpConversion):
            processor.appends.one_waits_less(connection)
        if connection.is_closed:
            return
        if conversion.fault:
            # One request that finds it must not take the other connections with it.
            fields = {"traceback": conversion.fault}
            slot = conversion.slot
            processor.journal.note(
                LogLevel.ERROR, "request failed", connection.context, slot.header, fields, slot.trace_id
            )
            processor.clients.close(connection)
            return
        match conversion:
            case UpConversion():
                conversion.slot.submit(_converted(conversion))
            case DownConversion():
                conversion.slot.converted(conversion.targets, conversion.outcomes)


def _converted(conversion: UpConversion) -> list[PendingAppend]:
    """The request's appends, now batches, but for those that are refused."""
    slot = conversion.slot
    refused = set()
    for append, outcome in zip(conversion.to_convert, conversion.outcomes, strict=True):
        match outcome:
            case UpConverted():
                append.records = outcome.records
            case Refusal():
                refused.add(append)
                slot.refuse(append, outcome.error, outcome.message)
    return [append for append in conversion.appends if append not in refused]
