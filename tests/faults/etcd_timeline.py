"""When what happened, as etcd has it: the phases between a blackout and the first acknowledged write.

    before = read_state(endpoint)
    with EtcdTimeline(endpoint, before) as timeline:
        …                                  # kill everything, start it again
    timeline.events()                      # (nanoseconds of time.monotonic_ns, what)

The keys of before the blackout tell the dead from the living: a key that was created again is a new process's. The
timeline connects afresh as soon as etcd listens, so that no reconnect backoff of its own is in the figures.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass

from barnabas.cluster.keys import Keys, PartitionChunk, Role, decode_record
from barnabas.ports.etcd import KeyValue, Snapshot
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.etcd import EtcdClient

_KEYS = Keys()
_POLL_SECONDS = 0.005
_ROLES = (Role.LOGSTORE, Role.PURGATORY, Role.GATEWAY, Role.CONTROLLER)

ETCD_LISTENS = "etcd listens"
ETCD_ANSWERS = "etcd answers a read"
ELECTION_FREE = "the dead controller's election key is gone"
CONTROLLER_ELECTED = "a controller is elected"
LEADERS_ELECTED = "every partition has a leader of the new registrations"


@dataclass(slots=True, frozen=True)
class Event:
    at_ns: int
    what: str


@dataclass(slots=True, frozen=True)
class State:
    """Create revisions by key, of the election key and of all registrations."""

    created_at: dict[str, int]


def read_state(endpoint: str) -> State:
    """Raises EtcdUnavailable."""

    async def read() -> State:
        client = EtcdClient([endpoint], monotonic_ms)
        try:
            snapshot = await client.get_prefix(_KEYS.prefix)
        finally:
            await client.close()
        return State({each.key: each.create_revision for each in snapshot.key_values if _is_of_a_process(each.key)})

    return asyncio.run(read())


def _is_of_a_process(key: str) -> bool:
    return key == _KEYS.election or any(key.startswith(_KEYS.registrations(role)) for role in _ROLES)


class EtcdTimeline:
    """Records until its context ends, in a thread with an event loop of its own."""

    def __init__(self, endpoint: str, before: State) -> None:
        self._endpoint = endpoint
        self._before = before
        self._events: dict[str, int] = {}
        self._keys: dict[str, KeyValue] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._record()), name="etcd timeline")

    def __enter__(self) -> EtcdTimeline:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def events(self) -> list[Event]:
        """In the order in which they happened; each the first time only."""
        return sorted([Event(at_ns, what) for what, at_ns in self._events.items()], key=lambda event: event.at_ns)

    async def _record(self) -> None:
        while not self._stopping.is_set() and not _listens(self._endpoint):
            await asyncio.sleep(_POLL_SECONDS)
        self._note(ETCD_LISTENS)
        client = EtcdClient([self._endpoint], monotonic_ms)
        following = asyncio.ensure_future(self._follow(client))
        while not self._stopping.is_set():
            await asyncio.sleep(_POLL_SECONDS)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await client.close()

    async def _follow(self, client: EtcdClient) -> None:
        async with aclosing(client.watch(_KEYS.prefix)) as changes:
            async for change in changes:
                if isinstance(change, Snapshot):
                    self._note(ETCD_ANSWERS)
                    self._keys = {each.key: each for each in change.key_values}
                else:
                    for event in change.events:
                        if event.deleted:
                            self._keys.pop(event.key_value.key, None)
                        else:
                            self._keys[event.key_value.key] = event.key_value
                self._judge()

    def _judge(self) -> None:
        election = self._keys.get(_KEYS.election)
        if election is None or self._is_new(election):
            self._note(ELECTION_FREE)
        for each in self._keys.values():
            if _is_of_a_process(each.key) and self._is_new(each):
                self._note(CONTROLLER_ELECTED if each.key == _KEYS.election else f"{_name_of(each.key)} is registered")
        if self._leads_everywhere():
            self._note(LEADERS_ELECTED)

    def _is_new(self, found: KeyValue) -> bool:
        return self._before.created_at.get(found.key, 0) != found.create_revision

    def _leads_everywhere(self) -> bool:
        """Each leader was elected under the registration that it has now, and that is a new one."""
        for chunk in self._chunks():
            for partition in chunk.partitions:
                registered = self._keys.get(_KEYS.registration(Role.LOGSTORE, str(partition.leader)))
                if registered is None or not self._is_new(registered):
                    return False
                if partition.leader_broker_epoch != registered.create_revision:
                    return False
        return True

    def _chunks(self) -> Iterable[PartitionChunk]:
        for each in self._keys.values():
            if each.key.startswith(_KEYS.partitions):
                record = decode_record(_KEYS, each.key, each.value)
                if isinstance(record, PartitionChunk):
                    yield record

    def _note(self, what: str) -> None:
        self._events.setdefault(what, time.monotonic_ns())


def _name_of(key: str) -> str:
    role = next(role for role in _ROLES if key.startswith(_KEYS.registrations(role)))
    member_id = key.rpartition("/")[2]
    return f"logstore-{member_id}" if role is Role.LOGSTORE else member_id


def _listens(endpoint: str) -> bool:
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=0.2).close()
    except OSError:
        return False
    return True
