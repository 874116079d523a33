"""Offset queries by time: what they cost is bounded by credit, and the core never opens a batch itself."""

from __future__ import annotations

from barnabas.channel.messages import ExchangeRequest, OffsetQuery, StateQuery
from barnabas.cluster.messages import LeaderAndIsr
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.data.queries import SEARCHES_MAX
from barnabas_logstore.core.storage.effects import FindRecordEffect
from tests.unit.logstore.service.support import EXCHANGE, TOPIC_ID, WALL_MS, Host, batch, exchange, led_by_other, topic


def host_that_leads(**config: object) -> Host:
    host = Host(**config)  # type: ignore[arg-type]
    host.lead(topic())
    host.greet(EXCHANGE)
    host.append(batch(100))
    return host


def ask_offsets(host: Host, count: int) -> None:
    queries = [OffsetQuery(1000 + number, TOPIC_ID, 0, -1, 0, WALL_MS + number) for number in range(count)]
    host.core.on_exchange(EXCHANGE, ExchangeRequest(offset_queries=queries))


def searches(host: Host) -> list[FindRecordEffect]:
    return [effect for effect in host.held if isinstance(effect, FindRecordEffect)]


def test_a_query_gives_its_credit_back_with_its_answer() -> None:
    """It came back while the lookup was under way: nothing bounded how many a gateway had running."""
    host = host_that_leads(queued_requests_max=8)
    host.holds_effects = True
    ask_offsets(host, 7)
    host.core.on_exchange(EXCHANGE, ExchangeRequest(state_queries=[StateQuery(1, TOPIC_ID, 0)]))
    credit = exchange(host.turn()).credit
    assert credit is not None
    assert credit.requests == 1
    host.holds_effects = False
    granted = [response.credit for out in host.settle() for _, response in out.exchanges if response.credit]
    assert sum(credit.requests for credit in granted) == 7


def test_batches_are_opened_by_workers_and_few_at_a_time() -> None:
    """A batch may open to 64 MiB, which stopped every partition of the logstore for as long as it took."""
    host = host_that_leads()
    host.holds_effects = True
    ask_offsets(host, 10)
    host.turn()
    answers = []
    while host.held:
        assert len(searches(host)) <= SEARCHES_MAX
        host.run_effect(host.held[0])
        answers += [answer for _, response in host.turn().exchanges for answer in response.offset_answers]
    assert {answer.request_id - 1000: answer.offset for answer in answers} == {number: number for number in range(10)}


def test_cancelled_searches_leave_room_for_others() -> None:
    host = host_that_leads()
    host.holds_effects = True
    ask_offsets(host, 10)
    host.turn()
    while not searches(host):
        host.run_effect(host.held[0])
        host.turn()
    host.core.on_control(7, host.command(LeaderAndIsr(False, [led_by_other(1)])))
    answers = exchange(host.turn()).offset_answers
    assert [answer.error_code for answer in answers] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 10
    host.holds_effects = False
    assert [out.exchanges for out in host.settle()] == [[]]
    assert host.core.is_idle
    host.lead(topic(2, 0))
    assert host.query_offset(WALL_MS + 42).offset == 42
