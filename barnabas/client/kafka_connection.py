"""One blocking connection to one broker: requests out, answers in, in the same order."""

from __future__ import annotations

import errno
import math
import os
import socket
import ssl
import struct
import time
from typing import Final, TypeVar

from barnabas.client.client_security import ClientSecurity
from barnabas.client.sasl import SaslRefusal
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response, encode_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request, Response, api_key_of
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from barnabas.wire.primitives import MalformedFrame

RESPONSE_BYTES_MAX: Final = 1 << 28
CLEAR: Final = ClientSecurity()
"""Neither TLS nor SASL."""

_SIZE: Final = struct.Struct(">i")
_RECEIVE_BYTES: Final = 1 << 24
_API_VERSIONS_VERSION: Final = 3
_REAUTHENTICATE_AFTER: Final = 0.85
"""The part of a session's length after which the client authenticates again: the earliest that Java's clients do."""

_Answer = TypeVar("_Answer", bound=Response)


class ConnectionBroken(OSError):  # noqa: N818 - it says what happened
    """The broker cannot be reached, is silent, or does not speak Kafka's protocol; the message names its address."""


def connect(host: str, port: int, timeout_seconds: float) -> socket.socket:
    """Connect to another process. Raises OSError.

    While no process listens on a port of the ephemeral range, TCP may connect a client with itself there (RFC 9293's
    simultaneous open), and its TIME_WAIT would keep the port from the service that is about to listen: it is reset.
    """
    connection = socket.create_connection((host, port), timeout_seconds)
    if connection.getsockname() == connection.getpeername():
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
    return connection


class KafkaConnection:
    """Use it as a context manager, or `close` it. Every call may raise ConnectionBroken; after that, only close it."""

    def __init__(
        self,
        host: str,
        port: int,
        timeout_seconds: float,
        client_id: str = "barnabas",
        response_bytes_max: int = RESPONSE_BYTES_MAX,
        security: ClientSecurity = CLEAR,
    ) -> None:
        """`timeout_seconds` applies to connecting, and to each read and write."""
        self.address = f"{host}:{port}"
        self._client_id = client_id
        self._response_bytes_max = response_bytes_max
        self._correlation_id = 0
        self._unanswered: list[tuple[int, ApiKey, int]] = []
        self._versions: dict[int, tuple[int, int]] = {}
        self._security = security
        self._host = host
        self._reauthenticate_at_s = math.inf
        try:
            self._socket = connect(host, port, timeout_seconds)
        except OSError as error:
            raise self._broken(error) from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if security.context is not None:
                self._socket = security.context.wrap_socket(self._socket, server_hostname=host)
            if security.mechanism:
                self._authenticate()
        except BaseException as error:
            self._socket.close()
            if isinstance(error, OSError) and not isinstance(error, ConnectionBroken):
                raise self._broken(_reason_of(error)) from error
            raise

    def __enter__(self) -> KafkaConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def _authenticate(self) -> None:
        """By SASL, before any other request (KIP-43, KIP-152), and again before the session ends (KIP-368)."""
        self._reauthenticate_at_s = math.inf
        began_s = time.monotonic()
        mechanism = self._security.mechanism
        handshake = self.ask(SaslHandshakeRequest(mechanism), 1, SaslHandshakeResponse)
        if handshake.error_code != ErrorCode.NONE:
            offered = ", ".join(handshake.mechanisms) or "none"
            raise self._broken(f"{mechanism} is not enabled there; these are: {offered}")
        try:
            client = self._security.create_sasl_client(self._host)
            token: bytes | None = client.first_token()
            while token is not None:
                answer = self.ask(SaslAuthenticateRequest(token), 1, SaslAuthenticateResponse)
                if answer.error_code != ErrorCode.NONE:
                    raise self._broken(answer.error_message or ErrorCode(answer.error_code).message)
                token = client.next_token(bytes(answer.auth_bytes))
        except SaslRefusal as refusal:
            raise self._broken(str(refusal)) from None
        except OSError as error:
            raise error if isinstance(error, ConnectionBroken) else self._broken(error) from error
        if answer.session_lifetime_ms > 0:
            self._reauthenticate_at_s = began_s + answer.session_lifetime_ms / 1000 * _REAUTHENTICATE_AFTER

    def learn_versions(self, software_name: str, software_version: str) -> None:
        """Ask the broker which versions it supports: required before `version_of`, `call` and `send`."""
        request = ApiVersionsRequest(software_name, software_version)
        response = self.ask(request, _API_VERSIONS_VERSION, ApiVersionsResponse)
        if response.error_code != ErrorCode.NONE:
            raise self._broken(f"error {response.error_code} in answer to ApiVersions")
        self._versions = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}

    def version_of(self, key: ApiKey, version_max: int = 1 << 15) -> int:
        """Return the newest version that both sides support, at most `version_max`; -1 if there is none."""
        low, high = self._versions.get(key, (0, -1))
        low, high = max(low, key.schema_versions.first), min(high, key.schema_versions.last, version_max)
        return high if low <= high else -1

    def ask(
        self, request: Request, version: int, answer: type[_Answer], timeout_seconds: float | None = None
    ) -> _Answer:
        """Send a request in this version and wait for its answer; a timeout given here also applies to later calls."""
        if timeout_seconds is not None:
            self._socket.settimeout(timeout_seconds)
        self._send(request, api_key_of(type(request)), version)
        return self.receive(answer)

    def call(self, request: Request, answer: type[_Answer], version_max: int = 1 << 15) -> _Answer:
        """Send a request in the newest version that both sides support and wait for its answer."""
        self.send(request, version_max)
        return self.receive(answer)

    def send(self, request: Request, version_max: int = 1 << 15) -> None:
        """Send a request in the newest version that both sides support; `receive` returns the answers in order."""
        key = api_key_of(type(request))
        version = self.version_of(key, version_max)
        if version < 0:
            raise self._broken(f"{key.api_name} is not served in a version that is known here")
        self._send(request, key, version)

    def receive(self, answer: type[_Answer]) -> _Answer:
        """Wait for the answer to the oldest request without one."""
        correlation_id, key, version = self._unanswered.pop(0)
        try:
            (size,) = _SIZE.unpack(self._read(_SIZE.size))
            if not 0 <= size <= self._response_bytes_max:
                raise self._broken(f"an answer of {size} bytes was announced: is this a Kafka port?")
            answered_id, response = decode_response(key, version, memoryview(self._read(size)))
        except MalformedFrame as error:
            raise self._broken(f"the answer can't be read: {error}") from error
        if answered_id != correlation_id:
            raise self._broken(f"an answer to request {answered_id} came where {correlation_id} was next")
        assert isinstance(response, answer), (type(response), answer)
        return response

    def _send(self, request: Request, key: ApiKey, version: int) -> None:
        if time.monotonic() >= self._reauthenticate_at_s and not self._unanswered:
            self._authenticate()
        self._correlation_id += 1
        buffers = encode_request(request, version, self._correlation_id, self._client_id)
        try:
            self._socket.sendall(b"".join(buffers))
        except OSError as error:
            raise self._broken(error) from error
        self._unanswered.append((self._correlation_id, key, version))

    def _read(self, size: int) -> bytearray:
        """Read exactly so many bytes. The buffer grows with what arrives, so that a wrong size uses no memory."""
        data = bytearray(min(size, _RECEIVE_BYTES))
        view = memoryview(data)
        filled = 0
        while filled < size:
            if filled == len(data):
                view.release()
                data.extend(bytes(min(len(data), size - filled)))
                view = memoryview(data)
            try:
                count = self._socket.recv_into(view[filled:])
            except OSError as error:
                raise self._broken(error) from error
            if count == 0:
                raise self._broken("the broker closed the connection (does it need TLS, or authentication?)")
            filled += count
        return data

    def _broken(self, reason: OSError | str) -> ConnectionBroken:
        return ConnectionBroken(f"{self.address}: {reason}")


def _reason_of(error: OSError) -> OSError | str:
    """Say what is wrong where OpenSSL says it in a riddle."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"no TLS there, or none that is known here: {error.reason}"
    return error
