"""A client's process and its one connection: requests in order, one answer to each, in the same order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response, encode_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.frames import FrameSplitter
from barnabas.wire.messages import Request, Response
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.sim.history import History
from tests.sim.network import End, Network
from tests.sim.process import Process
from tests.sim.protocols import KAFKA
from tests.sim.scheduler import MS, SECOND, Event, InvariantViolation, Scheduler
from tests.sim.transactions.history import Poll

FRAME_BYTES_MAX = 1 << 26
REQUEST_TIMEOUT_US = 12 * SECOND
METADATA_VERSION = 12
# Metadata is out of date: the topic is gone, or another one has its name.
UNKNOWN_TOPIC = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
)

R = TypeVar("R", bound=Response)
ReadCommitted = Callable[[tuple[str, int], int, bytes, bool], None]
Polled = Callable[[Poll], None]


class _Outstanding(NamedTuple):
    correlation_id: int
    api_key: ApiKey
    version: int
    answered: Callable[[Response | None], None]
    timer: Event


@dataclass(slots=True, frozen=True)
class ClientEnvironment:
    """What every client of a run is created with."""

    scheduler: Scheduler
    network: Network
    gateways: list[str]
    """Their addresses."""
    history: History
    read_committed: ReadCommitted = lambda partition, offset, value, is_aborted: None
    """Hears of each record of a transaction that a read_committed consumer came upon."""
    polled: Polled = lambda poll: None
    """Hears of what a read_committed consumer was given."""


class Client(Process):
    """Connects to any of the gateways, and to another one when it loses it. Subclasses have `work`, done when
    connected."""

    def __init__(self, name: str, environment: ClientEnvironment) -> None:
        super().__init__(name, environment.scheduler, environment.network)
        self.gateways = environment.gateways
        self.history = environment.history
        self.topic_ids: dict[str, bytes] = {}
        # By every id that was ever heard of.
        self.topic_names: dict[bytes, str] = {}
        self._is_learning = False
        self.leader_epochs: dict[tuple[str, int], int] = {}
        self._end: End | None = None
        self._outstanding: deque[_Outstanding] = deque()
        self._last_correlation_id = 0

    def boot(self) -> None:
        self._end = None
        self._outstanding.clear()
        self._is_learning = False
        self.connect()

    def work(self) -> None:
        """The connection is there: go on."""
        raise AssertionError("every client has something to do")

    def connection_lost(self) -> None:
        """It is gone, and every request in progress has been notified."""

    # --- the connection ----------------------------------------------------------------------------------------------

    def connect(self) -> None:
        if self._end is None:
            self._splitter = FrameSplitter(FRAME_BYTES_MAX)
            self._end = self.network.connect(KAFKA, self, self.scheduler.random.choice(self.gateways), self)
            self.meanwhile(0, "begins", self.work)

    @property
    def is_connected(self) -> bool:
        return self._end is not None

    @property
    def unanswered(self) -> int:
        return len(self._outstanding)

    def on_closed(self, reason: str) -> None:
        self._end = None
        outstanding, self._outstanding = self._outstanding, deque()
        for each in outstanding:
            each.timer.cancelled = True
            each.answered(None)
        self.connection_lost()
        self.after(self.scheduler.random.randrange(20 * MS, 200 * MS), "reconnects", self.connect)

    def disconnect(self, reason: str) -> None:
        if self._end is not None:
            self._end.close(reason)
            self.on_closed(reason)

    def fails_internally(self, code: int) -> bool:
        """Return whether this error may be an exception that was thrown on purpose."""
        return code == ErrorCode.UNKNOWN_SERVER_ERROR and self.history.may_fail_internally

    def begin_again(self) -> None:
        """Take the connection for lost: of a request that failed internally it is unknown what was done."""
        self.meanwhile(0, "begins again after an internal error", lambda: self.disconnect("an internal error"))

    def meanwhile(self, delay_us: int, label: str, action: Callable[[], None]) -> None:
        """Plan something that makes sense on this connection only: after another one `work` starts over."""
        end = self._end
        self.after(delay_us, label, lambda: action() if end is not None and self._end is end else None)

    # --- requests ----------------------------------------------------------------------------------------------------

    def ask(
        self,
        api_key: ApiKey,
        request: Request,
        version: int,
        response_type: type[R],
        answered: Callable[[R | None], object],
        timeout_us: int = REQUEST_TIMEOUT_US,
    ) -> None:
        """Send a request; `answered` is called once, with None when the connection was lost first."""
        self._last_correlation_id += 1
        correlation_id = self._last_correlation_id

        def typed(response: Response | None) -> None:
            assert response is None or isinstance(response, response_type)
            answered(response)

        def give_up() -> None:
            if self.history.no_answer is not None:
                self.history.no_answer(self.name, api_key)
            self.disconnect("no answer in time")

        timer = self.after(timeout_us, f"waits no longer for {correlation_id}", give_up)
        self._outstanding.append(_Outstanding(correlation_id, api_key, version, typed, timer))
        self._send(b"".join(map(bytes, encode_request(request, version, correlation_id, self.name))))

    def tell(self, request: Request, version: int) -> None:
        """Send a request that has no answer."""
        self._last_correlation_id += 1
        self._send(b"".join(map(bytes, encode_request(request, version, self._last_correlation_id, self.name))))

    def _send(self, data: bytes) -> None:
        """Now and then in parts, as TCP may deliver it."""
        assert self._end is not None
        random = self.scheduler.random
        while len(data) > 1 and random.random() < 0.1:
            cut = random.randrange(1, len(data))
            self._end.send(data[:cut])
            data = data[cut:]
        self._end.send(data)

    def on_message(self, message: bytes) -> None:
        for frame in self._splitter.feed(message):
            if not self._outstanding:
                raise InvariantViolation(f"{self.name} got an answer that it did not ask for")
            asked = self._outstanding.popleft()
            correlation_id = int.from_bytes(frame[:4])
            if correlation_id != asked.correlation_id:
                raise InvariantViolation(
                    f"{self.name} got the answer to {correlation_id} where {asked.correlation_id} is due"
                )
            _, response = decode_response(asked.api_key, asked.version, frame)
            asked.timer.cancelled = True
            if self.history.answered is not None:
                self.history.answered(self.name, asked.api_key, response)
            asked.answered(response)

    # --- metadata ----------------------------------------------------------------------------------------------------

    def learn_topics(self, topics: list[str], then: Callable[[], None]) -> None:
        """Ask until every topic is known with its id; `then` is not called when the connection ends first."""
        self._is_learning = True
        request = MetadataRequest([MetadataRequestTopic(bytes(16), topic) for topic in topics], False)

        def answered(response: MetadataResponse | None) -> None:
            if response is None:
                self._is_learning = False
                return
            for topic in response.topics:
                if topic.error_code == 0 and topic.name:
                    if self.topic_ids.get(topic.name, topic.topic_id) != topic.topic_id:
                        self.topic_is_another(topic.name)
                    self.topic_ids[topic.name] = topic.topic_id
                    self.topic_names[topic.topic_id] = topic.name
                    for partition in topic.partitions:
                        self.leader_epochs[topic.name, partition.partition_index] = partition.leader_epoch
            if all(topic in self.topic_ids for topic in topics):
                self._is_learning = False
                then()
            else:
                self.meanwhile(100 * MS, "asks for metadata again", again)

        def again() -> None:
            self.ask(ApiKey.METADATA, request, METADATA_VERSION, MetadataResponse, answered)

        again()

    def learn_again(self, topics: list[str]) -> None:
        """A service has answered that a topic is not what we take it for; once at a time."""
        if self.is_connected and not self._is_learning:
            self.learn_topics(topics, lambda: None)

    def topic_is_another(self, topic: str) -> None:
        """The name stands for another topic than before."""
