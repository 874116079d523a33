"""A real etcd, on free ports, with its data in a directory of the test."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

ETCD = shutil.which("etcd")
needs_etcd = pytest.mark.skipif(ETCD is None, reason="etcd is not on PATH")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class EtcdProcess:
    """One member; `stop` and `start` again keep the data and the address."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.endpoint = f"127.0.0.1:{free_port()}"
        self._peer_url = f"http://127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert ETCD is not None
        url = f"http://{self.endpoint}"
        with open(self._directory / "etcd.log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    ETCD,
                    f"--data-dir={self._directory / 'etcd'}",
                    f"--listen-client-urls={url}",
                    f"--advertise-client-urls={url}",
                    f"--listen-peer-urls={self._peer_url}",
                    f"--initial-advertise-peer-urls={self._peer_url}",
                    f"--initial-cluster=default={self._peer_url}",
                    "--log-level=warn",
                ],
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """As kill -9, or nothing when it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
