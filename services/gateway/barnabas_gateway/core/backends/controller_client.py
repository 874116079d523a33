"""Calls to the controller, and the wait for the revision that an answer speaks of."""

from __future__ import annotations

from typing import Protocol

from barnabas.cluster.image import ClusterImage
from barnabas_gateway.core.model.outputs import ControllerAnswer, ControllerCall, ControllerRequest
from barnabas_gateway.core.timing.hops import Hop
from barnabas_gateway.core.timing.request_timing import RequestTiming


class ControllerAsker(Protocol):
    @property
    def timing(self) -> RequestTiming | None:
        """Where the request is timed that asks."""

    def controller_answered(self, answer: ControllerAnswer | None) -> None: ...

    def revision_applied(self) -> None: ...


class ControllerClient:
    __slots__ = ("_askers", "_awaiting", "_calls", "_image", "_next_call_id")

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._askers: dict[int, ControllerAsker] = {}
        self._awaiting: dict[ControllerAsker, int] = {}
        """The revision that each waits for."""
        self._next_call_id = 1
        self._calls: list[ControllerCall] = []
        """This turn's."""

    def call(self, asker: ControllerAsker, request: ControllerRequest) -> None:
        call_id = self._next_call_id
        self._next_call_id = call_id + 1
        self._askers[call_id] = asker
        trace = None
        if asker.timing is not None:
            asker.timing.enter(Hop.CONTROLLER)
            trace = asker.timing.trace
        self._calls.append(ControllerCall(call_id, request, trace))

    def call_answered(self, call_id: int, answer: ControllerAnswer | None) -> None:
        asker = self._askers.pop(call_id, None)
        if asker is not None:
            if asker.timing is not None:
                asker.timing.enter(Hop.GATEWAY)
            asker.controller_answered(answer)

    def await_revision(self, asker: ControllerAsker, revision: int) -> None:
        """Call `asker.revision_applied` as soon as the image is there, perhaps now."""
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
            asker.revision_applied()

    def take_calls(self) -> list[ControllerCall]:
        calls = self._calls
        self._calls = []
        return calls

    def forget_asker(self, asker: ControllerAsker) -> None:
        """It no longer waits; the call itself can't be taken back."""
        self._awaiting.pop(asker, None)
        for call_id in [call_id for call_id, each in self._askers.items() if each is asker]:
            del self._askers[call_id]
