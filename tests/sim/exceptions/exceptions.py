"""What a run with exceptions does: arms places at moments of its own, and checks what became of each exception."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from barnabas.cluster.access.operator_calls import OperatorCall
from barnabas.metrics.conditions import Condition
from tests.sim.clients.client import Client
from tests.sim.exceptions import further
from tests.sim.exceptions.account import Account, Scope
from tests.sim.exceptions.bystanders import Bystanders
from tests.sim.exceptions.call_sites import Place, places
from tests.sim.exceptions.guest import Guest
from tests.sim.exceptions.inquirer import Inquirer
from tests.sim.exceptions.insister import PARTITIONS, TOPICS, Insister
from tests.sim.exceptions.poison import CLIENTS, POISON, Poisoner, poisoned_by
from tests.sim.exceptions.provoked import provoking
from tests.sim.exceptions.questions import TOPIC
from tests.sim.exceptions.radius import expected
from tests.sim.exceptions.shortage import Shortage
from tests.sim.exceptions.stranger import Stranger
from tests.sim.exceptions.strays import Asker, Stray, go_astray, is_of_list
from tests.sim.exceptions.surroundings import AUDIT_TOPIC, relax, sasl_addresses, surround
from tests.sim.exceptions.thrower import Thrower
from tests.sim.nodes.observing import ask_for_health, describe, report_health, scrape
from tests.sim.process import WALL_START_MS, Process
from tests.sim.scheduler import MS, SECOND, InvariantViolation

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.nodes.logstore import LogstoreNode

INTERVAL_US = 800_000
GUESTS = 2
OPERATOR_CALL = OperatorCall(
    WALL_START_MS, "controller-0", "User:operator", "operator:1", "DescribeCluster", "allowed", ""
)
QUESTIONS_PER_INTERVAL = 20
"""Of the inquirer: the slower a run, the fewer. Metrics are read once in each interval."""


@dataclass(slots=True, frozen=True)
class Exceptions:
    """Which places throw in a run: those named, or as many by chance as one each `interval_us` makes."""

    named: tuple[Place, ...] = ()
    interval_us: int = INTERVAL_US
    is_poison: bool = False
    """The places throw at each poisonous request, from the beginning to the end, and at nothing else."""
    lacks_room: bool = False
    """Disks lack room exactly where something has to be undone then. Each place throws at its first call."""
    has_strays: bool = False
    """See `strays`."""
    is_further: bool = False
    """Further clients ask, and more goes wrong for them (`further`)."""


class ExceptionRun:
    """The exceptions of one run. Chance of their own decides them, so that nothing else of the run is drawn by it."""

    def __init__(self, seed: int, exceptions: Exceptions, duration_us: int) -> None:
        self._random = Random(f"exceptions of {seed}")
        self._duration_us = duration_us
        chosen = list(exceptions.named)
        if not chosen:
            count = max(1, duration_us // exceptions.interval_us)
            chosen = self._random.sample(places(), min(count, len(places())))
        self._chosen = chosen
        self._is_tour = len(exceptions.named) > 0
        self._interval_us = exceptions.interval_us
        self._is_poison = exceptions.is_poison
        self._lacks_room = exceptions.lacks_room
        self._shortage: Shortage | None = None
        self._has_strays = exceptions.has_strays
        self._strays: list[Stray | Asker] = []
        self._is_further = exceptions.is_further
        self._is_over = False
        self.poisoners: list[Poisoner] = []
        self._bystanders: Bystanders | None = None
        self.account = Account()
        self.thrower = Thrower({place.site for place in chosen}, self.account)

    def prepare(self, cluster: Cluster, *, has_faults: bool) -> None:
        """Before the cluster starts. `has_faults`: other things go wrong, too."""
        surround(cluster, has_faults=has_faults, is_hasty=self._is_further)
        if self._has_strays:
            self._strays = go_astray(cluster)
            self.thrower.matches = is_of_list

    def begin(self, cluster: Cluster, *, has_faults: bool) -> None:
        """Each place throws at the first call after a time of its own. `has_faults`: other things go wrong, too."""
        self._cluster = cluster
        scheduler = cluster.scheduler
        scheduler.contained = self._contained
        self._hosts = hosts = (*cluster.controllers, *cluster.gateways, *cluster.logstores, *cluster.purgatories)
        self.thrower.begin(scheduler, hosts, stays_armed=self._is_poison)
        if self._is_poison:
            self.thrower.matches = poisoned_by(lambda: cluster.history.ids_of(POISON))
            for place in self._chosen:
                self.thrower.arm(place)
            self.poisoners = [Poisoner(f"{POISON}-{each}", cluster.client_environment) for each in range(CLIENTS)]
            for poisoner in self.poisoners:
                poisoner.start()
        for place in () if self._is_poison else self._chosen:
            delay_us = self._random.randrange(max(1, self._duration_us - 2 * SECOND))
            if self._lacks_room or (self._is_tour and place.site in provoking()):
                delay_us = 0
            scheduler.plan(delay_us, f"{place} is to throw", partial(self.thrower.arm, place))
        cluster.history.may_fail_internally = True
        for topic in (TOPIC, AUDIT_TOPIC, POISON):
            cluster.history.shortened[topic, 0] = None
        pause_us = self._interval_us // QUESTIONS_PER_INTERVAL
        environment = replace(cluster.client_environment, gateways=sasl_addresses(cluster))
        guests = [Guest(f"guest-{each}", environment, pause_us) for each in range(GUESTS)]
        self._askers: list[Client] = [Inquirer("inquirer", cluster.client_environment, pause_us), *guests]
        if self._lacks_room:
            self._shortage = Shortage(cluster, self._random)
            self._shortage.begin()
            self._askers.append(Insister("insister", cluster.client_environment))
            for topic in TOPICS:
                cluster.history.shortened.update({(topic, partition): None for partition in range(PARTITIONS)})
        self._stranger = Stranger(scheduler, cluster.network, cluster.logstores, self._interval_us)
        for client in (*self._askers, self._stranger, *self._strays):
            client.start()
        if self._is_further:
            for guest in guests:
                guest.further = (further.IDEMPOTENT,)
            cluster.history.shortened[further.TOPIC, 0] = None
            until_us = scheduler.now_us + self._duration_us
            self._askers += further.begin(cluster, environment, pause_us, until_us, has_faults=has_faults)
        if not has_faults:
            self._bystanders = Bystanders(cluster)
            self._bystanders.watch(self._hosts)
        self._scrape(cluster)
        for gateway in cluster.gateways:
            for processors in (2, 1):
                at_us = self._random.randrange(self._duration_us)
                changes = partial(gateway.processors_changed, processors)
                scheduler.plan(
                    at_us, f"{gateway.name} has {processors} processors", partial(_do_alive, gateway, changes)
                )
            if has_faults:
                at_us = self._random.randrange(self._duration_us)
                scheduler.plan(at_us, f"{gateway.name} gets SIGTERM", partial(_do_alive, gateway, gateway.terminate))

    @property
    def is_disturbing(self) -> bool:
        """Whether anything has gone wrong so far by this."""
        return bool(self.account.all) or (self._shortage is not None and self._shortage.hits > 0)

    def end(self) -> None:
        """Nothing more is thrown."""
        self.thrower.stop()
        if self._shortage is not None:
            self._shortage.stop()
        self._is_over = True
        for client in (*self._askers, self._stranger, *self.poisoners):
            client.kill()
        for stray in self._strays:
            stray.leave()
        if self._bystanders is None:
            relax(self._cluster)
        if self._is_further:
            further.end(self._cluster)
        for node in self._cluster.logstores:
            if node.alive and node.offline_partitions:
                # They come back with the next start.
                node.kill()
                node.start()

    def _scrape(self, cluster: Cluster) -> None:
        """Read the metrics of every process, again and again."""
        if self._is_over:
            return
        if self._bystanders is not None:
            self._bystanders.look()
        for node in self._hosts:
            if node.alive:
                node.after(0, "is scraped", partial(scrape, node))
        for gateway in cluster.gateways:
            if gateway.alive:
                gateway.after(0, "records an operator's call", partial(gateway.record_operator_call, OPERATOR_CALL))
        for controller in cluster.controllers:
            if controller.alive:
                controller.after(0, "describes the cluster", partial(describe, controller))
        for logstore in cluster.logstores:
            if logstore.alive:
                logstore.after(0, "is asked for its health", partial(self._ask_for_health, cluster, logstore))
        cluster.scheduler.plan(self._interval_us, "metrics are read", partial(self._scrape, cluster))

    def _ask_for_health(self, cluster: Cluster, logstore: LogstoreNode) -> None:
        def tell(conditions: Sequence[Condition]) -> None:
            for each in cluster.controllers:
                if each.alive:
                    each.after(MS, "hears of health", partial(report_health, each, logstore.node_id, conditions))

        ask_for_health(logstore, tell)

    def _contained(self, process: Process, guard: str, scope_name: str, text: str) -> None:
        scope = Scope[scope_name.upper()]
        thrown = self.account.reported(process, guard, scope, text)
        allowed = expected().get(thrown.place)
        is_booting = getattr(process, "core", None) is None
        if allowed is not None and scope not in allowed and not (is_booting and scope is Scope.PROCESS):
            names = ", ".join(each.name.lower() for each in sorted(allowed))
            raise InvariantViolation(f"{thrown} has ended a {scope_name} (at {guard}); radius.tsv allows: {names}")
        if self._bystanders is not None:
            self._bystanders.reported(thrown, scope)


def _do_alive(process: Process, act: Callable[[], None]) -> None:
    """Have a process do this, if it runs."""
    if process.alive:
        process.after(0, "does so", act)
