"""Starting toxiproxy: the suite begins when its proxies listen, and not at all if one can't."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from barnabas_cli.local import ports
from tests.acceptance.clusters import EndedError
from tests.acceptance.suites.toxiproxy import Proxy, enabled, toxiproxy

PROXIES = [Proxy("kafka1", 29091, 20001), Proxy("kafka2", 29092, 20002)]
SERVER = """#!{python}
import http.server, json, sys
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
listening = json.load(open(options["-config"]))[:{count}]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        assert self.path == "/proxies"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({{each["name"]: each for each in listening}}).encode())
http.server.HTTPServer((options["-host"], int(options["-port"])), Handler).serve_forever()
"""


def server(directory: Path, source: str) -> Path:
    path = directory / "server"
    path.write_text(source)
    path.chmod(0o755)
    return path


def serving(directory: Path, count: int) -> Path:
    return server(directory, SERVER.format(python=sys.executable, count=count))


def test_it_serves_while_the_suite_runs_and_has_ended_after(tmp_path: Path) -> None:
    with toxiproxy(serving(tmp_path, 2), PROXIES, tmp_path) as url:
        port = int(url.rpartition(":")[2])
        assert ports.accepts(port)
    assert not ports.accepts(port)
    assert json.loads((tmp_path / "toxiproxy.json").read_text())[0] == {
        "name": "kafka1",
        "listen": "127.0.0.1:29091",
        "upstream": "127.0.0.1:20001",
        "enabled": True,
    }


def test_a_proxy_that_can_not_listen_is_named(tmp_path: Path) -> None:
    with pytest.raises(EndedError, match="no kafka2"), toxiproxy(serving(tmp_path, 1), PROXIES, tmp_path):
        raise AssertionError("the suite began")


def test_a_toxiproxy_that_ends_is_not_waited_for(tmp_path: Path) -> None:
    binary = server(tmp_path, "#!/bin/sh\nexit 1\n")
    with pytest.raises(EndedError, match="does not answer"), toxiproxy(binary, PROXIES, tmp_path):
        raise AssertionError("the suite began")


def test_a_disabled_proxy_does_not_listen() -> None:
    assert enabled({"kafka1": {"enabled": True}, "kafka2": {"enabled": False}, "kafka3": {}}) == {"kafka1"}
