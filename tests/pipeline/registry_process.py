"""A schema registry that is not ours (`make registry`), as a process of the tests; and a door that asks for a user."""

from __future__ import annotations

import base64
import contextlib
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.integration.running_cluster import ROOT

SECONDS_MAX = 120.0
_HOME = ROOT / ".cache" / "registry"


class RegistryProcess:
    """Apicurio Registry, at Confluent's interface (`url`). Its schemas are in a file: they outlive its process."""

    def __init__(self, directory: Path) -> None:
        if not list(_HOME.glob(".complete-*")):
            pytest.skip("no real schema registry here: `make registry` gets it")
        java = shutil.which("java")
        if java is None:
            pytest.skip("no java on PATH, which the schema registry needs")
        self._java, self._directory = java, directory
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}/apis/ccompat/v7"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> RegistryProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        with (self._directory / "registry.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(self._java, "-Xmx512m", "-XX:TieredStopAtLevel=1", f"-Duser.home={self._directory}"),
                    *("-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self._port}"),
                    f"-Dquarkus.datasource.jdbc.url=jdbc:h2:file:{self._directory}/schemas",
                    *("-jar", str(_HOME / "registry.jar")),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + SECONDS_MAX
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise AssertionError(f"the registry did not start: {(self._directory / 'registry.log').read_text()}")
            time.sleep(0.2)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()  # it writes the latest changes
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=5):
                return True
        except OSError:
            return False


@contextlib.contextmanager
def guarded(url: str, user: str) -> Iterator[str]:
    """A door before a registry that lets in who says `user` (NAME:SECRET): what hosted registries are like."""
    wanted = "Basic " + base64.b64encode(user.encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Authorization") != wanted:
                self.send_error(401)
                return
            with urllib.request.urlopen(url + self.path) as answer:
                body = answer.read()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
