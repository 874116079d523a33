"""A test that does not end although its time is over: a plugin of pytest that ends the process of such a test.

`pytest-timeout` raises an exception in a test once. What that runs into on its way out may wait for ever (a thread that
is joined, a task that takes no cancellation), and the whole run with it, without a word of where. Here each phase of a
test has the test's timeout and `stuck_grace_s` on top; then the stacks of all threads are printed, and the process
exits. With xdist that costs one worker, which is replaced, and the test is named as the one that has ended it.
"""

from __future__ import annotations

import faulthandler
from collections.abc import Generator

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

GRACE = "stuck_grace_s"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(GRACE, "seconds beyond a test's timeout after which its process exits", default="60")


def _armed(item: pytest.Item) -> Generator[None, object, object]:
    """For one phase: pytest disarms the same timer when a phase has failed, and the next one is to be watched, too."""
    limit_s = _timeout_s(item) + float(item.config.getini(GRACE))
    # pytest's own copy: descriptor 2 is captured while a test runs.
    faulthandler.dump_traceback_later(limit_s, exit=True, file=item.config.stash[fault_handler_stderr_fd_key])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _timeout_s(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    if marker is None:
        return float(item.config.getini("timeout"))
    return float(marker.args[0] if marker.args else marker.kwargs["timeout"])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _armed(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _armed(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _armed(item))
