"""Packs and scans the messages of the data channel by hand, byte-equal to protobuf (a property test holds it).

For each message M of a stream: `pack_m(message) -> bytes` and `scan_m(data) -> M`, which raises MalformedMessage.
Why by hand: protobuf objects copy on every read and refuse memoryview; 1 MB costs about 4.9 ms through them.
"""

from __future__ import annotations

from barnabas.channel.packing_coordinate import (
    pack_coordinate_request,
    pack_coordinate_response,
    scan_coordinate_request,
    scan_coordinate_response,
)
from barnabas.channel.packing_exchange import pack_exchange_request, scan_exchange_request
from barnabas.channel.packing_exchange_results import pack_exchange_response, scan_exchange_response
from barnabas.channel.packing_park import (
    pack_park_request,
    pack_park_response,
    scan_park_request,
    scan_park_response,
)
from barnabas.channel.packing_primitives import MalformedMessage
from barnabas.channel.packing_read import (
    pack_read_request,
    pack_read_response,
    scan_read_request,
    scan_read_response,
)
from barnabas.channel.packing_replicate import (
    pack_replicate_request,
    pack_replicate_response,
    scan_replicate_request,
    scan_replicate_response,
)
from barnabas.channel.packing_watch import (
    pack_watch_request,
    pack_watch_response,
    scan_watch_request,
    scan_watch_response,
)

__all__ = [
    "MalformedMessage",
    "pack_coordinate_request",
    "pack_coordinate_response",
    "pack_exchange_request",
    "pack_exchange_response",
    "pack_park_request",
    "pack_park_response",
    "pack_read_request",
    "pack_read_response",
    "pack_replicate_request",
    "pack_replicate_response",
    "pack_watch_request",
    "pack_watch_response",
    "scan_coordinate_request",
    "scan_coordinate_response",
    "scan_exchange_request",
    "scan_exchange_response",
    "scan_park_request",
    "scan_park_response",
    "scan_read_request",
    "scan_read_response",
    "scan_replicate_request",
    "scan_replicate_response",
    "scan_watch_request",
    "scan_watch_response",
]
