"""Credits: with any sequence of streams, what is outstanding stays bounded and no stream waits forever."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from barnabas.channel.credits import STREAM_BYTES_MIN, STREAM_REQUESTS_MIN, CreditAccount, CreditPool
from barnabas.channel.messages import Credit
from tests.tiers import Cost, examples

REQUESTS_TOTAL = 100
BYTES_TOTAL = 16 << 20


class Opener:
    """One stream, both ends: an account with requests to send, and two ordered ways to and from the pool."""

    def __init__(self, pool: CreditPool, stream_id: int) -> None:
        self.pool = pool
        self.stream_id = stream_id
        self.account = CreditAccount()
        self.waiting: deque[int] = deque()
        self.on_the_way: deque[int] = deque()
        self.at_logstore: deque[int] = deque()
        self.credits: deque[Credit] = deque([pool.open_stream(stream_id)])

    def send(self) -> bool:
        if not self.waiting or not self.account.try_spend(1, self.waiting[0]):
            return False
        self.on_the_way.append(self.waiting.popleft())
        return True

    def arrive(self) -> bool:
        if not self.on_the_way:
            return False
        size = self.on_the_way.popleft()
        assert self.pool.received(self.stream_id, 1, size), "an opener that keeps to its credit was refused"
        self.at_logstore.append(size)
        return True

    def handle(self, count: int) -> bool:
        handled = [self.at_logstore.popleft() for _ in range(min(count, len(self.at_logstore)))]
        if not handled:
            return False
        self.pool.handled(self.stream_id, len(handled), sum(handled))
        credit = self.pool.grants_due(self.stream_id)
        if credit is not None:
            assert credit.requests >= 0
            assert credit.bytes >= 0
            self.credits.append(credit)
        return True

    def take_credit(self) -> bool:
        if not self.credits:
            return False
        self.account.grant(self.credits.popleft())
        return True

    def requests_at_most(self) -> int:
        """What could be outstanding if it sent all that it may."""
        granted = sum(credit.requests for credit in self.credits)
        return self.account.requests + granted + len(self.on_the_way) + len(self.at_logstore)

    def bytes_at_most(self) -> int:
        granted = sum(credit.bytes for credit in self.credits)
        return self.account.bytes + granted + sum(self.on_the_way) + sum(self.at_logstore)

    def drain(self) -> None:
        while self.send() or self.arrive() or self.handle(3) or self.take_credit():
            pass


sizes = st.sampled_from([0, 1, 100, 1 << 14, STREAM_BYTES_MIN, STREAM_BYTES_MIN + 1, 3 << 20, BYTES_TOTAL, 100 << 20])
steps = st.tuples(
    st.sampled_from(["open", "ask", "ask", "send", "send", "arrive", "handle", "handle", "credit", "close"]),
    st.integers(0, 7),
    sizes,
)


def run(pool: CreditPool, script: list[tuple[str, int, int]]) -> list[Opener]:
    streams: list[Opener] = []
    opened_at_most = 0
    for stream_id, (step, which, size) in enumerate(script):
        if step == "open" or not streams:
            streams.append(Opener(pool, stream_id))
            opened_at_most = max(opened_at_most, len(streams))
            continue
        stream = streams[which % len(streams)]
        match step:
            case "ask":
                stream.waiting.extend([size] * (which + 1))
            case "send":
                while stream.send():
                    pass
            case "arrive":
                while stream.arrive():
                    pass
            case "handle":
                stream.handle(which + 1)
            case "credit":
                stream.take_credit()
            case "close":
                streams.remove(stream)
                pool.close_stream(stream.stream_id)
                pool.handled(stream.stream_id, 1, 1)
                assert pool.grants_due(stream.stream_id) is None
        requests = sum(each.requests_at_most() for each in streams)
        assert requests <= REQUESTS_TOTAL + opened_at_most * STREAM_REQUESTS_MIN
        byte_count = sum(each.bytes_at_most() for each in streams)
        assert byte_count <= BYTES_TOTAL + opened_at_most * STREAM_BYTES_MIN
        for each in streams:
            # Only one request may be in debt, and only one that is larger than the minimum.
            assert each.account.requests >= 0
            assert each.account.bytes >= min(0, STREAM_BYTES_MIN - (100 << 20))
    return streams


@given(script=st.lists(steps, max_size=120))
def test_what_may_be_outstanding_is_bounded_and_everything_passes_and_comes_back(
    script: list[tuple[str, int, int]],
) -> None:
    pool = CreditPool(REQUESTS_TOTAL, BYTES_TOTAL)
    streams = run(pool, script)
    for stream in streams:
        stream.drain()
    for stream in streams:
        assert not stream.waiting, "a request waits for credit that never comes"
        assert stream.account.requests >= STREAM_REQUESTS_MIN
        assert stream.account.bytes >= STREAM_BYTES_MIN
    for stream in streams:
        pool.close_stream(stream.stream_id)
    first = CreditPool(REQUESTS_TOTAL, BYTES_TOTAL).open_stream(0)
    assert pool.open_stream(0) == first, "a pool without streams holds everything again"


@examples(Cost.HIGH)
@given(script=st.lists(steps, max_size=80), size=sizes)
def test_a_stream_passes_while_all_others_sit_on_their_credit(script: list[tuple[str, int, int]], size: int) -> None:
    pool = CreditPool(REQUESTS_TOTAL, BYTES_TOTAL)
    run(pool, script)
    newcomer = Opener(pool, len(script))
    newcomer.waiting.extend([size] * 30)
    newcomer.drain()
    assert not newcomer.waiting
