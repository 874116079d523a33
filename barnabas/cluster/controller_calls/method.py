"""ControllerMethod: what is known of one call to the active controller, by those who send, carry, serve or audit it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, Final, Generic, NamedTuple, TypeVar

from barnabas.cluster.keys import Role

Request = TypeVar("Request")
Response = TypeVar("Response")

GATEWAY: Final = frozenset({Role.GATEWAY})
LOGSTORE: Final = frozenset({Role.LOGSTORE})


@dataclass(slots=True, frozen=True)
class Change:
    """One thing that a call was to change, for the audit; `error_code` 0: it did. `resource` says which, `detail` what
    of it: names of keys, never values, since a broker's config can be a password and a credential is one.
    """

    event: str
    resource: str
    error_code: int = 0
    detail: str = ""


def no_changes(*_: object) -> Iterable[Change]:
    return ()


def _one(_: object) -> int:
    return 1


class ControllerMethod(NamedTuple, Generic[Request, Response]):
    """A row of `barnabas.cluster.controller_calls.table`: one method of the gRPC service Membership.

    `request` and `response` are named as their protobuf messages are: the method's name, then Request or Response.
    """

    request: type[Request]
    response: type[Response]
    not_done: Callable[[Request, str], Response]
    """Returns the response that has REQUEST_TIMED_OUT and this message for each element of the request. The controller
    sends it for a request that it has not begun, `MembershipClient` returns it where the request may have been done.
    """
    cost: Callable[[Request], int] = _one
    """Returns how many elements a turn of the controller is charged for the request; 0: its decision takes several
    steps, each with a cost of its own.
    """
    asked: Callable[[Request], Iterable[Change]] = no_changes
    """Returns the changes that the request asks for, in its order: the audit's records if the answer is lost."""
    changed: Callable[[Request, Response], Iterable[Change]] | None = None
    """Returns the changes with their error codes. None: those asked for, each with the error code of the result at the
    same position, or of the response if it has no results.
    """
    callers: frozenset[Role] = GATEWAY
    """The roles that may call it under mutual TLS."""
    is_repeatable: bool = False
    """Whether it may be sent again after its answer is lost, since doing it twice does no harm."""
    timeout_ms: int = 0
    """How long it may take; 0: its requests have a `timeout_ms` of their own."""

    @property
    def name(self) -> str:
        """The name of the gRPC method."""
        return self.request.__name__.removesuffix("Request")

    def timeout_of(self, request: Request) -> int:
        """Return how long the controller may take, in ms; negative if the client has set that."""
        timeout_ms: int = getattr(request, "timeout_ms", self.timeout_ms)
        return timeout_ms

    def changes_asked_for(self, request: Request) -> Iterable[Change]:
        """Return what a request is to change; nothing if it is only to be validated."""
        return () if _is_validated_only(request) else self.asked(request)

    def changes(self, request: Request, response: Response) -> Iterable[Change]:
        """Return what a request has changed or failed to change; nothing if it was only to be validated."""
        if _is_validated_only(request):
            return ()
        if self.changed is not None:
            return self.changed(request, response)
        return _with_results(self.asked(request), response)


def _is_validated_only(request: object) -> bool:
    is_validated_only: bool = getattr(request, "validate_only", False)
    return is_validated_only


def _with_results(asked: Iterable[Change], response: Any) -> Iterator[Change]:
    results: Iterable[Any] = getattr(response, "results", repeat(response))
    for change, result in zip(asked, results, strict=False):
        yield replace(change, error_code=result.error_code)
