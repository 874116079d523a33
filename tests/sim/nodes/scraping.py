"""What a scrape of a process's metrics asks its core."""

from __future__ import annotations

from barnabas_controller.core.observability.measures import Measures
from tests.sim.nodes.controller import ControllerNode
from tests.sim.nodes.gateway import GatewayNode
from tests.sim.nodes.logstore import LogstoreNode
from tests.sim.nodes.purgatory import PurgatoryNode

PARTITIONS_PER_SLICE = 3


def scrape(node: ControllerNode | GatewayNode | LogstoreNode | PurgatoryNode) -> None:
    """Read every sample, as the service's shell does."""
    core = node.core
    if core is None:
        return
    match node:
        case LogstoreNode(core=core) if core is not None:
            scan = core.measures.scan_partitions(node.wall_ms)
            while not scan.step(PARTITIONS_PER_SLICE):
                pass
            parts = [scan, core.measures]
        case GatewayNode(core=core) if core is not None:
            core.connections.queued_requests()
            core.connections.queued_responses()
            parts = core.measured
        case ControllerNode(core=core) if core is not None:
            parts = [Measures(core)]
        case PurgatoryNode(core=core) if core is not None:
            parts = [core]
    for part in parts:
        for _ in part.samples():
            pass
