"""Those whom an exception does not concern: they go on as if nothing was.

Asked where nothing else goes wrong: any other fault may cost anyone a request. An exception that ends a process excuses
what happens within the time that it takes until every client has noticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from barnabas.containment import Containment
from barnabas.containment import Scope as PlaceScope
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Response
from tests.sim.clients.client import REQUEST_TIMEOUT_US
from tests.sim.exceptions.account import Scope, Thrown
from tests.sim.process import Process
from tests.sim.scheduler import SECOND, InvariantViolation

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

NOTICED_US = REQUEST_TIMEOUT_US + 8 * SECOND
"""A lease ends, another leader is elected, groups find their coordinator; and a request may have begun before."""
REPLICAS_MIN = 2
"""The largest min ISR of the simulation's topics."""
_INTERNAL = (ErrorCode.UNKNOWN_SERVER_ERROR,)
_NARROW = (Scope.REQUEST, Scope.STREAM)


class Bystanders:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._wide_us = -NOTICED_US
        """When a process or a partition was ended last."""
        self._narrow: list[Thrown] = []
        self._contained = 0
        self._failed_answers = 0
        self._lives: dict[Process, int] = {}
        """The highest incarnation that each host may have."""

    def watch(self, hosts: Sequence[Process]) -> None:
        self._lives = {host: host.incarnation for host in hosts}
        self._cluster.history.no_answer = self._no_answer
        self._cluster.history.answered = self._answered

    def reported(self, thrown: Thrown, scope: Scope) -> None:
        self._contained += scope is not Scope.PROCESS
        if scope in _NARROW:
            self._narrow.append(thrown)
        else:
            self._wide_us = self._cluster.scheduler.now_us
        if scope is Scope.PROCESS:
            # It ends, and starts again.
            self._lives[thrown.process] += 2

    @property
    def _is_quiet(self) -> bool:
        """Whether nothing has ended lately but requests, streams and duties, and nothing is short of replicas."""
        return self._cluster.scheduler.now_us - self._wide_us > NOTICED_US and not self._is_any_short()

    def _is_any_short(self) -> bool:
        """Whether exceptions have taken replicas of a partition offline until fewer are left than a min ISR may ask."""
        lost = Counter(
            partition.key
            for logstore in self._cluster.logstores
            if logstore.core is not None
            for partition in logstore.partitions
            if partition.log.error is not None
        )
        existing = self._cluster.promises.elections.existing
        return any(
            key in existing and len(existing[key].replicas) - count < REPLICAS_MIN for key, count in lost.items()
        )

    def _no_answer(self, client: str, api_key: ApiKey) -> None:
        if self._is_quiet:
            raise InvariantViolation(f"{client} got no answer to {api_key.name}, and nothing has ended but requests")

    def _answered(self, client: str, api_key: ApiKey, response: Response) -> None:
        """One request fails for one exception, however many others were handled with it."""
        codes = (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.REQUEST_TIMED_OUT) if self._is_quiet else _INTERNAL
        if not has_any(response, codes):
            return
        self._failed_answers += 1
        if self._failed_answers > self._contained:
            words = " or ".join(code.name for code in codes)
            raise InvariantViolation(
                f"{client} was answered {words} to {api_key.name}: the answer number {self._failed_answers} of this "
                f"kind, for {self._contained} exceptions"
            )

    def look(self) -> None:
        """To be called now and then: what is gone for good is no more than was reported."""
        for host, incarnation in self._lives.items():
            if host.incarnation > incarnation:
                raise InvariantViolation(f"{host.name} has ended, and has reported nothing by which it would")
        for gateway in self._cluster.gateways:
            contained = sum(each.process is gateway for each in self._narrow)
            if gateway.unexplained_closes > contained:
                raise InvariantViolation(
                    f"{gateway.name} has closed {gateway.unexplained_closes} connections for {contained} exceptions"
                )
        for logstore in self._cluster.logstores:
            if logstore.core is not None:
                lost = sum(partition.log.error is not None for partition in logstore.partitions)
                check_lost_partitions(logstore.name, lost, logstore.core.contained)


def check_lost_partitions(name: str, lost: int, contained: Containment) -> None:
    """A logstore has contained an exception for each partition that it has lost, whether its next turn has reported
    that or not.
    """
    exceptions = sum(count for place, count in contained.counts.items() if place.scope is PlaceScope.PARTITION)
    if lost > exceptions:
        raise InvariantViolation(f"{name} has lost {lost} partitions for {exceptions} exceptions")


def has_any(message: Any, codes: tuple[ErrorCode, ...]) -> bool:
    """Return whether one of the codes is anywhere in an answer."""
    if isinstance(message, list):
        return any(has_any(each, codes) for each in message)
    of_codes, of_parts = _names_in(type(message))
    for name in of_codes:
        if getattr(message, name) in codes:
            return True
    for name in of_parts:
        part = getattr(message, name)
        if part is not None and has_any(part, codes):
            return True
    return False


@cache
def _names_in(kind: type[Any]) -> tuple[list[str], list[str]]:
    """Return the fields of a class of messages that are error codes, and those that may have some within."""
    if not is_dataclass(kind):
        return [], []
    names = [each.name for each in fields(kind) if each.type not in _WITHOUT_PARTS or "error_code" in each.name]
    of_codes = [name for name in names if "error_code" in name]
    return of_codes, [name for name in names if name not in of_codes]


_WITHOUT_PARTS = ("int", "str", "bytes", "bool", "Buffer", "float", "str | None", "bytes | None", "Buffer | None")
"""Annotations of fields, as they are written."""
