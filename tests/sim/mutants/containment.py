"""Containment: what an unexpected exception costs, and whether it is reported. It shows where some are thrown."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.channel.messages import Append, AppendResult
from barnabas.containment import Containment, Place
from barnabas.wire.errors import ErrorCode
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.connections.responder import Responder
from barnabas_logstore.core.data.appends import Appends
from barnabas_logstore.core.replica.containment import LogstoreContainment
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.streams.streams import ExchangeStream
from tests.sim.exceptions.call_sites import Place as Thrown
from tests.sim.exceptions.exceptions import Exceptions
from tests.sim.mutants.planting import SECONDS, SMALL, Mutants, Plant, replace_in
from tests.sim.run import Options
from tests.sim.shapes import Profile

CONTAINMENT = Mutants("containment")


def _breaks_at(*named: str) -> Callable[[Plant], Plant]:
    """Decorates what plants a mutant that shows when exceptions are thrown at these places."""
    exceptions = Exceptions(tuple(map(Thrown.parse, named)))
    options = Options(SECONDS, faults=[], at_most=SMALL, profile=Profile.SPARSE, exceptions=exceptions)
    return CONTAINMENT.breaks_with("containment", options)


_APPENDS = ("logstore.Appends.append:entry", "logstore.Partition.check_append:entry", "logstore.TopicMeter.add:entry")
_IN_DOUBT = (
    "logstore.LogWrites.add:exit",
    "logstore.LogWrites.begin:exit",
    "logstore.LogWrites.end:entry",
    "logstore.LogAppends.begin_write:exit",
)
_REQUESTS = ("gateway.ProduceHandler.start:entry", "gateway.FetchHandler.start:entry")


@_breaks_at(*_APPENDS, "logstore.Reads.plan:entry")
def what_is_contained_is_not_reported() -> None:
    def contain(self: Containment, place: Place, error: Exception, fields: Mapping[str, str | int]) -> None:
        self.counts[place] += 1

    replace_in(Containment, "contain", contain)


@_breaks_at(*_APPENDS)
def an_append_that_fails_takes_its_partition_offline() -> None:
    """It is reported as what costs one request."""
    original = Appends.contain

    def contain(self: Appends, stream: ExchangeStream, append: Append, error: Exception) -> None:
        original(self, stream, append, error)
        partition = self._replicas.by_key.get((append.topic_id, append.partition))
        if partition is not None:
            self._replicas.contained.doubt(partition.log, error)

    replace_in(Appends, "contain", contain)


@_breaks_at(*_IN_DOUBT)
def a_log_in_doubt_goes_on() -> None:
    def doubt(self: LogstoreContainment, log: PartitionLog, error: Exception) -> None:
        """Nothing."""

    replace_in(LogstoreContainment, "doubt", doubt)


@_breaks_at(*_APPENDS)
def an_append_that_fails_is_answered_twice() -> None:
    original = Appends.contain

    def contain(self: Appends, stream: ExchangeStream, append: Append, error: Exception) -> None:
        original(self, stream, append, error)
        self._answer(stream, append, AppendResult(append.request_id, ErrorCode.UNKNOWN_SERVER_ERROR))

    replace_in(Appends, "contain", contain)


@_breaks_at(*_APPENDS)
def the_credit_of_an_append_that_fails_is_kept() -> None:
    original = Appends.contain

    def contain(self: Appends, stream: ExchangeStream, append: Append, error: Exception) -> None:
        handled = stream.requests_handled
        original(self, stream, append, error)
        stream.requests_handled = handled

    replace_in(Appends, "contain", contain)


@_breaks_at(*_REQUESTS)
def a_request_that_fails_closes_every_connection() -> None:
    original = Responder.failed

    def failed(self: Responder, pending: PendingRequest, error: Exception) -> None:
        original(self, pending, error)
        for connection in list(self._connections._connections.values()):
            self._connections.close_connection(connection)

    replace_in(Responder, "failed", failed)
