"""Turns of loops: rule 29, how much one client may take of them. Time stands still in a turn of the simulation, however
much is done in it: tests count instructions instead."""

from __future__ import annotations

from barnabas_controller.core.requests.request_decisions import Decision
from barnabas_controller.core.requests.request_queue import RequestQueue
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.connections.steps import RequestSteps
from barnabas_logstore.core.coordinator import coordination
from tests.sim.mutants.planting import Mutants, replace_in

TURNS = Mutants("turns")


@TURNS.breaks_for(
    "29", "tests/unit/gateway/test_costly_requests.py::test_no_turn_grows_with_what_a_request_names[OFFSET_COMMIT]"
)
def the_steps_of_a_turn_are_never_used_up() -> None:
    """Each request has its share of steps again and again in the same turn, until it is done."""
    original = RequestSteps._go_on

    def go_on(self: RequestSteps, pending: PendingRequest) -> None:
        left = self._steps_left
        original(self, pending)
        self._steps_left = left

    replace_in(RequestSteps, "_go_on", go_on)


@TURNS.breaks_for("29", "tests/unit/logstore/service/test_costly_calls.py::test_a_step_ends_however_much_waits[commit]")
def calls_to_coordinators_are_counted_and_not_what_they_name() -> None:
    replace_in(coordination, "CALL_BYTES_PER_STEP_MAX", 1 << 40)


@TURNS.breaks_for(
    "29", "tests/unit/controller/test_costly_requests.py::test_a_turn_ends_however_much_waits[create_wide_topics]"
)
def partitions_of_new_topics_cost_the_controller_nothing() -> None:
    original = RequestQueue._decided

    def decided(self: RequestQueue, elements_max: int) -> tuple[int, Decision | None]:
        _, decision = original(self, elements_max)
        return elements_max, decision

    replace_in(RequestQueue, "_decided", decided)
