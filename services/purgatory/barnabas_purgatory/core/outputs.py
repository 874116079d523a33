"""Outputs: what a turn of the core has come to."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.channel.messages import Completion, WatchedGroup, WatchedPartition, WatchRequest
from barnabas_purgatory.core.group_watches import GroupKey, GroupWatch
from barnabas_purgatory.core.watch_table import WatchTable
from barnabas_purgatory.core.watches import PartitionKey, PartitionWatch


@dataclass(slots=True)
class Outputs:
    """One turn's output for the shell; nodes and streams in the order in which they came up."""

    completions: dict[int, list[Completion]] = field(default_factory=dict)
    watches: dict[int, list[WatchedPartition]] = field(default_factory=dict)
    unwatches: dict[int, list[WatchedPartition]] = field(default_factory=dict)
    group_watches: dict[int, list[WatchedGroup]] = field(default_factory=dict)
    group_unwatches: dict[int, list[WatchedGroup]] = field(default_factory=dict)

    def watch_requests(self) -> list[tuple[int, WatchRequest]]:
        """Return the messages to the logstores: one each, by node."""
        nodes = {*self.watches, *self.unwatches, *self.group_watches, *self.group_unwatches}
        return [
            (
                node_id,
                WatchRequest(
                    watches=self.watches.get(node_id, []),
                    unwatches=self.unwatches.get(node_id, []),
                    group_watches=self.group_watches.get(node_id, []),
                    group_unwatches=self.group_unwatches.get(node_id, []),
                ),
            )
            for node_id in sorted(nodes)
        ]


def take_outputs(
    completions: dict[int, list[Completion]],
    partitions: WatchTable[PartitionKey, PartitionWatch],
    groups: WatchTable[GroupKey, GroupWatch],
) -> Outputs:
    """End the turn of both tables, and return everything that it has come to."""
    watches, unwatches = partitions.end_turn()
    group_watches, group_unwatches = groups.end_turn()
    return Outputs(
        completions,
        {node_id: [WatchedPartition(*key) for key in keys] for node_id, keys in watches.items()},
        {node_id: [WatchedPartition(*key) for key in keys] for node_id, keys in unwatches.items()},
        {node_id: [WatchedGroup(*key) for key in keys] for node_id, keys in group_watches.items()},
        {node_id: [WatchedGroup(*key) for key in keys] for node_id, keys in group_unwatches.items()},
    )
