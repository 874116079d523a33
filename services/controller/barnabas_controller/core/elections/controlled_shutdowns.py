"""ControlledShutdown: a logstore that is about to stop asks for other leaders for its partitions.

From then on it is not a candidate: the elections take it out of every ISR that has another member, and a partition of
which it is the last member waits, leaderless, for its return. The answer, which is how many partitions it still leads,
is given when the elections have nothing more to do.
"""

from __future__ import annotations

from barnabas.cluster.controller_calls.table import CONTROLLED_SHUTDOWN
from barnabas.cluster.messages import ControlledShutdownRequest, ControlledShutdownResponse
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.members.liveness import LogstoreLiveness
from barnabas_controller.core.state.effects import Effect, Reject, Respond
from barnabas_controller.core.state.image import ControllerImage


class ControlledShutdowns:
    def __init__(self, image: ControllerImage, liveness: LogstoreLiveness) -> None:
        self._image = image
        self._liveness = liveness
        # By request id: the request and its deadline.
        self._waiting: dict[int, tuple[ControlledShutdownRequest, int]] = {}

    def enqueue(self, request_id: int, request: ControlledShutdownRequest, now_ms: int) -> list[Effect]:
        """Add a request; all partitions have to be looked at then."""
        if not self._is_registered(request):
            return [Respond(request_id, ControlledShutdownResponse(ErrorCode.STALE_BROKER_EPOCH))]
        self._liveness.stop(request.broker_id, request.broker_epoch)
        self._waiting[request_id] = (request, now_ms + CONTROLLED_SHUTDOWN.timeout_ms)
        return []

    def answers(self, now_ms: int, *, elections_are_done: bool) -> list[Effect]:
        effects: list[Effect] = []
        for request_id, (request, deadline_ms) in list(self._waiting.items()):
            if not self._is_registered(request):
                response = ControlledShutdownResponse(ErrorCode.STALE_BROKER_EPOCH)
            elif elections_are_done:
                response = ControlledShutdownResponse(ErrorCode.NONE, self._led_by(request.broker_id))
            elif now_ms >= deadline_ms:
                response = ControlledShutdownResponse(ErrorCode.REQUEST_TIMED_OUT, self._led_by(request.broker_id))
            else:
                continue
            del self._waiting[request_id]
            effects.append(Respond(request_id, response))
        return effects

    def abandon(self) -> list[Effect]:
        """The node has to ask another controller, which is not known yet."""
        effects: list[Effect] = [Reject(request_id, untouched=False) for request_id in self._waiting]
        self._waiting.clear()
        return effects

    def due_ms(self) -> int | None:
        return min([deadline_ms for _, deadline_ms in self._waiting.values()], default=None)

    def _is_registered(self, request: ControlledShutdownRequest) -> bool:
        registered = self._image.logstores.get(request.broker_id)
        return registered is not None and registered.epoch == request.broker_epoch

    def _led_by(self, node_id: int) -> int:
        image = self._image
        return sum(
            partition.leader == node_id
            for topic_id in image.topics_by_id
            for _, partition in image.partitions(topic_id)
        )
