"""`pytest tests/transcripts --rewrite` records the output of this run in the transcripts."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="record what transcripts lead to now")
