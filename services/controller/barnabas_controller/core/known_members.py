"""Who once was a member: so that a dead one is named, and not just missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from barnabas.cluster.keys import MemberRecord, Role, registration_addresses
from barnabas_controller.core.image import ControllerImage
from barnabas_controller.core.writes import Write, put

# Stateless pods may come back under another name. A logstore's data waits for it: it is remembered until removed.
FORGET_MS: Final = 3_600_000


def registered_members(image: ControllerImage) -> Iterator[tuple[Role, str, dict[str, str], int]]:
    """Role, id, addresses and epoch of everybody registered."""
    for node_id, logstore in sorted(image.logstores.items()):
        yield Role.LOGSTORE, str(node_id), registration_addresses(logstore.record), logstore.epoch
    for gateway_id, gateway in sorted(image.gateways.items()):
        yield Role.GATEWAY, gateway_id, registration_addresses(gateway.record), gateway.epoch
    for pod_id, purgatory in sorted(image.purgatories.items()):
        yield Role.PURGATORY, pod_id, registration_addresses(purgatory.record), purgatory.epoch
    for controller_id, controller in sorted(image.controllers.items()):
        yield Role.CONTROLLER, controller_id, registration_addresses(controller.record), controller.epoch


def suspects(image: ControllerImage) -> frozenset[int]:
    """Logstores that may lack records (correctness rule 15) and whose partitions have not been looked through since
    they registered.
    """
    return frozenset(
        [
            node_id
            for node_id, each in image.logstores.items()
            if each.record.may_lack_records and _looked_through_epoch(image, node_id) != each.epoch
        ]
    )


def _looked_through_epoch(image: ControllerImage, node_id: int) -> int:
    member = image.members.get((Role.LOGSTORE, str(node_id)))
    return 0 if member is None else member.broker_epoch


def note_members(image: ControllerImage, wall_ms: int) -> list[Write]:
    """Records that differ from what is registered now; those of stateless pods long gone are removed.

    No suspicion ends by this: that is the liveness' to decide.
    """
    writes: list[Write] = []
    alive: set[tuple[Role, str]] = set()
    suspect = suspects(image)
    for role, member_id, addresses, epoch in registered_members(image):
        alive.add((role, member_id))
        before = image.members.get((role, member_id))
        is_looked_through = role is Role.LOGSTORE and int(member_id) not in suspect
        broker_epoch = epoch if is_looked_through else 0 if before is None else before.broker_epoch
        record = MemberRecord(role, member_id, addresses, broker_epoch=broker_epoch)
        if before != record:
            writes.append(put(image.keys.member(role, member_id), record))
    for (role, member_id), record in image.members.items():
        if (role, member_id) in alive:
            continue
        key = image.keys.member(role, member_id)
        if record.down_since_ms == 0:
            writes.append(put(key, replace(record, down_since_ms=wall_ms)))
        elif role is not Role.LOGSTORE and wall_ms - record.down_since_ms > FORGET_MS:
            writes.append(Write(key, None))
    return writes
