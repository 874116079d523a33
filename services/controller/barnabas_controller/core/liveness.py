"""Who of the logstores may lead: registered, not about to stop, and not under suspicion of having lost records.

A logstore whose last stop may have cost it records (`may_lack_records`, correctness rule 15) says so when it registers
again. Until its partitions have been looked through it counts as gone, so that the elections take it out of every ISR
in which somebody else knows more; then its member record is given the epoch of the registration, which ends the
suspicion. In that order, so that whoever takes over in between looks through them again.

A logstore that operators drain leads nothing that another can lead (`drains.py`).

A log directory that fails takes single replicas along, and one that is full keeps them from leading. Which ones, the
logstore's answers to LeaderAndIsr say (`ControlLinks.without_disk`, `ControlLinks.without_room`).
"""

from __future__ import annotations

from barnabas.cluster.keys import MemberRecord, Role, registration_addresses
from barnabas_controller.core.control_links import ControlLinks
from barnabas_controller.core.image import ControllerImage
from barnabas_controller.core.known_members import suspects
from barnabas_controller.core.partition_changes import Liveness
from barnabas_controller.core.unknown_state import knows_all_partitions
from barnabas_controller.core.writes import Write, put


class LogstoreLiveness:
    def __init__(self, image: ControllerImage, links: ControlLinks) -> None:
        self._image = image
        self._links = links
        # By node: the registration that is about to end.
        self._stopping: dict[int, int] = {}

    def stop(self, node_id: int, broker_epoch: int) -> None:
        """From now on, until another registration of the node, it is no candidate."""
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
        """Once elections have nothing to do: for those whose partitions have been looked through by that.

        For nobody while some can't be looked through: one may be in the ISR of a partition that is unknown.
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
