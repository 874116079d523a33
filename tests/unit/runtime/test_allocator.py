from __future__ import annotations

import platform

import pytest

from barnabas.runtime.allocator import keep_large_buffers


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_glibc_takes_every_setting() -> None:
    assert keep_large_buffers()
