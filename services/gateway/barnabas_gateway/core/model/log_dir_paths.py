"""How a log directory is named to clients that speak to the cluster and to no broker in particular.

Directories of several brokers often have the same path, so the broker's id goes in front: `2:/var/lib/barnabas`. What
DescribeLogDirs has told, AlterReplicaLogDirs takes.
"""

from __future__ import annotations


def path_in_cluster(node_id: int, path: str) -> str:
    """The name of a broker's directory."""
    return f"{node_id}:{path}"


def parse_path_in_cluster(name: str) -> tuple[int, str] | None:
    """(node id, path) of such a name; None when it is none."""
    node_id, colon, path = name.partition(":")
    if not colon or not (node_id.isascii() and node_id.isdigit()) or len(node_id) > 10:
        return None
    return int(node_id), path
