"""How the logstore's credit is shared: dynamic thresholds with a minimum for each stream."""

from __future__ import annotations

from barnabas.channel.credits import STREAM_BYTES_MIN, STREAM_REQUESTS_MIN, CreditAccount, CreditPool
from barnabas.channel.messages import Credit

MEGABYTE = 1 << 20


def busy_turn(pool: CreditPool, stream_id: int, account: CreditAccount) -> None:
    """Spend everything, have it handled, take what comes back."""
    requests, byte_count = account.requests, account.bytes
    assert account.try_spend(requests, byte_count)
    assert pool.received(stream_id, requests, byte_count)
    pool.handled(stream_id, requests, byte_count)
    credit = pool.grants_due(stream_id)
    if credit is not None:
        account.grant(credit)


def opened(pool: CreditPool, stream_id: int) -> CreditAccount:
    account = CreditAccount()
    account.grant(pool.open_stream(stream_id))
    return account


def test_an_account_pays_for_what_fits_and_refuses_the_rest_whole() -> None:
    account = CreditAccount()
    assert not account.try_spend(1, 0)
    account.grant(Credit(2, 1000))
    assert not account.try_spend(1, 1001)
    assert not account.try_spend(3, 10)
    assert account.try_spend(1, 1000)
    assert not account.try_spend(1, 1)
    assert account.try_spend(1, 0)
    assert (account.requests, account.bytes) == (0, 0)


def test_an_account_with_the_minimum_pays_for_any_one_request_and_then_works_off_its_debt() -> None:
    account = CreditAccount()
    account.grant(Credit(STREAM_REQUESTS_MIN, STREAM_BYTES_MIN))
    assert account.try_spend(1, 100 * MEGABYTE)
    assert not account.try_spend(1, 1)
    account.grant(Credit(1, 100 * MEGABYTE - STREAM_BYTES_MIN))
    assert account.bytes == 0
    assert not account.try_spend(1, 1)
    account.grant(Credit(0, STREAM_BYTES_MIN))
    assert account.try_spend(1, 1)


def test_a_reset_account_starts_from_nothing() -> None:
    account = CreditAccount()
    account.grant(Credit(10, 2 * STREAM_BYTES_MIN))
    account.reset()
    assert not account.try_spend(1, 0)


def test_a_lone_busy_stream_grows_to_half_of_everything() -> None:
    pool = CreditPool(500, 256 * MEGABYTE)
    account = opened(pool, 1)
    assert account.requests < 50
    for _ in range(3):
        busy_turn(pool, 1, account)
    assert account.requests == 250
    assert account.bytes == 128 * MEGABYTE


def test_busy_streams_share_alike_and_leave_a_part_for_the_next() -> None:
    pool = CreditPool(500, 256 * MEGABYTE)
    accounts = [opened(pool, stream_id) for stream_id in range(4)]
    for _ in range(40):
        for stream_id, account in enumerate(accounts):
            busy_turn(pool, stream_id, account)
    for account in accounts:
        assert abs(account.requests - 100) <= 2
        assert abs(account.bytes - 256 * MEGABYTE / 5) < MEGABYTE


def test_a_newcomer_gets_its_share_while_the_others_work() -> None:
    pool = CreditPool(500, 256 * MEGABYTE)
    first = opened(pool, 1)
    for _ in range(5):
        busy_turn(pool, 1, first)
    second = opened(pool, 2)
    for _ in range(20):
        busy_turn(pool, 1, first)
        busy_turn(pool, 2, second)
    assert abs(first.requests - second.requests) <= 2


def test_a_share_that_was_freed_is_used_again() -> None:
    pool = CreditPool(500, 256 * MEGABYTE)
    first, second = opened(pool, 1), opened(pool, 2)
    for _ in range(20):
        busy_turn(pool, 1, first)
        busy_turn(pool, 2, second)
    pool.close_stream(2)
    for _ in range(5):
        busy_turn(pool, 1, first)
    assert first.requests == 250


def test_a_stream_that_uses_little_does_not_grow() -> None:
    pool = CreditPool(500, 256 * MEGABYTE)
    account = opened(pool, 1)
    held = account.requests
    for _ in range(10):
        assert account.try_spend(1, 100)
        assert pool.received(1, 1, 100)
        pool.handled(1, 1, 100)
        credit = pool.grants_due(1)
        assert credit == Credit(1, 100)
        account.grant(credit)
    assert account.requests == held


def test_nothing_is_due_when_nothing_was_handled() -> None:
    pool = CreditPool(500, 256 * MEGABYTE)
    account = opened(pool, 1)
    assert pool.grants_due(1) is None
    assert account.try_spend(5, 100)
    assert pool.received(1, 5, 100)
    assert pool.grants_due(1) is None


def test_an_opener_that_sends_without_credit_is_found_out() -> None:
    pool = CreditPool(500, 256 * MEGABYTE)
    credit = pool.open_stream(1)
    assert pool.received(1, credit.requests, 0)
    assert not pool.received(1, 1, 0)
    other = pool.open_stream(2)
    assert pool.received(2, 1, other.bytes)
    assert pool.received(2, 1, 0)
    assert not pool.received(2, 1, 1)


def test_many_streams_still_get_their_minimum() -> None:
    pool = CreditPool(100, 4 * MEGABYTE)
    for stream_id in range(50):
        credit = pool.open_stream(stream_id)
        assert credit.requests >= STREAM_REQUESTS_MIN
        assert credit.bytes >= STREAM_BYTES_MIN


def test_many_busy_streams_keep_their_minimum() -> None:
    pool = CreditPool(100, 4 * MEGABYTE)
    accounts = [opened(pool, stream_id) for stream_id in range(50)]
    for _ in range(5):
        for stream_id, account in enumerate(accounts):
            busy_turn(pool, stream_id, account)
    assert [account.requests for account in accounts] == [STREAM_REQUESTS_MIN] * 50
    assert [account.bytes for account in accounts] == [STREAM_BYTES_MIN] * 50


def test_a_stream_that_holds_too_much_gives_up_what_it_uses_and_owes_nothing() -> None:
    pool = CreditPool(500, 256 * MEGABYTE)
    account = opened(pool, 1)
    for _ in range(5):
        busy_turn(pool, 1, account)
    for stream_id in range(2, 40):
        pool.open_stream(stream_id)
    for left in range(249, 239, -1):
        assert account.try_spend(1, 0)
        assert pool.received(1, 1, 0)
        pool.handled(1, 1, 0)
        assert pool.grants_due(1) is None
        assert account.requests == left
