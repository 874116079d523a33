"""What a process takes from the one before it: rule 12."""

from __future__ import annotations

from barnabas.cluster.keys import Keys, Registration, registration_addresses
from barnabas.ports.etcd import KeyValue, Txn
from barnabas.runtime import takeover
from tests.sim.mutants.planting import Mutants, replace_in

TAKEOVER = Mutants("takeover")

_BLACKOUTS = "tests/sim/test_blackouts.py"


@TAKEOVER.breaks_for("12", f"{_BLACKOUTS}::test_a_living_twin_keeps_its_election")
def a_living_twin_is_taken_for_dead() -> None:
    def addresses_to_probe(old: Registration, new: Registration) -> frozenset[str]:
        return frozenset()

    replace_in(takeover, "addresses_to_probe", addresses_to_probe)


@TAKEOVER.breaks_for("12", f"{_BLACKOUTS}::test_after_a_blackout_no_lease_of_the_dead_is_waited_for[1-1]")
def the_dead_are_waited_for() -> None:
    """Who has their directories and addresses is no proof: what accepts there now may be the old process."""

    def addresses_to_probe(old: Registration, new: Registration) -> frozenset[str]:
        return frozenset(registration_addresses(old).values())

    replace_in(takeover, "addresses_to_probe", addresses_to_probe)


@TAKEOVER.breaks_for("12", "tests/unit/runtime/test_takeover.py::test_the_election_of_another_controller_stays")
def the_election_is_taken_from_its_holder() -> None:
    original = takeover.removal

    def removal(keys: Keys, found: KeyValue, election: KeyValue | None) -> Txn:
        held = election if election is None else KeyValue(election.key, b"", 0, election.mod_revision, found.lease)
        return original(keys, found, held)

    replace_in(takeover, "removal", removal)
