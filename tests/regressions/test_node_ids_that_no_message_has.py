"""A node id above 2³¹ - 1 in a registration, or in a broker's configs in etcd: no message to the members could have it.

The controller that published it ended, and so did each after it, until the key was deleted by hand. With users in etcd
a logstore's key, stolen, can register any member of its role.
"""

from __future__ import annotations

import pytest

from barnabas.cluster.keys import (
    BrokerConfigsRecord,
    Keys,
    LogstoreRegistration,
    Role,
    encode_record,
    encode_registration,
)
from barnabas.cluster.messages import ALL_BROKERS
from barnabas.ports.etcd import KeyValue, WatchBatch, WatchEvent
from barnabas_controller.core.members.metadata import full_update
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.shell.packing import Packer

KEYS = Keys()


def registered(node_id: int) -> tuple[str, bytes]:
    registration = LogstoreRegistration(node_id, "incarnation", "directory", "host:1", "host:2")
    return KEYS.registration(Role.LOGSTORE, str(node_id)), encode_registration(registration)


def configured(broker_id: int) -> tuple[str, bytes]:
    return KEYS.broker_configs(broker_id), encode_record(BrokerConfigsRecord(broker_id, {}))


def image_with(key: str, value: bytes) -> ControllerImage:
    image = ControllerImage(KEYS)
    image.apply(WatchBatch(1, (WatchEvent(KeyValue(key, value, 1, 1)),)))
    return image


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *map(registered, (-1, 2**31, 2**40, 2**63, 2**70)),
        *map(configured, (-2, 2**31, 2**63)),
        (KEYS.broker_configs_directory + "9" * 5_000, b"{}"),
        (KEYS.broker_configs(7), b"{}"),
    ],
)
def test_it_is_unreadable_and_the_others_are_published(key: str, value: bytes) -> None:
    image = image_with(key, value)
    assert list(image.unreadable) == [key]
    assert Packer().subscribe_response(full_update(image, 1))


@pytest.mark.parametrize(
    ("key", "value"), [registered(0), registered(2**31 - 1), configured(ALL_BROKERS), configured(2**31 - 1)]
)
def test_those_that_exist_are_read(key: str, value: bytes) -> None:
    image = image_with(key, value)
    assert image.unreadable == {}
    assert Packer().subscribe_response(full_update(image, 1))
