"""The ids and the hops of a request that is traced."""

from __future__ import annotations


class Trace:
    """A request that is traced: the ids of its span, and the hops one after the other."""

    __slots__ = ("hops", "span_id", "trace_id")

    def __init__(self, trace_id: bytes, span_id: bytes) -> None:
        self.trace_id = trace_id
        self.span_id = span_id
        self.hops: list[tuple[int, int, int]] = []
        """Hop, begin, end (µs)."""
