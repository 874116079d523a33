"""Where the controller's shell catches unexpected exceptions, and what each of them ends."""

from __future__ import annotations

from typing import Final

from barnabas.containment import Place, Scope

EFFECT: Final = Place(
    "controller.effect", Scope.PROCESS, "a Txn, the end of a lease or of a stream: what the core has decided"
)
READINESS: Final = Place("controller.readiness", Scope.PROCESS, "the health of the listeners")
PROBE: Final = Place("controller.probe", Scope.DUTY, "whether a logstore that was lost refuses connections")
AUDIT: Final = Place("controller.audit", Scope.DUTY, "handing over records of the audit, which are dropped")
PACKING: Final = Place("controller.packing", Scope.STREAM, "a large metadata update, packed once for all streams")

PLACES: Final = (EFFECT, READINESS, PROBE, AUDIT, PACKING)
