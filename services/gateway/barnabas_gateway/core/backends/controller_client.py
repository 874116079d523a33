"""Calls to the controller, and the wait for the revision that an answer names."""

from __future__ import annotations

from typing import Protocol

from barnabas.cluster.image import ClusterImage
from barnabas_gateway.core.model.containment import end_by
from barnabas_gateway.core.model.outputs import ControllerAnswer, ControllerCall, ControllerRequest, Turn
from barnabas_gateway.core.timing.hops import Hop
from barnabas_gateway.core.timing.request_timing import RequestTiming


class ControllerAsker(Protocol):
    @property
    def timing(self) -> RequestTiming | None:
        """The timing of the request that makes the call."""

    def controller_answered(self, answer: ControllerAnswer | None) -> None: ...

    def revision_applied(self) -> None: ...

    def failed(self, error: Exception) -> None: ...


class ControllerClient:
    __slots__ = ("_askers", "_awaiting", "_image", "_next_call_id", "_turn")

    def __init__(self, image: ClusterImage, turn: Turn) -> None:
        self._image = image
        self._turn = turn
        self._askers: dict[int, ControllerAsker] = {}
        self._awaiting: dict[ControllerAsker, int] = {}
        """The revision that each waits for."""
        self._next_call_id = 1

    def call_controller(self, asker: ControllerAsker, request: ControllerRequest) -> None:
        call_id = self._next_call_id
        self._next_call_id = call_id + 1
        self._askers[call_id] = asker
        trace = None
        if asker.timing is not None:
            asker.timing.enter(Hop.CONTROLLER)
            trace = asker.timing.trace
        self._turn.rare.controller_calls.append(ControllerCall(call_id, request, trace))

    def call_answered(self, call_id: int, answer: ControllerAnswer | None) -> None:
        asker = self._askers.pop(call_id, None)
        if asker is not None:
            if asker.timing is not None:
                asker.timing.enter(Hop.GATEWAY)
            try:
                asker.controller_answered(answer)
            except Exception as error:
                end_by(asker, error)

    def await_revision(self, asker: ControllerAsker, revision: int) -> None:
        """Call `asker.revision_applied` once the image has the revision, perhaps immediately."""
        if self._image.revision >= revision:
            asker.revision_applied()
        else:
            if asker.timing is not None:
                asker.timing.enter(Hop.CONTROLLER)
            self._awaiting[asker] = revision

    def image_updated(self) -> None:
        revision = self._image.revision
        ready = [asker for asker, awaited in self._awaiting.items() if awaited <= revision]
        for asker in ready:
            del self._awaiting[asker]
            if asker.timing is not None:
                asker.timing.enter(Hop.GATEWAY)
            try:
                asker.revision_applied()
            except Exception as error:
                end_by(asker, error)

    def forget_asker(self, asker: ControllerAsker) -> None:
        """The asker does not wait any more; the call itself can't be cancelled."""
        self._awaiting.pop(asker, None)
        for call_id in [call_id for call_id, each in self._askers.items() if each is asker]:
            del self._askers[call_id]
