"""The pinned packages of the programs that have environments of their own."""

from __future__ import annotations

from tests.acceptance.python import VERSIONS


def test_the_package_that_a_suite_is_named_for_is_pinned() -> None:
    assert VERSIONS["quixstreams"]
