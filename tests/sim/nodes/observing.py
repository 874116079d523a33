"""What is asked of a process besides its work: its metrics, its health, what operators want to see.

What raises there costs the question alone, as in the services.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import TypeAlias

from barnabas.cluster.keys import Role
from barnabas.containment import Place
from barnabas.metrics.conditions import Condition
from barnabas.metrics.family import Measured
from barnabas.runtime.contained import CALL, HEALTH, SCRAPE
from barnabas_controller.core.observability.description import describe_nodes, describe_problems
from barnabas_controller.core.observability.measures import Measures
from barnabas_controller.core.observability.partition_listing import PartitionFilter, count_partitions, list_partitions
from tests.sim.nodes.controller import ControllerNode
from tests.sim.nodes.gateway import GatewayNode
from tests.sim.nodes.logstore import LogstoreNode
from tests.sim.nodes.purgatory import PurgatoryNode
from tests.sim.process import Process
from tests.sim.scheduler import injected

PARTITIONS_PER_SLICE = 3
EVENTS_BACK = 50
EVENTS_MAX = 100

Observed: TypeAlias = ControllerNode | GatewayNode | LogstoreNode | PurgatoryNode


def scrape(node: Observed) -> None:
    """Read every sample, as the service's shell does."""
    _guarded(node, SCRAPE, lambda: _read_samples(node))


def ask_for_health(node: LogstoreNode, tell: Callable[[Sequence[Condition]], None]) -> None:
    """Have a logstore look at some of its health, and tell what it found."""

    def look() -> None:
        if node.core is not None:
            health = node.core.measures.health
            health.step(node.now_ms, node.wall_ms)
            tell(health.conditions())

    _guarded(node, HEALTH, look)


def report_health(node: ControllerNode, node_id: int, conditions: Sequence[Condition]) -> None:
    """A logstore reports its health to a controller."""

    def take() -> None:
        if node.is_active:
            registered = node.running.image.logstores.get(node_id)
            incarnation = "" if registered is None else registered.record.incarnation
            node.running.reported_health.report(Role.LOGSTORE, str(node_id), incarnation, conditions)

    _guarded(node, CALL, take)


def describe(node: ControllerNode) -> None:
    """An operator has a controller describe the cluster, and what has happened lately."""
    _guarded(node, CALL, lambda: _describe_all(node))


def _describe_all(node: ControllerNode) -> None:
    core = node.core
    if core is None or not core.active:
        return
    counts = count_partitions(core.image, core.rules)
    describe_nodes(core, counts)
    describe_problems(core, counts)
    for _ in list_partitions(core.image, core.rules, PartitionFilter("", frozenset(), None, None)):
        pass
    for node_id in core.image.drains:
        core.drains.progress(node_id)
    core.reported_health.conditions()
    events = core.events
    position = events.position_after(max(0, core.image.revision - EVENTS_BACK))
    if position is not None:
        found = events.read(position, EVENTS_MAX)
        events.noted_before(position + len(found))


def _read_samples(node: Observed) -> None:
    parts: Sequence[Measured] = ()
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


def _guarded(node: Process, place: Place, act: Callable[[], None]) -> None:
    try:
        act()
    except Exception as error:
        if injected(error) is None:
            raise
        node.scheduler.contained(node, place.name, place.scope.value, traceback.format_exc())
