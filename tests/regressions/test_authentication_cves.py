"""Classes of CVEs about authentication and TLS, as they were in Apache Kafka and in others.

- CVE-2017-12610: Kafka let a client that had proven to be one user act for another one.
- CVE-2021-38153: Kafka compared secrets by a comparison that takes longer the more of a guess is right.
- CVE-2024-56128: Kafka's SCRAM did not compare the nonce, then its end; 4.3 compares the whole.
- CVE-2026-10143: kafka-python ran PBKDF2 on its event loop, as often as a peer asked for.
- CVE-2026-57967, CVE-2026-67593: Artemis let a session be taken over, and served commands before authentication.
- CVE-2026-35554: a buffer that was used again while it was sent took records to another topic.
- CVE-2025-27817, CVE-2025-27818: configuration that a client may change named URLs and classes.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import os
import socket
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.sasl import ScramClient
from barnabas.cluster.broker_config_keys import BROKER_KEYS
from barnabas.cluster.broker_key import UpdateMode
from barnabas.cluster.scram import ScramMechanism
from barnabas.runtime.lane import Descriptor
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import encode_request
from barnabas.wire.file_range import FileRange
from barnabas.wire.messages import MESSAGES
from barnabas_cli.local.certificates import create_authority, issue
from barnabas_gateway.core.handlers import HANDLERS
from barnabas_gateway.shell.tls.tls_config import create_context, tls_config
from barnabas_gateway.shell.tls.tls_socket import HandshakeQueue, TlsSocket
from tests.unit.gateway.authentication.test_sasl_connections import (
    authenticate,
    handshake,
    is_served,
    log_in,
    principal,
    world,
)
from tests.unit.gateway.world import Client

_BEFORE_AUTHENTICATION = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE)


def scram_exchange(client: Client, user: str, password: str, change: Callable[[bytes], bytes]) -> Any:
    """Return the answer to the proof, which `change` has changed."""
    by = ScramClient(ScramMechanism.SHA_256, user, password, "nonce")
    assert handshake(client, "SCRAM-SHA-256").error_code == 0
    asked = authenticate(client, by.first_token())
    proof = by.next_token(asked.auth_bytes)
    assert proof is not None
    return authenticate(client, change(proof))


@pytest.mark.parametrize("token", [b"bob\0alice\0secret", b"carol\0alice\0secret", b"admin\0alice\0secret"])
def test_cve_2017_12610_who_is_one_user_acts_for_no_other_by_plain(token: bytes) -> None:
    at = world()
    client = at.client()
    handshake(client)
    authenticate(client, token)
    at.pass_ms(1_000)
    assert client.is_closed
    assert client.answers[-1].error_code != 0


@pytest.mark.parametrize("header", [b"n,a=alice,", b"y,a=bob,"])
def test_cve_2017_12610_who_is_one_user_acts_for_no_other_by_scram(header: bytes) -> None:
    at = world()
    client = at.client()
    handshake(client, "SCRAM-SHA-256")
    authenticate(client, header + b"n=carol,r=nonce")
    at.pass_ms(1_000)
    assert client.is_closed
    assert client.answers[-1].error_code != 0


def test_cve_2021_38153_secrets_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []
    compare = hmac.compare_digest

    def noted(left: Any, right: Any) -> bool:
        compared.extend((bytes(left), bytes(right)))
        return compare(left, right)

    monkeypatch.setattr(hmac, "compare_digest", noted)
    at = world()
    log_in(at.client())
    assert compared == [b"secret", b"secret"]
    compared.clear()
    assert scram_exchange(at.client(), "carol", "pencil", lambda proof: proof).error_code == 0
    stored_key = at.processor.image.scram_credentials["carol", 1].stored_key
    assert stored_key in compared


@pytest.mark.parametrize(
    "change",
    [
        lambda proof: proof.replace(b"r=nonce", b"r=other,nonce".replace(b",", b"")),
        lambda proof: proof.replace(b"r=nonce", b"r="),
        lambda proof: proof.replace(b"r=nonce", b"r=x"),
        lambda proof: proof.replace(b",p=", b"x,p="),
    ],
    ids=["in front", "the server's part alone", "another of the client's", "behind"],
)
def test_cve_2024_56128_a_nonce_is_the_servers_exactly(change: Callable[[bytes], bytes]) -> None:
    at = world()
    client = at.client()
    scram_exchange(client, "carol", "pencil", change)
    at.pass_ms(1_000)
    assert client.is_closed
    assert client.answers[-1].error_code != 0


def test_cve_2026_10143_a_server_runs_no_pbkdf2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known user or not: what a client is asked for is stored, or made by one HMAC."""
    at = world()
    by = ScramClient(ScramMechanism.SHA_256, "carol", "pencil", "nonce")
    first = at.client()
    handshake(first, "SCRAM-SHA-256")
    proof = by.next_token(authenticate(first, by.first_token()).auth_bytes)

    def refuse(*_: Any) -> bytes:
        raise AssertionError("PBKDF2 on a processor's loop")

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", refuse)
    assert proof is not None
    assert authenticate(first, proof).error_code == 0
    unknown = at.client()
    handshake(unknown, "SCRAM-SHA-256")
    assert b"i=4096" in authenticate(unknown, b"n,,n=mallory,r=nonce").auth_bytes


@pytest.mark.parametrize("key", [ApiKey(key) for key in sorted(set(HANDLERS) - set(_BEFORE_AUTHENTICATION))])
def test_cve_2026_67593_no_other_request_is_served_before_authentication(key: ApiKey) -> None:
    at = world()
    for is_exchange_under_way in (False, True):
        client = at.client()
        if is_exchange_under_way:
            handshake(client, "SCRAM-SHA-256")
            if key == ApiKey.SASL_AUTHENTICATE:
                continue
        answered = len(client.answers)
        request = MESSAGES[key][0]()
        client.send(b"".join(encode_request(request, HANDLERS[key].version_max, 9, "client")))
        assert client.is_closed
        assert len(client.answers) == answered
    assert not at.calls
    assert not [*at.logstore.appends, *at.logstore.reads, *at.logstore.calls, *at.logstore.group_calls]


def test_cve_2026_57967_a_connection_stays_its_users() -> None:
    """An exchange that ends as another user, or in the middle, takes nothing over: the connection closes."""
    at = world()
    client = at.client()
    log_in(client)
    assert principal(at, client) == "User:alice"
    at.pass_ms(2_000)
    log_in(client, "bob")
    at.pass_ms(1_000)
    assert client.is_closed
    other = at.client()
    assert not is_served(other), "what one connection has proven is not another's"


def test_cve_2026_35554_a_buffer_is_not_used_again_before_it_is_sent(tmp_path: Path) -> None:
    """Ranges of files pass through one buffer of the process, whichever connection they are for."""
    now = datetime.fromtimestamp(time.time(), UTC)
    authority = create_authority("test", now)
    (tmp_path / "server.pem").write_bytes(issue(authority, "server", ("127.0.0.1",), now))
    context = create_context(tls_config({"ssl.keystore.location": str(tmp_path / "server.pem")}))
    contents = [os.urandom(600_000), os.urandom(600_000)]
    for number, content in enumerate(contents):
        (tmp_path / str(number)).write_bytes(content)

    async def read_both() -> list[bytes]:
        queue, of_client = HandshakeQueue(), ssl.create_default_context(cadata=authority.pem.decode())
        connections = []
        with socket.create_server(("127.0.0.1", 0)) as server:
            for _ in contents:
                theirs = socket.create_connection(server.getsockname())
                ours, _ = server.accept()
                # A small buffer: most of what is sealed waits while the other connection has its turn.
                ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
                owner = _Owner()
                tls = TlsSocket(1, ours, context, owner, queue, 5_000)
                reader, writer = await asyncio.open_connection(sock=theirs, ssl=of_client, server_hostname="127.0.0.1")
                await owner.done.wait()
                connections.append((tls, reader, writer))
        for number, (tls, _, _) in enumerate(connections):
            log = Descriptor(os.open(tmp_path / str(number), os.O_RDONLY))
            tls.write([FileRange(log, 0, len(contents[number]))])
        read = [await reader.readexactly(len(contents[0])) for _, reader, _ in connections]
        for tls, _, writer in connections:
            tls.abort()
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        return read

    assert asyncio.run(asyncio.wait_for(read_both(), 30)) == contents


class _Owner:
    def __init__(self) -> None:
        self.done = asyncio.Event()

    def handshake_done(self, connection_id: int, tls: ssl.SSLObject) -> None:
        self.done.set()

    def handshake_failed(self, connection_id: int, reason: str) -> None:
        raise AssertionError(reason)

    def bytes_received(self, connection_id: int, data: bytes) -> None:
        raise AssertionError("nothing is sent to it")

    def unsent_changed(self, connection_id: int, unsent_bytes: int) -> None:
        pass

    def range_cut(self, connection_id: int) -> None:
        raise AssertionError("the whole range is in its file")

    def socket_lost(self, connection_id: int) -> None:
        pass


@pytest.mark.parametrize("word", ["class", "url", "location", "jaas", "file", "path", "callback"])
def test_cve_2025_27817_no_key_that_changes_while_services_run_names_code_or_a_place(word: str) -> None:
    changeable = [key.name for key in BROKER_KEYS.values() if key.update_mode is not UpdateMode.READ_ONLY]
    assert changeable
    assert not [name for name in changeable if word in name.split(".")]
