"""The load in a process of its own, and what it says of itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.integration.data_channel_load import Standing

_ROOT = Path(__file__).parents[2]


class LoadProcess:
    """Appends kept unanswered at one logstore: so many as `offer` says, none at first."""

    def __init__(
        self, data_address: str, topic_id: bytes, partitions: int, leader_epoch: int, value_bytes: int
    ) -> None:
        """The topic is led there under that epoch; each append is one record of `value_bytes`."""
        arguments = (data_address, topic_id.hex(), str(partitions), str(leader_epoch), f"--value-bytes={value_bytes}")
        argv = [sys.executable, "-m", "tests.integration.data_channel_load", *arguments]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT)

    def offer(self, appends: int) -> Standing:
        """From now on."""
        return self._say(str(appends))

    def standing(self) -> Standing:
        return self._say("")

    def stop(self) -> None:
        self._process.communicate()

    def _say(self, line: str) -> Standing:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return Standing(**json.loads(self._process.stdout.readline()))
