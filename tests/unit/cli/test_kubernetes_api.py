"""The client of the Kubernetes API, with a server on this machine in its place."""

from __future__ import annotations

import json
import ssl
import threading
import time
from base64 import b64decode
from collections.abc import Generator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from barnabas_cli.kubernetes.api import KubernetesApi, KubernetesError, api_of_this_pod
from barnabas_cli.local.certificates import create_authority, issue

TOKEN = "a-token"


class FakeApi(BaseHTTPRequestHandler):
    """Keeps objects by path, with versions, and refuses others than the token's owner."""

    objects: dict[str, dict[str, Any]]

    def do_GET(self) -> None:
        found = self.objects.get(self.path)
        self.answer(404, {"message": "not found"}) if found is None else self.answer(200, found)

    def do_POST(self) -> None:
        body = self.body()
        self.keep(f"{self.path}/{body['metadata']['name']}", body, 201)

    def do_PUT(self) -> None:
        body = self.body()
        if body["metadata"]["resourceVersion"] != self.objects[self.path]["metadata"]["resourceVersion"]:
            self.answer(409, {"message": "the object has been modified"})
            return
        self.keep(self.path, body, 200)

    def keep(self, path: str, body: dict[str, Any], status: int) -> None:
        body["metadata"]["resourceVersion"] = str(len(self.objects) + int(body["metadata"].get("resourceVersion", 0)))
        self.objects[path] = body
        self.answer(status, body)

    def body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, status: int, content: dict[str, Any]) -> None:
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            status, content = 401, {"message": "Unauthorized"}
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def account(tmp_path: Path) -> Path:
    authority = create_authority("test", datetime.fromtimestamp(time.time(), UTC))
    (tmp_path / "server.pem").write_bytes(
        issue(authority, "api", ("127.0.0.1",), datetime.fromtimestamp(time.time(), UTC))
    )
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    (tmp_path / "namespace").write_text("prod")
    (tmp_path / "token").write_text(TOKEN)
    return tmp_path


@pytest.fixture
def server(account: Path) -> Generator[ThreadingHTTPServer]:
    handler = type("Api", (FakeApi,), {"objects": {}})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(account / "server.pem")
        running.socket = context.wrap_socket(running.socket, server_side=True)
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def api_of(server: ThreadingHTTPServer, account: Path) -> KubernetesApi:
    return KubernetesApi(("127.0.0.1", server.server_address[1]), account)


def test_an_object_is_created_read_and_replaced(server: ThreadingHTTPServer, account: Path) -> None:
    api = api_of(server, account)
    for kind in ("secrets", "configmaps"):
        assert api.read(kind, "mine") is None
        api.write(kind, "mine", {"key": b"first"}, {"app": "x"}, None)
        present = api.read(kind, "mine")
        assert present is not None
        assert (present.data, present.is_ours) == ({"key": b"first"}, True)
        api.write(kind, "mine", {"key": b"second"}, {"app": "x"}, present)
        replaced = api.read(kind, "mine")
        assert replaced is not None
        assert replaced.data == {"key": b"second"}
        with pytest.raises(KubernetesError, match=f"write {kind} mine: 409 the object has been modified"):
            api.write(kind, "mine", {}, {}, present)
    objects: dict[str, Any] = server.RequestHandlerClass.objects  # type: ignore[attr-defined]
    assert b64decode(objects["/api/v1/namespaces/prod/secrets/mine"]["data"]["key"]) == b"second"


def test_an_object_of_others_is_not_replaced(server: ThreadingHTTPServer, account: Path) -> None:
    objects: dict[str, Any] = server.RequestHandlerClass.objects  # type: ignore[attr-defined]
    objects["/api/v1/namespaces/prod/secrets/theirs"] = {"metadata": {"resourceVersion": "1"}, "data": None}
    api = api_of(server, account)
    present = api.read("secrets", "theirs")
    assert present is not None
    with pytest.raises(KubernetesError, match="was not created by Barnabas"):
        api.write("secrets", "theirs", {}, {}, present)


def test_a_token_that_is_refused_is_one_line(server: ThreadingHTTPServer, account: Path) -> None:
    (account / "token").write_text("another")
    with pytest.raises(KubernetesError, match="get secrets mine: 401 Unauthorized"):
        api_of(server, account).read("secrets", "mine")


def test_a_server_of_another_authority_is_not_talked_to(server: ThreadingHTTPServer, account: Path) -> None:
    (account / "ca.crt").write_bytes(create_authority("other", datetime.fromtimestamp(time.time(), UTC)).pem)
    with pytest.raises(KubernetesError, match="CERTIFICATE_VERIFY_FAILED"):
        api_of(server, account).read("secrets", "mine")


def test_outside_of_a_pod_there_is_no_api(tmp_path: Path) -> None:
    with pytest.raises(KubernetesError, match="this command is for a pod of Kubernetes"):
        api_of_this_pod({})
    with pytest.raises(KubernetesError, match="no service account of Kubernetes"):
        KubernetesApi(("127.0.0.1", 1), tmp_path)
