"""What holds for every test: the quick profile of Hypothesis, unless `--hypothesis-profile` names another one, and a
garbage collector that leaves modules and collected tests alone, with which each of its passes would take a second.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest
from hypothesis import settings

from barnabas.cores import COMPILED, running
from tests.compiled import skip_what_replaces_compiled_code
from tests.tiers import QUICK

settings.load_profile(QUICK)

if running() == COMPILED:
    skip_what_replaces_compiled_code()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is there afterwards stays until the process ends."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
