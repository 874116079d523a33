"""TLS on accepted sockets, against OpenSSL as the client; key stores; and clients that do not finish a handshake."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from barnabas.runtime.lane import Descriptor
from barnabas.wire.file_range import FileRange
from barnabas_cli.local.certificates import Authority, create_authority, issue, read_authority, write_authority
from barnabas_gateway.shell.tls import tls_socket
from barnabas_gateway.shell.tls.key_stores import Store, StoreError, read_store
from barnabas_gateway.shell.tls.tls_config import ReloadedContext, TlsConfig, create_context, tls_config
from barnabas_gateway.shell.tls.tls_socket import HandshakeQueue, TlsSocket

NOW = datetime.fromtimestamp(time.time(), UTC)
LEFT_OPEN: list[Callable[[], None]] = []
"""What closes the sockets of the test that runs."""
END_OF_KEY = b"-----END PRIVATE KEY-----\n"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return create_authority("test", NOW)


@pytest.fixture
def files(authority: Authority, tmp_path: Path) -> Path:
    write_authority(tmp_path, authority)
    (tmp_path / "server.pem").write_bytes(issue(authority, "server", ("127.0.0.1", "localhost"), NOW))
    (tmp_path / "client.pem").write_bytes(issue(authority, "alice", (), NOW))
    return tmp_path


def config(files: Path, **values: str) -> TlsConfig:
    given = {key.replace("_", "."): text for key, text in values.items()}
    return tls_config({"ssl.keystore.location": str(files / "server.pem"), **given})


class Owner:
    """What a processor does with its sockets, and what has happened."""

    def __init__(self) -> None:
        self.socket: Any = None
        self.received = bytearray()
        self.failures: list[str] = []
        self.lost = 0
        self.unsent: list[int] = []
        self.done = asyncio.Event()
        self.certificate: Any = None
        self.ended = asyncio.Event()

    def handshake_done(self, connection_id: int, tls: ssl.SSLObject) -> None:
        self.certificate = tls.getpeercert()
        self.done.set()

    def handshake_failed(self, connection_id: int, reason: str) -> None:
        self.failures.append(reason)
        self.ended.set()

    def bytes_received(self, connection_id: int, data: bytes) -> None:
        self.received += data

    def unsent_changed(self, connection_id: int, unsent_bytes: int) -> None:
        self.unsent.append(unsent_bytes)

    def socket_lost(self, connection_id: int) -> None:
        self.lost += 1
        self.ended.set()


async def accepted(tls: TlsConfig, handshake_ms_max: int = 5_000) -> tuple[Owner, socket.socket]:
    """A socket of a processor, and the client's end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    client.setblocking(False)
    owner = Owner()
    owner.socket = TlsSocket(1, theirs, create_context(tls), owner, HandshakeQueue(), handshake_ms_max)
    LEFT_OPEN.extend((owner.socket.abort, client.close))
    return owner, client


def client_context(files: Path, certificate: str = "") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(files / "ca.crt"))
    if certificate:
        context.load_cert_chain(files / certificate)
    return context


async def connected(files: Path, tls: TlsConfig) -> tuple[Owner, asyncio.StreamReader, asyncio.StreamWriter]:
    owner, client = await accepted(tls)
    reader, writer = await asyncio.open_connection(sock=client, ssl=client_context(files), server_hostname="127.0.0.1")
    await asyncio.wait_for(owner.done.wait(), 5)
    return owner, reader, writer


def run(test: Callable[[], Any]) -> None:
    async def limited() -> None:
        try:
            await asyncio.wait_for(test(), 30)
        finally:
            while LEFT_OPEN:
                LEFT_OPEN.pop()()
            await asyncio.sleep(0)

    asyncio.run(limited())


@pytest.mark.parametrize("versions", ["TLSv1.2", "TLSv1.3", "TLSv1.2,TLSv1.3"])
def test_bytes_both_ways(files: Path, versions: str) -> None:
    async def test() -> None:
        owner, reader, writer = await connected(files, config(files, ssl_enabled_protocols=versions))
        data = os.urandom(3 << 20)
        writer.write(data)
        answer = [b"small", b"", memoryview(os.urandom(5 << 20)), *[struct.pack(">i", each) for each in range(1000)]]
        owner.socket.write(answer)
        expected = b"".join(answer)
        assert await reader.readexactly(len(expected)) == expected
        while len(owner.received) < len(data):
            await asyncio.sleep(0.01)
        assert owner.received == data
        assert owner.socket.unsent_bytes == 0
        assert owner.unsent[-1] == 0
        owner.socket.close()
        assert await reader.read() == b"", "the end is said, not only cut off"
        writer.close()

    run(test)


def test_ranges_of_files_are_read_and_encrypted(files: Path, tmp_path: Path) -> None:
    async def test() -> None:
        content = os.urandom(1 << 20)
        (tmp_path / "log").write_bytes(content)
        log = Descriptor(os.open(tmp_path / "log", os.O_RDONLY))
        owner, reader, writer = await connected(files, config(files))
        owner.socket.write([b"head", FileRange(log, 1000, 500_000), b"tail", FileRange(log, 0, 10)])
        expected = b"head" + content[1000:501_000] + b"tail" + content[:10]
        assert await reader.readexactly(len(expected)) == expected
        owner.socket.write([FileRange(log, 1 << 20, 10)])
        await asyncio.wait_for(owner.ended.wait(), 5)
        assert owner.lost == 1, "what is not in the file any more is fetched again"
        writer.close()

    run(test)


def test_a_client_that_does_not_read_holds_what_it_is_sent(files: Path) -> None:
    async def test() -> None:
        owner, reader, writer = await connected(files, config(files))
        transport: Any = writer.transport
        transport.pause_reading()
        data = os.urandom(30 << 20)
        owner.socket.write([data])
        await asyncio.sleep(0.3)
        assert 15 << 20 < owner.socket.unsent_bytes < 30 << 20
        transport.resume_reading()
        assert await reader.readexactly(len(data)) == data
        writer.close()

    run(test)


def test_a_paused_socket_is_not_read(files: Path) -> None:
    async def test() -> None:
        owner, _, writer = await connected(files, config(files))
        owner.socket.pause()
        writer.write(b"abc")
        await asyncio.sleep(0.1)
        assert not owner.received
        owner.socket.resume()
        while not owner.received:
            await asyncio.sleep(0.01)
        writer.close()
        await asyncio.wait_for(owner.ended.wait(), 5)
        assert owner.lost == 1

    run(test)


@pytest.mark.parametrize(
    ("auth", "certificate", "is_let_in"),
    [
        ("none", "client.pem", True),
        ("requested", "", True),
        ("requested", "client.pem", True),
        ("required", "client.pem", True),
        ("required", "", False),
        ("required", "foreign.pem", False),
    ],
)
def test_certificates_of_clients(files: Path, auth: str, certificate: str, is_let_in: bool) -> None:
    foreign = create_authority("another", NOW)
    (files / "foreign.pem").write_bytes(issue(foreign, "mallory", (), NOW))

    async def test() -> None:
        tls = config(files, ssl_client_auth=auth, ssl_truststore_location=str(files / "ca.crt"))
        owner, client = await accepted(tls)
        context = client_context(files, certificate)
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            _, writer = await asyncio.open_connection(sock=client, ssl=context, server_hostname="127.0.0.1")
            LEFT_OPEN.append(writer.transport.abort)
            writer.write(b"x")
            await writer.drain()
        while not owner.done.is_set() and not owner.ended.is_set():
            await asyncio.sleep(0.01)
        assert owner.done.is_set() is is_let_in
        assert bool(owner.failures) is not is_let_in
        if certificate == "client.pem" and auth != "none":
            assert owner.certificate["subject"] == ((("commonName", "alice"),),)

    run(test)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (struct.pack(">ihhi", 10, 18, 0, 1) + b"\0\0", "does not speak TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "does not speak TLS"),
        (b"\x16\x03\x01\x40\x00" + b"\0" * 200_000, ""),
    ],
)
def test_what_is_no_handshake_is_refused(files: Path, sent: bytes, reason: str) -> None:
    async def test() -> None:
        owner, client = await accepted(config(files))
        with client:
            with contextlib.suppress(ConnectionError):
                await asyncio.get_running_loop().sock_sendall(client, sent)
            await asyncio.wait_for(owner.ended.wait(), 5)
        assert reason in owner.failures[0]

    run(test)


@pytest.mark.parametrize("sent", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
def test_a_half_open_handshake_ends_in_time(files: Path, sent: bytes) -> None:
    async def test() -> None:
        owner, client = await accepted(config(files), handshake_ms_max=100)
        with client:
            if sent:
                await asyncio.get_running_loop().sock_sendall(client, sent)
            await asyncio.wait_for(owner.ended.wait(), 5)
        assert owner.failures == ["it has not completed the handshake in time"]

    run(test)


def test_a_storm_of_handshakes_leaves_turns_to_others(files: Path) -> None:
    """A hundred in one pass of the loop would be a hundred signatures before anyone else has a turn."""

    async def test() -> None:
        tls, queue = create_context(config(files)), HandshakeQueue()
        context, hellos, clients = client_context(files), [], []
        owners: list[Owner] = []
        with socket.create_server(("127.0.0.1", 0), backlog=200) as server:
            for _ in range(100):
                clients.append(socket.create_connection(server.getsockname()))
                theirs, _ = server.accept()
                outgoing = ssl.MemoryBIO()
                shaking = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
                with pytest.raises(ssl.SSLWantReadError):
                    shaking.do_handshake()
                hellos.append(outgoing.read())
                owners.append(Owner())
                owners[-1].socket = TlsSocket(len(owners), theirs, tls, owners[-1], queue, 20_000)
                LEFT_OPEN.extend((owners[-1].socket.abort, clients[-1].close))
        for client, hello in zip(clients, hellos, strict=True):
            client.sendall(hello)
        passes = 0
        while sum(each.socket._tls is not None for each in owners) < 100:
            passes += 1
            await asyncio.sleep(0)
        assert passes >= 25

    run(test)


def test_the_oldest_of_too_many_handshakes_ends(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes 50 KB of OpenSSL's, from a whole ClientHello on: a thousand of them took 48 MB."""
    monkeypatch.setattr(tls_socket, "HANDSHAKES_MAX", 3)

    async def test() -> None:
        tls, queue, owners = create_context(config(files)), HandshakeQueue(), []
        with socket.create_server(("127.0.0.1", 0)) as server:
            for number in range(6):
                client = socket.create_connection(server.getsockname())
                theirs, _ = server.accept()
                outgoing = ssl.MemoryBIO()
                shaking = client_context(files).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
                with pytest.raises(ssl.SSLWantReadError):
                    shaking.do_handshake()
                hello = outgoing.read()
                owner = Owner()
                owner.socket = TlsSocket(number, theirs, tls, owner, queue, 20_000)
                LEFT_OPEN.extend((owner.socket.abort, client.close))
                owners.append(owner)
                client.sendall(hello[:-1] if number == 0 else hello)
                await asyncio.sleep(0.05)
        assert [bool(owner.failures) for owner in owners] == [False, True, True, False, False, False]
        assert owners[0].socket._tls is None, "half a ClientHello costs nothing"

    run(test)


ECDHE_AES128 = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
OF_TLS_1_3 = "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"


@pytest.mark.parametrize(
    ("suites", "negotiated"),
    [
        (ECDHE_AES128, {("TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256")}),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", {("TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305")}),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", set()),
        (OF_TLS_1_3, {("TLSv1.3", "TLS_AES_256_GCM_SHA384")}),
        (
            f"{ECDHE_AES128},{OF_TLS_1_3}",
            {("TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"), ("TLSv1.3", "TLS_AES_256_GCM_SHA384")},
        ),
    ],
)
def test_cipher_suites_by_javas_names(files: Path, suites: str, negotiated: set[tuple[str, str]]) -> None:
    context = create_context(config(files, ssl_cipher_suites=suites))
    found = set()
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        of_client = client_context(files)
        of_client.minimum_version = of_client.maximum_version = version
        with contextlib.suppress(ssl.SSLError):
            found.add(shaken(context, of_client, "127.0.0.1"))
    assert found == negotiated


def test_a_name_that_the_certificate_lacks_is_the_clients_to_refuse(files: Path) -> None:
    """A listener has one certificate, whatever name a client asks for (SNI), as in Kafka."""
    of_client = client_context(files)
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(create_context(config(files)), of_client, "another.example")
    of_client.check_hostname = False
    assert shaken(create_context(config(files)), of_client, "another.example")[0] == "TLSv1.3"


def shaken(server_context: ssl.SSLContext, of_client: ssl.SSLContext, name: str) -> tuple[str, str]:
    """Return the version and the suite of a handshake in memory. Raises SSLError if there is none."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = of_client.wrap_bio(to_client, to_server, server_hostname=name)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client, server):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    version, cipher = server.version(), server.cipher()
    assert version is not None
    assert cipher is not None
    return version, cipher[0]


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def test_pkcs12_by_openssl_is_read(files: Path) -> None:
    store, source = str(files / "server.p12"), str(files / "server.pem")
    openssl("pkcs12", "-export", "-in", source, "-out", store, "-passout", "pass:secret", "-name", "server")
    create_context(config(files, ssl_keystore_location=store, ssl_keystore_password="secret"))
    with pytest.raises(StoreError, match="its password is another one"):
        create_context(config(files, ssl_keystore_location=store, ssl_keystore_password="guess"))


def test_a_private_key_with_a_password(files: Path) -> None:
    locked, server = files / "locked.key", files / "server.pem"
    openssl("pkcs8", "-topk8", "-in", str(server), "-out", str(locked), "-passout", "pass:secret")
    both = files / "locked.pem"
    both.write_bytes(locked.read_bytes() + server.read_bytes().partition(END_OF_KEY)[2])
    create_context(config(files, ssl_keystore_location=str(both), ssl_key_password="secret"))
    for wrong in ({"ssl_key_password": "guess"}, {}):
        with pytest.raises(StoreError, match=r"ssl\.keystore"):
            create_context(config(files, ssl_keystore_location=str(both), **wrong))


def test_pem_in_the_configuration_itself(files: Path) -> None:
    key, mark, chain = (files / "server.pem").read_text().partition(END_OF_KEY.decode())
    given = {"ssl.keystore.key": (key + mark).replace("\n", "\\n"), "ssl.keystore.certificate.chain": chain}
    create_context(tls_config(given))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent.pem", "No such file"),
        ("store.jks", "keytool -importkeystore"),
        ("ca.crt", r"ssl\.keystore"),
        ("ca.key", r"ssl\.keystore"),
        ("garbage.p12", "not a PKCS12 store"),
    ],
)
def test_stores_that_can_not_be_used_are_named(files: Path, name: str, message: str) -> None:
    (files / "store.jks").write_bytes(bytes.fromhex("feedfeed00000002"))
    (files / "garbage.p12").write_bytes(b"garbage")
    with pytest.raises(StoreError, match=message):
        create_context(config(files, ssl_keystore_location=str(files / name)))


def test_a_store_without_pem_is_no_pem(files: Path) -> None:
    (files / "garbage.pem").write_bytes(b"garbage")
    with pytest.raises(StoreError, match="no PEM"):
        read_store(Store("ssl.keystore", str(files / "garbage.pem"), "PEM"))


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("ssl.enabled.protocols", "TLSv1.1", "expected some of TLSv1.2, TLSv1.3"),
        ("ssl.protocol", "SSLv3", "expected one of TLS, TLSv1.2, TLSv1.3"),
        ("ssl.cipher.suites", "TLS_RSA_WITH_NULL_SHA256", "expected names like"),
        ("ssl.cipher.suites", "ECDHE-RSA-AES128-GCM-SHA256", "expected names like"),
        ("ssl.client.auth", "always", "expected one of none, requested, required"),
        ("ssl.client.auth", "required", "ssl.truststore.location is needed"),
        ("ssl.keystore.type", "BKS", "expected PEM or PKCS12"),
        ("ssl.keystore.location", "", "ssl.keystore.location is needed"),
    ],
)
def test_keys_that_do_not_fit_together(key: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tls_config({"ssl.keystore.location": "x.pem", key: text})


@pytest.mark.parametrize(
    ("suites", "versions", "message"),
    [
        ("TLS_AES_128_GCM_SHA256", "TLSv1.3", "all of"),
        (ECDHE_AES128, "TLSv1.3", "no suite of a version"),
        (OF_TLS_1_3, "TLSv1.2", "no suite of a version"),
    ],
)
def test_suites_that_do_not_fit_the_versions(files: Path, suites: str, versions: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create_context(config(files, ssl_cipher_suites=suites, ssl_enabled_protocols=versions))


def test_a_changed_file_is_another_context_and_a_bad_one_is_not(files: Path, authority: Authority) -> None:
    said: list[str] = []
    reloaded = ReloadedContext(config(files), said.append)
    first = reloaded.context
    assert not reloaded.reload()
    (files / "server.pem").write_bytes(issue(authority, "other", ("127.0.0.1",), NOW))
    assert reloaded.reload()
    second = reloaded.context
    assert second is not first
    (files / "server.pem").write_text("half a fi")
    assert not reloaded.reload()
    assert reloaded.context is second
    assert not reloaded.reload()
    assert len(said) == 1, "it is said once"


def test_an_authority_is_read_again(files: Path, authority: Authority) -> None:
    assert read_authority(files).pem == authority.pem
    assert (files / "ca.key").stat().st_mode & 0o777 == 0o600
