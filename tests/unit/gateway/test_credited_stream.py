"""CreditedStream: credit is spent in order, and what has none waits its turn."""

from __future__ import annotations

from barnabas.channel.credits import STREAM_BYTES_MIN, STREAM_REQUESTS_MIN, CreditAccount
from barnabas.channel.messages import Credit
from barnabas_gateway.core.backends.credited_stream import CreditedStream, no_bytes


def stream(requests: int, credit: CreditAccount | None = None) -> CreditedStream[str, str]:
    made: CreditedStream[str, str] = CreditedStream(credit)
    made.credit.grant(Credit(requests, 2 * STREAM_BYTES_MIN))
    return made


def test_credit_is_spent_and_then_requests_stand_in_line() -> None:
    line = stream(2)
    assert [line.try_enter(each, 0) for each in "abc"] == [True, True, False]
    assert list(line.waiting) == ["c"]


def test_nothing_overtakes_what_stands_in_line() -> None:
    line = stream(0)
    assert not line.try_enter("a", 0)
    line.credit.grant(Credit(5, 0))
    assert not line.try_enter("b", 0)
    assert list(line.admit(no_bytes)) == ["a", "b"]
    assert not line.waiting
    assert line.try_enter("c", 0)


def test_a_grant_admits_as_many_as_it_pays_for_in_order() -> None:
    line = stream(0)
    for each in "abcd":
        line.try_enter(each, 0)
    line.credit.grant(Credit(2, 0))
    assert list(line.admit(no_bytes)) == ["a", "b"]
    assert list(line.waiting) == ["c", "d"]


def test_bytes_are_paid_for_too() -> None:
    line = stream(STREAM_REQUESTS_MIN)
    assert line.try_enter("a", STREAM_BYTES_MIN + 1)
    assert not line.try_enter("b", STREAM_BYTES_MIN)
    assert list(line.admit(lambda _: STREAM_BYTES_MIN)) == []
    assert list(line.admit(lambda _: STREAM_BYTES_MIN - 1)) == ["b"]


def test_two_kinds_of_requests_may_share_the_credit_of_a_stream() -> None:
    credit = CreditAccount()
    first, second = stream(1, credit), CreditedStream[str, str](credit)
    assert first.try_enter("a", 0)
    assert not second.try_enter("b", 0)


def test_what_leaves_the_line_is_not_admitted() -> None:
    line = stream(0)
    for each in "abc":
        line.try_enter(each, 0)
    line.leave_line("b")
    line.leave_line("b")
    line.credit.grant(Credit(5, 0))
    assert list(line.admit(no_bytes)) == ["a", "c"]


def test_a_lost_stream_gives_up_what_is_in_flight_and_what_waits() -> None:
    line = stream(1)
    line.try_enter("a", 0)
    line.in_flight[7] = "a"
    line.try_enter("b", 0)
    assert line.lose() == (["a"], ["b"])
    assert line.lose() == ([], [])
