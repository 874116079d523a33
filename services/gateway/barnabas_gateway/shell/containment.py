"""Where the shells of acceptor and processors catch unexpected exceptions, and what each of them ends."""

from __future__ import annotations

from typing import Final

from barnabas.containment import Place, Scope

KEYS: Final = Place("gateway.keys", Scope.DUTY, "reading the keys of access tokens again; those that are known stay")
CERTIFICATES: Final = Place(
    "gateway.certificates", Scope.DUTY, "reading a listener's certificates again; those in use stay"
)
CONTROLLER_CALL: Final = Place(
    "gateway.controller_call", Scope.REQUEST, "a processor's request to the controller, by the acceptor"
)
LOGSTORE_CALL: Final = Place("gateway.logstore_call", Scope.REQUEST, "an administrative call to a logstore")
METADATA: Final = Place("gateway.metadata", Scope.PROCESS, "a metadata update that is applied over several turns")
WORKER: Final = Place(
    "gateway.worker", Scope.PROCESS, "a thread for conversions, tokens or patterns, apart from the work itself"
)

PLACES: Final = (KEYS, CERTIFICATES, CONTROLLER_CALL, LOGSTORE_CALL, METADATA, WORKER)
