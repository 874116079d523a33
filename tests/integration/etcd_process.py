"""A real etcd, on free ports, with its data in a directory of the test."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from barnabas_cli.etcd_binary import find_etcd
from barnabas_cli.local import ports
from barnabas_cli.local.processes import last_lines
from tests.integration.reserved_ports import free_port

# `make integration` has got one before it starts.
ETCD = find_etcd()
_START_SECONDS_MAX = 60
_ELECTION_MS = 200
needs_etcd = pytest.mark.skipif(ETCD is None, reason="no etcd here (make etcd gets one)")


class EtcdProcess:
    """One member; `stop` and `start` again keep the data and the address."""

    def __init__(
        self,
        directory: Path,
        certificate: Path | None = None,
        key: Path | None = None,
        election_ms: int = _ELECTION_MS,
        authority: Path | None = None,
    ) -> None:
        """With a certificate (PEM) clients must speak TLS, and have one of `authority`, which is itself if not given.

        It serves one to two election timeouts after its start, and grants no lease shorter than one and a half.
        """
        self._directory = directory
        self._election_ms = election_ms
        self._tls = (certificate, key, authority or certificate) if certificate is not None else None
        self.endpoint = f"127.0.0.1:{free_port()}"
        self._peer_url = f"http://127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert ETCD is not None
        url = f"{'https' if self._tls else 'http'}://{self.endpoint}"
        with open(self._directory / "etcd.log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    ETCD.path,
                    f"--data-dir={self._directory / 'etcd'}",
                    f"--listen-client-urls={url}",
                    f"--advertise-client-urls={url}",
                    f"--listen-peer-urls={self._peer_url}",
                    f"--initial-advertise-peer-urls={self._peer_url}",
                    f"--initial-cluster=default={self._peer_url}",
                    f"--heartbeat-interval={self._election_ms // 10}",
                    f"--election-timeout={self._election_ms}",
                    "--log-level=warn",
                    *self._tls_options(),
                ],
                stdout=log,
                stderr=log,
            )
        self._await_listener(self._process)

    def _await_listener(self, process: subprocess.Popen[bytes]) -> None:
        """Return when it accepts connections. What its log says last is raised when it ends before."""
        deadline = time.monotonic() + _START_SECONDS_MAX
        while not ports.accepts(int(self.endpoint.rpartition(":")[2])):
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("\n".join(last_lines(self._directory / "etcd.log", 10)))
            time.sleep(0.05)

    def _tls_options(self) -> list[str]:
        if self._tls is None:
            return []
        certificate, key, authority = self._tls
        return [
            f"--cert-file={certificate}",
            f"--key-file={key}",
            f"--trusted-ca-file={authority}",
            "--client-cert-auth",
        ]

    def kill(self) -> None:
        """As kill -9, or nothing when it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
