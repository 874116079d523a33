"""One connection to one broker: requests out, answers in, in order. Blocking, with a timeout."""

from __future__ import annotations

import socket
from struct import Struct
from typing import Final, TypeVar

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response, encode_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import api_key_of
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.primitives import MalformedFrame
from barnabas.wire.schema import Request, Response

_SIZE: Final = Struct(">i")
_FRAME_BYTES_MAX: Final = 1 << 30
_API_VERSIONS_VERSION: Final = 3

_Answer = TypeVar("_Answer", bound=Response)


class ConnectionBroken(Exception):  # noqa: N818 - it says what happened
    """The broker can't be reached, is silent, or does not speak Kafka's protocol: try another, or again."""


class Connection:
    """Open it, and close it. Everything raises ConnectionBroken, after which it is of no use."""

    def __init__(self, host: str, port: int, client_id: str, timeout_seconds: float) -> None:
        self.address = f"{host}:{port}"
        self._client_id = client_id
        self._correlation_id = 0
        self._unanswered: list[tuple[int, int, int]] = []
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            self._socket = socket.create_connection((host, port), timeout_seconds)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise ConnectionBroken(f"{self.address}: {error}") from error
        try:
            self._learn_versions()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def version_of(self, key: ApiKey, version_max: int = 1 << 15) -> int:
        """The newest version that both sides know, at most `version_max`; -1 when there is none."""
        low, high = self._versions.get(key, (0, -1))
        low, high = max(low, key.schema_versions.first), min(high, key.schema_versions.last, version_max)
        return high if low <= high else -1

    def call(self, request: Request, answer: type[_Answer], version_max: int = 1 << 15) -> _Answer:
        """Send and wait for the answer, whose type is `answer`."""
        self.send(request, version_max)
        return self.receive(answer)

    def send(self, request: Request, version_max: int = 1 << 15) -> None:
        """Send; `receive` gives the answers in the order of the requests."""
        key = api_key_of(type(request))
        version = self.version_of(key, version_max)
        if version < 0:
            raise ConnectionBroken(f"{self.address} does not serve {key.api_name} in a version that is known here")
        self._send(request, key, version)

    def receive(self, answer: type[_Answer]) -> _Answer:
        correlation_id, key, version = self._unanswered.pop(0)
        try:
            (size,) = _SIZE.unpack(self._read(_SIZE.size))
            if not 4 <= size <= _FRAME_BYTES_MAX:
                raise ConnectionBroken(f"{self.address}: an answer of {size} bytes is not Kafka's protocol")
            answered_id, response = decode_response(key, version, memoryview(self._read(size)))
        except OSError as error:
            raise ConnectionBroken(f"{self.address}: {error}") from error
        except MalformedFrame as error:
            raise ConnectionBroken(f"{self.address}: {error}") from error
        if answered_id != correlation_id:
            raise ConnectionBroken(f"{self.address} answered request {answered_id} where {correlation_id} was next")
        assert isinstance(response, answer), (type(response), answer)
        return response

    def _learn_versions(self) -> None:
        self._send(ApiVersionsRequest("barnabas-pipeline", "0.1"), ApiKey.API_VERSIONS, _API_VERSIONS_VERSION)
        response = self.receive(ApiVersionsResponse)
        if response.error_code != ErrorCode.NONE:
            raise ConnectionBroken(f"{self.address} answers ApiVersions with error {response.error_code}")
        self._versions = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}

    def _send(self, request: Request, key: ApiKey, version: int) -> None:
        self._correlation_id += 1
        buffers = encode_request(request, version, self._correlation_id, self._client_id)
        try:
            self._socket.sendall(b"".join(buffers))
        except OSError as error:
            raise ConnectionBroken(f"{self.address}: {error}") from error
        self._unanswered.append((self._correlation_id, key, version))

    def _read(self, size: int) -> bytearray:
        """Exactly so many bytes. Grows with what arrives, so that a lying size costs no memory."""
        data = bytearray(min(size, 1 << 24))
        view = memoryview(data)
        filled = 0
        while filled < size:
            if filled == len(data):
                view.release()
                data.extend(bytes(min(len(data), size - filled)))
                view = memoryview(data)
            count = self._socket.recv_into(view[filled:])
            if count == 0:
                raise ConnectionBroken(f"{self.address} closed the connection")
            filled += count
        return data
