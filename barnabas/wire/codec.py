"""Convert frames to messages and back: the only entry to the compiled encoders and decoders.

Each is compiled when its (message, version) is first used, which takes about a millisecond, and kept.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple, cast

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.decoding import compile_decoder, compile_decoder_in_steps
from barnabas.wire.encoding import compile_encoder, compile_encoder_in_steps
from barnabas.wire.file_range import FileRange
from barnabas.wire.headers import decode_response_header, encode_request_header, response_header_version
from barnabas.wire.messages import MESSAGES, Request, Response, api_key_of
from barnabas.wire.primitives import SHORT_ELEMENTS_MAX, Buffer, Decoder, Steps

_SIZE: Final = Struct(">i")
_RESPONSE_HEADERS: Final = (Struct(">ii"), Struct(">iix"))
"""Size and correlation id, then in header v1 the number, zero, of tagged fields."""

_RESPONSE_ELEMENTS_MAX: Final = 1 << 24
"""Responses that may be long: clients choose what they request, and the metadata of a large cluster has millions of
replica ids.
"""


class UnsupportedVersion(LookupError):  # noqa: N818 - it reads as the error code does
    """There is no such message in that version: the caller should have checked `ApiKey.schema_versions` first."""


class _Encoder(NamedTuple):
    encode: Callable[[Request | Response], list[Buffer]]
    api_key: ApiKey
    response_header: Struct


_request_decoders: dict[tuple[int, int], Decoder] = {}
_request_decoders_in_steps: dict[tuple[int, int], Callable[[memoryview, int], Steps[Request]]] = {}
_response_decoders: dict[tuple[int, int], Decoder] = {}
_encoders: dict[tuple[type[Request | Response], int], _Encoder] = {}
_response_decoders_in_steps: dict[tuple[int, int], Callable[[memoryview, int, int], Steps[Response]]] = {}
_encoders_in_steps: dict[tuple[type[Response], int], Callable[[Response], Steps[list[Buffer]]]] = {}


def decode_request(api_key: int, version: int, frame: memoryview, position: int) -> Request:
    """Decode the body of a request that starts at `position` (from `headers.decode_request_header`).

    Records are slices of `frame`. Raises MalformedFrame, and UnsupportedVersion for what has no schema here.
    """
    decode = _request_decoders.get((api_key, version)) or _compile_request_decoder(api_key, version)
    request: Request = decode(frame, position)
    return request


def decode_short_request(api_key: int, version: int, frame: memoryview, position: int) -> Request:
    """Decode a request with at most `SHORT_ELEMENTS_MAX` elements; raises TooManyElements for another one."""
    decode = _request_decoders.get((api_key, version)) or _compile_request_decoder(api_key, version)
    request: Request = decode(frame, position, SHORT_ELEMENTS_MAX)
    return request


def _compile_request_decoder(api_key: int, version: int) -> Decoder:
    key = _known(api_key, version)
    decode = _request_decoders[api_key, version] = compile_decoder(MESSAGES[key][0], version, key.is_flexible(version))
    return decode


def decode_request_in_steps(api_key: int, version: int, frame: memoryview, position: int) -> Steps[Request]:
    """Like `decode_request`, one element per step."""
    decode = _request_decoders_in_steps.get((api_key, version))
    if decode is None:
        key = _known(api_key, version)
        decode = compile_decoder_in_steps(MESSAGES[key][0], version, key.is_flexible(version))
        _request_decoders_in_steps[api_key, version] = decode
    return decode(frame, position)


def decode_response(api_key: int, version: int, frame: memoryview) -> tuple[int, Response]:
    """Return `(correlation id, message)` of a response frame without its size. Raises as `decode_request` does."""
    decode = _response_decoder(api_key, version)
    correlation_id, position = decode_response_header(api_key, version, frame)
    return correlation_id, decode(frame, position, _RESPONSE_ELEMENTS_MAX)


def decode_response_body(api_key: int, version: int, body: memoryview) -> Response:
    """Decode a response without a header. Raises as `decode_request` does."""
    response: Response = _response_decoder(api_key, version)(body, 0, _RESPONSE_ELEMENTS_MAX)
    return response


def decode_response_body_in_steps(api_key: int, version: int, body: memoryview) -> Steps[Response]:
    """Like `decode_response_body`, one element per step."""
    decode = _response_decoders_in_steps.get((api_key, version))
    if decode is None:
        key = _known(api_key, version)
        decode = compile_decoder_in_steps(MESSAGES[key][1], version, key.is_flexible(version))
        _response_decoders_in_steps[api_key, version] = decode
    return decode(body, 0, _RESPONSE_ELEMENTS_MAX)


def _response_decoder(api_key: int, version: int) -> Decoder:
    decode = _response_decoders.get((api_key, version))
    if decode is None:
        key = _known(api_key, version)
        decode = compile_decoder(MESSAGES[key][1], version, key.is_flexible(version))
        _response_decoders[api_key, version] = decode
    return decode


def encode_request(message: Request, version: int, correlation_id: int, client_id: str | None) -> list[Buffer]:
    """Return the whole frame, including size and header, as buffers to be sent in order."""
    encoder = _encoders.get((type(message), version)) or _compile_encoder(type(message), version)
    buffers = encoder.encode(message)
    header = encode_request_header(encoder.api_key, version, correlation_id, client_id)
    buffers[0] = _SIZE.pack(len(header) + sum(map(len, buffers))) + header + buffers[0]
    return buffers


def encode_response(message: Response, version: int, correlation_id: int) -> list[Buffer | FileRange]:
    """Return the whole frame, including size and header, as buffers to be sent in order.

    Each non-empty record set in `message` is one of these buffers, the very same object, and may be a range of a file;
    all others are `bytes`.
    """
    encoder = _encoders.get((type(message), version)) or _compile_encoder(type(message), version)
    return cast("list[Buffer | FileRange]", _framed(encoder, encoder.encode(message), correlation_id))


def encode_response_in_steps(message: Response, version: int, correlation_id: int) -> Steps[list[Buffer | FileRange]]:
    """Like `encode_response`, one element per step."""
    encoder = _encoders.get((type(message), version)) or _compile_encoder(type(message), version)
    encode = _encoders_in_steps.get((type(message), version)) or _compile_encoder_in_steps(type(message), version)
    return cast("list[Buffer | FileRange]", _framed(encoder, (yield from encode(message)), correlation_id))


def _framed(encoder: _Encoder, buffers: list[Buffer], correlation_id: int) -> list[Buffer]:
    header = encoder.response_header
    first = buffers[0]
    body_bytes = len(first) if len(buffers) == 1 else sum(map(len, buffers))
    buffers[0] = header.pack(header.size - 4 + body_bytes, correlation_id) + first
    return buffers


def frame_response(api_key: int, version: int, correlation_id: int, body: Buffer) -> list[Buffer | FileRange]:
    """Return the whole frame of a response whose body is already encoded; the body is copied."""
    header = _RESPONSE_HEADERS[response_header_version(api_key, version)]
    return [header.pack(header.size - 4 + len(body), correlation_id) + body]


def encode_body(message: Request | Response, version: int) -> bytes:
    """Encode a request or response without a header, in one piece: not for records."""
    encoder = _encoders.get((type(message), version)) or _compile_encoder(type(message), version)
    return b"".join(encoder.encode(message))


def encode_body_in_steps(message: Response, version: int) -> Steps[bytes]:
    """Like `encode_body`, one element per step."""
    encode = _encoders_in_steps.get((type(message), version)) or _compile_encoder_in_steps(type(message), version)
    return b"".join((yield from encode(message)))


def _compile_encoder_in_steps(message: type[Response], version: int) -> Callable[[Response], Steps[list[Buffer]]]:
    is_flexible = _known(api_key_of(message), version).is_flexible(version)
    encode = _encoders_in_steps[message, version] = compile_encoder_in_steps(message, version, is_flexible)
    return encode


def _compile_encoder(message: type[Request | Response], version: int) -> _Encoder:
    key = _known(api_key_of(message), version)
    encoder = _Encoder(
        compile_encoder(message, version, key.is_flexible(version)),
        key,
        _RESPONSE_HEADERS[response_header_version(key, version)],
    )
    _encoders[message, version] = encoder
    return encoder


def _known(api_key: int, version: int) -> ApiKey:
    key = next((key for key in MESSAGES if key == api_key), None)
    if key is None:
        raise UnsupportedVersion(f"API key {api_key} has no schema")
    if version not in key.schema_versions:
        raise UnsupportedVersion(f"{key.api_name} v{version} has no schema")
    return key
