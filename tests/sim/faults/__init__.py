"""What goes wrong in the simulation: the kinds, and who makes them happen."""

from __future__ import annotations

from tests.sim.faults.kinds import Fault
from tests.sim.faults.swarm import Faults

__all__ = ["Fault", "Faults"]
