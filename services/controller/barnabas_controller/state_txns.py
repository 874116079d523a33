"""Cut a cluster's whole state into Txns of the controller's sizes, for `barnabas restore` and `barnabas rebuild`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from barnabas.ports.etcd import Put
from barnabas_controller.core.state.writes import Write, pack


def puts_by_txn(values: Mapping[str, bytes]) -> Iterator[tuple[Put, ...]]:
    """Yield the puts of each Txn in turn, by key in the order of `values`; etcd accepts each with its default limits.

    A reader may see the state between any two of them.
    """
    for batch in pack(Write(key, value) for key, value in values.items()):
        yield tuple(Put(write.key, write.value) for write in batch if write.value is not None)
