"""Which logstores may lead: those that are registered, not about to stop, and not suspected of having lost records.

A logstore whose last stop may have cost it records (`may_lack_records`, correctness rule 15) says so when it registers
again. Until its partitions have been looked through it counts as gone, so that the elections take it out of every ISR
in which another member knows more; then its member record gets the epoch of the registration, which ends the suspicion.
This order ensures that a controller which takes over in between looks through them again.

A logstore that operators drain leads nothing that another member can lead (`drains.py`).

A log directory that fails makes single replicas unavailable, and one that is full keeps them from leading. The
logstore's answers to LeaderAndIsr say which (`ControlLinks.without_disk`, `ControlLinks.without_room`).
"""

from __future__ import annotations

from barnabas.cluster.keys import MemberRecord, Role, registration_addresses
from barnabas_controller.core.members.control_links import ControlLinks
from barnabas_controller.core.members.known_members import suspects
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.partition_changes import Liveness
from barnabas_controller.core.state.unknown_state import knows_all_partitions
from barnabas_controller.core.state.writes import Write, put


class LogstoreLiveness:
    def __init__(self, image: ControllerImage, links: ControlLinks) -> None:
        self._image = image
        self._links = links
        # By node: the registration that is about to end.
        self._stopping: dict[int, int] = {}

    def stop(self, node_id: int, broker_epoch: int) -> None:
        """Exclude the node from elections from now on, until it registers again."""
        self._stopping[node_id] = broker_epoch

    def forget_stops(self) -> None:
        self._stopping.clear()

    def current(self) -> Liveness:
        registered = self._image.logstores
        stopping = [
            node_id
            for node_id, broker_epoch in self._stopping.items()
            if node_id in registered and registered[node_id].epoch == broker_epoch
        ]
        return Liveness(
            {node_id: each.epoch for node_id, each in registered.items()},
            frozenset(stopping),
            suspects(self._image),
            self._links.without_disk,
            self._links.without_room,
            frozenset(self._image.drains),
            unaware=self._links.unaware(),
        )

    def end_suspicion(self) -> list[Write]:
        """Called when elections have nothing to do: end the suspicion of logstores whose partitions have been looked
        through.

        End none while some partitions can't be looked through: the logstore may be in the ISR of a partition that is
        unknown.
        """
        image = self._image
        writes = list[Write]()
        suspect = suspects(self._image)
        if not suspect or not knows_all_partitions(image):
            return writes
        for node_id in sorted(suspect):
            registered = image.logstores[node_id]
            record = MemberRecord(
                Role.LOGSTORE, str(node_id), registration_addresses(registered.record), broker_epoch=registered.epoch
            )
            writes.append(put(image.keys.member(Role.LOGSTORE, str(node_id)), record))
        return writes
