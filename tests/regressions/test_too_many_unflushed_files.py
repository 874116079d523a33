"""More files with unflushed writes than the process may open: the log directory went offline.

Found by starting 10,000 partitions (`python -m bench.log_core`): nothing may be closed that is not flushed, and by
Kafka's defaults nothing is flushed.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas_logstore.shell.posix_disk import PosixDisk

FILES = 300


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 100, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("few_descriptors")
def test_some_are_flushed_and_closed(tmp_path: Path) -> None:
    disk = PosixDisk()
    for number in range(FILES):
        disk.write_at(disk.open(f"{tmp_path}/{number}", create=True), 0, (b"%d" % number,))
    for number in range(FILES):
        assert disk.read_file(f"{tmp_path}/{number}") == b"%d" % number
