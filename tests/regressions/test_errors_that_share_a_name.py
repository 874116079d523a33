"""An error that a compiled function catches under a name that it uses for another type of error, too.

A name has one type in what mypyc compiles, that of the first error: any other one was a TypeError as it was caught. An
unexpected exception in one request then cost its connection, one in the handling of a message ended the logstore, and
an error of the operating system was taken for a fault of Barnabas.
"""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.channel.generated.packing import pack_watch_request, scan_watch_request
from barnabas.channel.messages import WatchRequest
from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas_gateway.core.model.containment import REQUEST
from barnabas_logstore.core.replica.containment import MESSAGE
from barnabas_logstore.core.storage.effects import ReadEffect
from barnabas_logstore.shell.data_listener import DataListener, _Stream
from barnabas_logstore.shell.driver import LogstoreDriver
from barnabas_logstore.shell.io_workers import IoWorkers, _run
from tests.unit.gateway.world import World
from tests.unit.logstore.service.support import Host


def raises(*arguments: object) -> Any:
    raise ValueError("planted")


def test_a_request_that_fails_as_it_starts_is_answered() -> None:
    world = World()
    world.expects_fault = True
    client = world.client()
    routes = world.processor.dispatcher.routes
    handler, kind = routes[ApiKey.LIST_GROUPS << 16 | 4]
    # Its requests are real ones: a compiled request has a compiled handler.
    pending: Any = type("Pending", (), {"__new__": lambda _, failing, *rest: handler.request_class(handler, *rest)})
    failing: Any = SimpleNamespace(request_class=pending, takes_body=False, start=raises)
    routes[ApiKey.LIST_GROUPS << 16 | 4] = (failing, kind)
    client.ask(ListGroupsRequest(), ApiKey.LIST_GROUPS, 4)
    assert [each.place for each in world.contained] == [REQUEST]
    assert [each.error_code for each in client.answers] == [ErrorCode.UNKNOWN_SERVER_ERROR]  # type: ignore[union-attr]
    assert not client.is_closed


class _Disk:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def read_at(self, file: object, position: int, length: int) -> bytes:
        raise self._error


class _File:
    path = "t-0/0.log"


@pytest.mark.parametrize(
    "error", [OSError(errno.EIO, "Input/output error"), DiskError(DiskErrorKind.IO, "read", "t-0/0.log")]
)
def test_an_error_of_the_operating_system_is_one_of_the_disk(error: Exception) -> None:
    outcome = _run(cast("Any", _Disk(error)), ReadEffect(cast("Any", _File()), 0, 10))
    assert isinstance(outcome, DiskError)
    assert outcome.kind is DiskErrorKind.IO


async def test_a_message_that_fails_costs_its_stream() -> None:
    host = Host()
    workers = IoWorkers(host.disk, 1)
    driver = LogstoreDriver(host.core, workers, lambda outputs: None, lambda: None)
    listener = DataListener(cast("Any", SimpleNamespace(add_generic_rpc_handlers=lambda handlers: None)))
    closed: list[str] = []
    stream = cast("Any", SimpleNamespace(peer="a gateway", close=closed.append, inbox=None))
    taken = _Stream(listener, driver, stream, scan_watch_request, raises, lambda count: b"")
    try:
        taken.on_message(pack_watch_request(WatchRequest()))
    finally:
        workers.stop()
    assert closed == ["an internal error"]
    assert host.core.contained.counts[MESSAGE] == 1
    assert not driver.failed.done()
