"""The effects of a processor's core: `GatewayCore.take_outputs()` returns one `Outputs` per turn of its host."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, TypeAlias

from barnabas.channel.messages import CoordinateRequest, ExchangeRequest, ParkRequest, ReadRequest
from barnabas.cluster.administration import AdministrationRequest
from barnabas.cluster.controller_calls.table import ClusterRequest, ClusterResponse
from barnabas.cluster.quotas.shares import QuotaUse
from barnabas.containment import ContainedException
from barnabas.ports.compression import Codecs
from barnabas.ports.patterns import CompilePattern
from barnabas.wire.file_range import FileRange
from barnabas.wire.primitives import Buffer

ControllerRequest: TypeAlias = ClusterRequest
ControllerAnswer: TypeAlias = ClusterResponse


class Trace:
    """A traced request: the ids of its span, and the hops one after the other."""

    __slots__ = ("hops", "span_id", "trace_id")

    def __init__(self, trace_id: bytes, span_id: bytes) -> None:
        self.trace_id = trace_id
        self.span_id = span_id
        self.hops: list[tuple[int, int, int]] = []
        """Hop, begin, end (µs)."""


@dataclass(slots=True, frozen=True)
class ControllerCall:
    """A call to the active controller, sent once; the answer, or None without one, goes to `controller_answered`."""

    call_id: int
    request: ControllerRequest
    trace: Trace | None = None
    """The trace of the request that makes the call, if it is traced."""


@dataclass(slots=True, frozen=True)
class LogstoreCall:
    """A call to one logstore, sent once; the answer, or None without one, goes to `logstore_answered`."""

    call_id: int
    node_id: int
    request: AdministrationRequest
    timeout_ms: int


class Conversion(Protocol):
    """Work for the host's worker; it goes to `GatewayCore.converted` when it is done."""

    fault: str
    """The traceback of an internal error, for the log: the host sets it if `run` failed."""

    def run(self, codecs: Codecs) -> None: ...

    def ended(self, elapsed_ms: float) -> None:
        """It has run, in `elapsed_ms`. Its connection may be closed."""


class TokenCheck(Protocol):
    """A token of SASL for the host's worker; it goes to `GatewayCore.token_checked` when it is done."""

    fault: str
    """The traceback of an internal error, for the log: the host sets it if `run` failed."""

    def run(self) -> None: ...

    def ended(self) -> None:
        """It has run. Its connection may be closed."""


class PatternMatching(Protocol):
    """Names for the host's worker to be matched; it goes to `GatewayCore.pattern_matched` when it is done."""

    fault: str
    """The traceback of an internal error, for the log: the host sets it if `run` failed."""

    def run(self, compile_pattern: CompilePattern) -> None: ...

    def ended(self) -> None:
        """It has run. Its connection may be closed."""


class LogLevel(IntEnum):
    """The numbers of Python's own levels."""

    INFO = 20
    WARNING = 30
    ERROR = 40


@dataclass(slots=True, frozen=True)
class Log:
    level: LogLevel
    event: str
    fields: dict[str, str | int]
    is_audited: bool = False
    """Whether it is a record of the audit, which goes to the topic of the audit too."""


class RareOutputs:
    """Effects that few turns have, to be carried out after the others, in the order of the fields."""

    __slots__ = (
        "aborts",
        "closes",
        "contained",
        "controller_calls",
        "conversions",
        "logstore_calls",
        "logstore_cancels",
        "pattern_matchings",
        "pauses",
        "quota_uses",
        "resumes",
        "token_checks",
    )

    def __init__(self) -> None:
        self.contained: list[ContainedException] = []
        """Unexpected exceptions, for the log."""
        self.controller_calls: list[ControllerCall] = []
        self.logstore_calls: list[LogstoreCall] = []
        self.logstore_cancels: list[int] = []
        """Ids of calls whose answers are not needed any more: calls of former turns, or of this one."""
        self.closes: list[int] = []
        """Close after the bytes that were written so far; the core has forgotten these connections already."""
        self.aborts: list[int] = []
        """Close at once, with all that the client has not read; forgotten already too."""
        self.pauses: list[int] = []
        """Stop reading these sockets."""
        self.resumes: list[int] = []
        self.quota_uses: list[QuotaUse] = []
        """To be reported to the owner of their quotas; the shares go to `quota_shares`."""
        self.conversions: list[Conversion] = []
        """To be run on a worker, one after the other; each goes to `GatewayCore.converted`."""
        self.token_checks: list[TokenCheck] = []
        """To be run on another worker, one after the other; each goes to `GatewayCore.token_checked`."""
        self.pattern_matchings: list[PatternMatching] = []
        """To be run on a third worker, one after the other; each goes to `GatewayCore.pattern_matched`."""


class Outputs:
    """One turn's effects, to be carried out in the order of the fields. Empty fields need no action."""

    __slots__ = ("coordinates", "exchanges", "logs", "parks", "rare", "reads", "writes")

    def __init__(self) -> None:
        self.logs: list[Log] = []
        self.exchanges: list[tuple[int, ExchangeRequest]] = []
        """At most one per logstore, by node id; the same holds for `reads` and `coordinates`."""
        self.reads: list[tuple[int, ReadRequest]] = []
        self.coordinates: list[tuple[int, CoordinateRequest]] = []
        self.parks: dict[str, ParkRequest] = {}
        """By pod id."""
        self.writes: list[tuple[int, list[Buffer | FileRange]]] = []
        """At most one per connection id."""
        self.rare: RareOutputs | None = None


class Turn:
    """The turn under way. A part of the core that has an effect puts it into `outputs`."""

    __slots__ = ("outputs",)

    def __init__(self) -> None:
        self.outputs = Outputs()
        """What the host has not taken; another one with each turn."""

    @property
    def rare(self) -> RareOutputs:
        """Those of `outputs` that few turns have, to be added to."""
        rare = self.outputs.rare
        if rare is None:
            rare = self.outputs.rare = RareOutputs()
        return rare
