from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from barnabas.wire.errors import ErrorCode


def test_kio_has_the_same_codes() -> None:
    assert {code.name.lower(): int(code) for code in ErrorCode} == {code.name: int(code) for code in KioErrorCode}


@pytest.mark.parametrize("theirs", KioErrorCode, ids=lambda code: code.name)
def test_clients_retry_the_same_codes(theirs: KioErrorCode) -> None:
    assert ErrorCode(int(theirs)).retriable == theirs.retriable


def test_every_error_but_none_has_a_message() -> None:
    assert [code for code in ErrorCode if not code.message] == [ErrorCode.NONE]
