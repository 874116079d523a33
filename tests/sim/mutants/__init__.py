"""Faults of our own, one rule broken by each: a harness that does not see them sees nothing (`make mutants`)."""

from __future__ import annotations

from tests.sim.mutants.containment import CONTAINMENT
from tests.sim.mutants.control import CONTROL
from tests.sim.mutants.controller import CONTROLLER
from tests.sim.mutants.drains import DRAINS
from tests.sim.mutants.epochs import EPOCHS
from tests.sim.mutants.gateway import GATEWAY
from tests.sim.mutants.groups import GROUPS
from tests.sim.mutants.in_sync import IN_SYNC
from tests.sim.mutants.markers import MARKERS
from tests.sim.mutants.moving import MOVING
from tests.sim.mutants.planting import Mutant
from tests.sim.mutants.purgatory import PURGATORY
from tests.sim.mutants.replication import REPLICATION
from tests.sim.mutants.rivals import RIVALS
from tests.sim.mutants.storage import STORAGE
from tests.sim.mutants.stored import STORED
from tests.sim.mutants.takeover import TAKEOVER
from tests.sim.mutants.transactions import TRANSACTIONS
from tests.sim.mutants.turns import TURNS

AREAS = (
    PURGATORY,
    GATEWAY,
    MOVING,
    STORAGE,
    REPLICATION,
    IN_SYNC,
    CONTROL,
    CONTROLLER,
    TAKEOVER,
    TURNS,
    DRAINS,
    GROUPS,
    STORED,
    TRANSACTIONS,
    EPOCHS,
    MARKERS,
    RIVALS,
    CONTAINMENT,
)
MUTANTS: dict[str, Mutant] = {mutant.name: mutant for area in AREAS for mutant in area.all}
