"""Shopify's toxiproxy: proxies that a suite breaks on purpose, by an API of HTTP."""

from __future__ import annotations

import http.client
import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas_cli.local.layout import HOST
from tests.acceptance.clusters import EndedError
from tests.integration.reserved_ports import free_port

COMMAND: Final = "github.com/Shopify/toxiproxy/v2/cmd/server"
_START_SECONDS_MAX: Final = 60.0
_STOP_SECONDS_MAX: Final = 10.0
_ASK_SECONDS_MAX: Final = 5.0


@dataclass(slots=True, frozen=True)
class Proxy:
    name: str
    port: int
    upstream_port: int

    @property
    def config(self) -> dict[str, object]:
        """As toxiproxy reads it from its file."""
        listen, upstream = f"{HOST}:{self.port}", f"{HOST}:{self.upstream_port}"
        return {"name": self.name, "listen": listen, "upstream": upstream, "enabled": True}


@contextmanager
def toxiproxy(binary: Path, proxies: Sequence[Proxy], logs: Path) -> Iterator[str]:
    """Yield the URL of its API while the proxies listen. Raises EndedError where they do not."""
    config, port = logs / "toxiproxy.json", free_port()
    config.write_text(json.dumps([each.config for each in proxies]))
    argv = [str(binary), "-host", HOST, "-port", str(port), "-config", str(config)]
    with (logs / "toxiproxy.log").open("wb") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            _wait(process, port, {each.name for each in proxies}, logs)
            yield f"http://{HOST}:{port}"
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, names: set[str], logs: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS_MAX
    while (answer := _ask(port)) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            raise EndedError(f"toxiproxy does not answer: {logs / 'toxiproxy.log'}")
        time.sleep(0.1)
    # It answers once it has tried them all, one after the other, until one can't listen.
    if missing := sorted(names - enabled(answer)):
        raise EndedError(f"toxiproxy has no {', '.join(missing)}: are the ports in use? {logs / 'toxiproxy.log'}")


def enabled(answer: Mapping[str, Mapping[str, object]]) -> set[str]:
    """Return the names of the proxies that listen, from the answer to `GET /proxies`."""
    return {name for name, proxy in answer.items() if proxy.get("enabled") is True}


def _ask(port: int) -> dict[str, dict[str, object]] | None:
    connection = http.client.HTTPConnection(HOST, port, timeout=_ASK_SECONDS_MAX)
    try:
        connection.request("GET", "/proxies")
        answer: dict[str, dict[str, object]] = json.loads(connection.getresponse().read())
        return answer
    except OSError:
        return None
    finally:
        connection.close()
