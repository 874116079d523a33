"""The network: connections that keep their order like a TCP stream, between hosts whose links can be slowed and cut.

A cut loses nothing by itself: what is on its way arrives when the link heals, as TCP repeats it. A direction that is
silent for 3 s (a cut, a paused peer) is treated as death by the process waiting at its end, where the protocol has
heartbeats; the heartbeats themselves are not events here. A process that dies has its connections closed by its kernel:
what it sent last arrives in part, then the end. A machine that dies says nothing: its peers go on until the silence
tells them, or the machine, which is back by then and has never heard of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from barnabas.containment import Uncontained
from tests.sim.process import Process
from tests.sim.scheduler import MS, InvariantViolation, ProcessEnds, Scheduler, injected
from tests.sim.weather import Hit, Weather, unnoticed

SILENCE_US_MAX = 3_000 * MS
CONNECT_TIMEOUT_US = 3_000 * MS
# Unread data accumulates for 3 s at most, or as long as a client waits for its answers.
IN_FLIGHT_BOUND = 20_000


class Codec(Protocol):
    """Bytes of messages and back, as on the wire."""

    def encoded(self, message: Any, *, to_server: bool) -> Any:
        """The message as the other side decodes it."""


@dataclass(slots=True, frozen=True)
class StreamKind:
    """What a connection speaks. `describe` gives a message as a few words of the trace, contents included."""

    name: str
    describe: Callable[[Any], str]
    codec: Codec
    has_heartbeats: bool = True


class Peer(Protocol):
    """Who holds an end of a connection."""

    def on_message(self, message: Any) -> None: ...

    def on_closed(self, reason: str) -> None: ...


class End:
    """One end: its process sends and receives here. After `close` or `on_closed` it is silent."""

    __slots__ = (
        "_queue",
        "connection",
        "incarnation",
        "is_open",
        "is_pumping",
        "is_torn",
        "other",
        "peer",
        "process",
        "unread",
    )

    other: End

    def __init__(self, connection: Connection, process: Process) -> None:
        self.connection = connection
        self.process = process
        self.incarnation = process.incarnation
        self.peer: Peer | None = None
        self.is_open = True
        # What is on its way *to* this end: when it may arrive at the earliest, and what; None is the end.
        self._queue: deque[tuple[int, Any]] = deque()
        self.is_pumping = False
        # Nothing but the end comes behind what is on its way.
        self.is_torn = False
        # What has arrived while the process did not run.
        self.unread: deque[Any] = deque()

    @property
    def sent_and_not_arrived(self) -> int:
        """Messages of this end that are on their way."""
        return len(self.other._queue)

    def send(self, message: Any) -> None:
        if self.is_open:
            self.connection.network.transmit(self, message)

    def deliver(self) -> None:
        self.connection.network.deliver(self)

    def arrival(self) -> str:
        """What is about to arrive, for the trace."""
        connection = self.connection
        message = self._queue[0][1] if self._queue else None
        said = "end" if message is None else connection.kind.describe(message)
        sender = self.other.process.name
        return f"{sender}>{self.process.name} {connection.kind.name} {connection.connection_id} {said}"

    def close(self, reason: str) -> None:
        """The other end is notified, after what was sent before."""
        if self.is_open:
            self.is_open = False
            self.connection.network.transmit_end(self, reason)


class Connection:
    __slots__ = ("client", "connection_id", "is_severed", "kind", "network", "server")

    def __init__(
        self, network: Network, connection_id: int, kind: StreamKind, client: Process, server: Process
    ) -> None:
        self.network = network
        self.connection_id = connection_id
        self.kind = kind
        self.client = End(self, client)
        self.server = End(self, server)
        self.client.other, self.server.other = self.server, self.client
        # Half open: one side does not know it any more, the other has not been notified.
        self.is_severed = False


Accept = Callable[[End], Peer]


@dataclass(slots=True)
class _Listener:
    process: Process
    incarnation: int
    accept: Accept

    @property
    def is_open(self) -> bool:
        """The process that listened is the one that runs."""
        return self.process.alive and self.incarnation == self.process.incarnation


class Network:
    def __init__(self, scheduler: Scheduler, encode: bool) -> None:
        """`encode`: every message goes through its real encoding on the way."""
        self._scheduler = scheduler
        self._encode = encode
        self._listeners: dict[str, _Listener] = {}
        self._connections: dict[int, Connection] = {}
        self._last_connection_id = 0
        self._delay_us: dict[tuple[str, str], int] = {}
        # Directions between hosts that nothing passes: since when, and the callback for when something would have.
        self._cut: dict[tuple[str, str], tuple[int, Hit]] = {}
        # Directions between hosts that are worse than others.
        self.weather: dict[tuple[str, str], Weather] = {}
        self.messages = 0
        self.in_flight_max = 0

    def __str__(self) -> str:
        return f"{self.messages} messages, at most {self.in_flight_max} on their way on one connection"

    # --- opening -----------------------------------------------------------------------------------------------------

    def listen(self, address: str, process: Process, accept: Accept) -> None:
        """`accept` is called for each connection that is opened, by the process that listens."""
        self._listeners[address] = _Listener(process, process.incarnation, accept)

    def refuses(self, address: str) -> bool:
        """Whether a reachable machine reports that no process listens at this address."""
        listener = self._listeners.get(address)
        return listener is None or not (listener.process.is_off or listener.is_open)

    def connect(self, kind: StreamKind, client: Process, address: str, peer: Peer) -> End:
        """Messages may be sent at once; `peer.on_closed` is called if there is no process."""
        listener = self._listeners.get(address)
        server = listener.process if listener is not None else client
        self._last_connection_id += 1
        connection = Connection(self, self._last_connection_id, kind, client, server)
        connection.client.peer = peer
        self._connections[connection.connection_id] = connection
        label = f"{client.name} connects to {address} ({kind.name} {connection.connection_id})"
        self._scheduler.plan(self._delay(client, server), label, lambda: self._arrive(connection, address))
        return connection.client

    def _arrive(self, connection: Connection, address: str) -> None:
        client, server = connection.client, connection.server
        listener = self._listeners.get(address)
        if not client.is_open or client.process.incarnation != client.incarnation:
            self._forget(connection)
            return
        is_unreachable = listener is not None and (
            listener.process.is_off or connection.is_severed or self._is_cut(client.process, listener.process)
        )
        if is_unreachable:
            self._plan_end(client, CONNECT_TIMEOUT_US, "connecting timed out")
            return
        if listener is None or not listener.is_open:
            self._plan_end(client, self._delay(server.process, client.process), "connection refused")
            return
        server.process = listener.process
        server.incarnation = listener.incarnation
        label = f"accepts {connection.kind.name} {connection.connection_id}"

        def accept() -> None:
            server.peer = listener.accept(server)
            self._pump(server)

        self._scheduler.plan(0, label, accept, server.process)
        if connection.kind.has_heartbeats and server.process.paused:
            self._watch_silence(server)

    def _plan_end(self, end: End, delay_us: int, reason: str) -> None:
        label = f"loses {end.connection.kind.name} {end.connection.connection_id}: {reason}"
        self._scheduler.plan(delay_us, label, lambda: self._end(end, reason), end.process)

    def _end(self, end: End, reason: str) -> None:
        """Tell one side that it is over."""
        if not end.is_open:
            return
        end.is_open = False
        end._queue.clear()
        self.transmit_end(end, reason)
        if end.peer is not None and end.process.incarnation == end.incarnation:
            end.peer.on_closed(reason)

    def _forget(self, connection: Connection) -> None:
        self._connections.pop(connection.connection_id, None)

    # --- messages ----------------------------------------------------------------------------------------------------

    def transmit(self, source: End, message: Any) -> None:
        connection = source.connection
        if self._encode:
            message = connection.kind.codec.encoded(message, to_server=source is connection.client)
        self.messages += 1
        self._queue_for(source.other, message)

    def transmit_end(self, source: End, reason: str) -> None:
        """Of a side that has just closed."""
        if source.other.is_open:
            self._queue_for(source.other, None)
        else:
            self._forget(source.connection)

    def _queue_for(self, target: End, message: Any) -> None:
        source = target.other
        if target.connection.is_severed:
            if message is not None and not target.process.is_off and not self._is_cut(source.process, target.process):
                self._plan_end(source, self._delay(source.process, target.process), "reset: no such connection")
            return
        if target.is_torn and message is not None:
            return
        queue = target._queue
        due_us = self._scheduler.now_us + self._delay(source.process, target.process)
        if queue and queue[-1][0] > due_us:
            due_us = queue[-1][0]
        queue.append((due_us, message))
        if len(queue) > self.in_flight_max:
            self.in_flight_max = len(queue)
            if len(queue) > IN_FLIGHT_BOUND:
                kind = target.connection.kind.name
                raise InvariantViolation(f"I16: {len(queue)} messages of {source.process.name} wait on {kind}")
        self._pump(target)

    def _pump(self, target: End) -> None:
        """Plan the arrival of what is first in line."""
        if target.is_pumping or not target._queue or not target.is_open or target.peer is None:
            return
        if self._cut and self._is_cut(target.other.process, target.process):
            return
        target.is_pumping = True
        delay_us = target._queue[0][0] - self._scheduler.now_us
        self._scheduler.plan(delay_us if delay_us > 0 else 0, target.arrival, target.deliver)

    def deliver(self, target: End) -> None:
        """What is first in line arrives."""
        target.is_pumping = False
        if not target.is_open or not target._queue:
            return
        if self._cut and self._is_cut(target.other.process, target.process):
            return  # Cut while it was on its way: it arrives after the healing.
        _, message = target._queue.popleft()
        if type(message) is bytes:
            self._scheduler.fingerprint(message)
        if target.process.paused or target.unread:
            self._leave_unread(target, message)
        else:
            self._hand_over(target, message)
        self._pump(target)

    def _leave_unread(self, target: End, message: Any) -> None:
        """In the kernel's buffer until the process goes on."""
        target.unread.append(message)
        if len(target.unread) == 1:
            label = f"reads {target.connection.kind.name} {target.connection.connection_id}"
            self._scheduler.plan(0, label, lambda: self._read(target), target.process)

    def _read(self, target: End) -> None:
        while target.unread:
            self._hand_over(target, target.unread.popleft())

    def _hand_over(self, target: End, message: Any) -> None:
        if not target.is_open or target.process.incarnation != target.incarnation:
            return
        if message is None:
            self._end(target, "closed by the peer")
        else:
            assert target.peer is not None
            try:
                target.peer.on_message(message)
            except ProcessEnds:
                # An arrival is the network's event; its effects are events of its receiver.
                target.process.interrupted()
            except (Exception, Uncontained) as error:
                fault = injected(error)
                if fault is None:
                    raise
                fault.process.failed(fault)

    # --- what goes wrong ---------------------------------------------------------------------------------------------

    def process_died(self, process: Process) -> None:
        """Its kernel closes its connections; some of what it sent last is lost with its buffers."""
        for connection in list(self._connections.values()):
            for end in (connection.client, connection.server):
                if end.process is process and end.is_open:
                    end.is_open = False
                    end._queue.clear()
                    outgoing = end.other._queue
                    kept = self._scheduler.random.randint(0, len(outgoing))
                    while len(outgoing) > kept:
                        outgoing.pop()
                    self.transmit_end(end, "died")

    def process_paused(self, process: Process) -> None:
        """Its peers receive nothing from now on."""
        for connection in self._connections.values():
            for end in (connection.client, connection.server):
                if end.process is process:
                    self._watch_silence(end)

    def process_resumed(self, process: Process) -> None:
        """It sends again; what came meanwhile is in its hands already."""

    def set_delay(self, source: str, target: str, delay_us: int) -> None:
        """The distance between two hosts, one way, instead of one by chance."""
        self._delay_us[source, target] = delay_us

    def cut(self, source: str, target: str, hit: Hit = unnoticed) -> None:
        """Nothing passes from one host to another until `heal`; `hit` is called whenever something would have."""
        if (source, target) in self._cut:
            return
        self._cut[source, target] = self._scheduler.now_us, hit
        for end in self._ends_between(source, target):
            self._watch_silence(end.other)

    def heal(self, source: str, target: str) -> None:
        if self._cut.pop((source, target), None) is not None:
            for end in self._ends_between(source, target):
                self._pump(end)

    def heal_all(self) -> None:
        for source, target in list(self._cut):
            self.heal(source, target)
        self.weather.clear()
        for connection in list(self._connections.values()):
            if connection.is_severed:
                for end in (connection.client, connection.server):
                    self._plan_end(end, 0, "reset")

    def break_connections(self, host: str, share: float) -> int:
        """Reset some connections of a host mid-stream; both sides are notified at once."""
        broken = 0
        for connection in list(self._connections.values()):
            ends = (connection.client, connection.server)
            if any(end.process.name == host for end in ends) and self._scheduler.random.random() < share:
                broken += 1
                for end in ends:
                    if end.is_open:
                        self._plan_end(end, 0, "reset")
        return broken

    def tear(self, host: str) -> int:
        """Reset connections of a host in the midst of a message that is on its way: half of it arrives, then the end.

        Streams of gRPC lose it as a whole, so these are clients' connections. The number of messages torn.
        """
        torn = 0
        for connection in list(self._connections.values()):
            for end in (connection.client, connection.server):
                is_there = host in (end.process.name, end.other.process.name)
                if not is_there or not end.is_open or end.is_torn or connection.is_severed or end.peer is None:
                    continue
                whole = self._scheduler.below(1 + len(end._queue))
                if whole == len(end._queue):
                    continue
                due_us, message = end._queue[whole]
                if type(message) is bytes and len(message) > 1:
                    torn += 1
                    while len(end._queue) > whole:
                        end._queue.pop()
                    end._queue.append((due_us, message[: 1 + self._scheduler.below(len(message) - 1)]))
                    end.is_torn = True
                    self._plan_end(end.other, 0, "reset")
        return torn

    def half_open(self, host: str, share: float) -> int:
        """A host forgets some of its connections, and the other sides are not notified. Return their number."""
        severed = 0
        for connection in list(self._connections.values()):
            if connection.server.peer is None or connection.is_severed or self._scheduler.random.random() >= share:
                continue
            for end in (connection.client, connection.server):
                if end.process.name == host and end.is_open and end.other.is_open and not connection.is_severed:
                    severed += 1
                    self._sever(end)
                    self._plan_end(end, 0, "reset")
        return severed

    def machine_died(self, process: Process) -> None:
        """Nothing closes its connections, and its peers are not notified."""
        for connection in list(self._connections.values()):
            for end in (connection.client, connection.server):
                if end.process is process and end.is_open:
                    end.is_open = False
                    self._sever(end)
                    if not end.other.is_open:
                        self._forget(connection)

    def _sever(self, end: End) -> None:
        """From now on nothing passes, and the other side is not notified."""
        end.connection.is_severed = True
        end._queue.clear()
        end.other._queue.clear()
        self._watch_silence(end)

    def _ends_between(self, source: str, target: str) -> list[End]:
        """The ends that lie at `target` and receive from `source`."""
        return [
            end
            for connection in self._connections.values()
            for end in (connection.client, connection.server)
            if end.process.name == target and end.other.process.name == source
        ]

    def _watch_silence(self, silent: End) -> None:
        """The other end gives up when nothing of this one can have arrived for 3 s."""
        if not silent.connection.kind.has_heartbeats or not silent.other.is_open:
            return
        since_us = self._scheduler.now_us
        label = f"listens on {silent.connection.kind.name} {silent.connection.connection_id}"

        def listen() -> None:
            cut = self._cut.get((silent.process.name, silent.other.process.name))
            is_silent = (silent.process.paused and silent.is_open) or (cut is not None and cut[0] <= since_us)
            if silent.other.is_open and (is_silent or silent.connection.is_severed):
                self._end(silent.other, "silent for 3 s")

        self._scheduler.plan(SILENCE_US_MAX, label, listen, silent.other.process)

    def _is_cut(self, source: Process, target: Process) -> bool:
        """Asked when something would pass."""
        cut = self._cut.get((source.name, target.name)) if self._cut else None
        if cut is not None:
            cut[1]()
        return cut is not None

    def _delay(self, source: Process, target: Process) -> int:
        """Each pair of hosts has a distance of its own; now and then something takes far longer."""
        below = self._scheduler.below
        key = (source.name, target.name)
        base_us = self._delay_us.get(key)
        if base_us is None:
            base_us = self._delay_us[key] = 20 + below(380)
        chance = self._scheduler.random.random()
        delay_us = base_us + int(chance * (1 + base_us))
        if chance < 0.01:
            delay_us += below(20 * MS)
        weather = self.weather.get(key) if self.weather else None
        return delay_us if weather is None else weather.delay_us(delay_us, self._scheduler)
