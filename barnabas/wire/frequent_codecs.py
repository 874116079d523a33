"""The codecs of frequent messages that are compiled with the cores.

`make compiled` appends a decoder and an encoder for each version of the messages that `scripts/compiled/codecs.py`
names, and puts them into these two. In plain modules both are empty, and every codec is made when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from barnabas.wire.primitives import Decoder

DECODERS: Final[dict[str, Decoder]] = {}
"""By `codec_name`."""

ENCODERS: Final[dict[str, Callable[[Any], list[Any]]]] = {}


def codec_name(message: type[Any], version: int) -> str:
    return f"{message.__module__}.{message.__qualname__} {version}"
