"""UpdateFeatures at the controller: what may be finalized, where it is kept, and who is sent it."""

from __future__ import annotations

import pytest

from barnabas.cluster.features import (
    SAFE_DOWNGRADE,
    TRANSACTION_VERSION,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
    FinalizedFeatures,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    finalized_features,
)
from barnabas.cluster.keys import Role, decode_record, encode_record
from barnabas.ports.etcd import Delete, Get, Put, Txn
from barnabas.wire.errors import ErrorCode
from tests.unit.controller.cluster import KEYS, Cluster, ControllerNode

KEY = KEYS.finalized_features


class Scene:
    def __init__(self) -> None:
        self.cluster = Cluster()
        self.controller: ControllerNode = self.cluster.controller("controller-0")
        self.cluster.logstore(1)
        self.cluster.settle()
        self.gateway = self.controller.subscribers[self.cluster.gateway(self.controller)]
        self.cluster.settle()

    def update(
        self,
        level: int,
        upgrade_type: int = UPGRADE,
        feature: str = TRANSACTION_VERSION,
        *,
        validate_only: bool = False,
    ) -> UpdateFeaturesResponse:
        update = FeatureUpdate(feature, level, upgrade_type)
        request_id = self.controller.request(UpdateFeaturesRequest([update], 5000, validate_only))
        self.cluster.settle()
        response = self.controller.responses[request_id]
        assert isinstance(response, UpdateFeaturesResponse)
        assert self.gateway.revision >= response.revision
        return response

    @property
    def kept(self) -> FinalizedFeatures | None:
        for found in self.cluster.etcd.get(Get(KEY)):
            record = decode_record(KEYS, found.key, found.value)
            assert isinstance(record, FinalizedFeatures)
            return record
        return None

    def write(self, value: bytes | None) -> None:
        self.cluster.etcd.txn(Txn((), (Delete(KEY) if value is None else Put(KEY, value),)))
        self.cluster.settle()


def test_a_new_cluster_begins_with_version_2_for_every_member() -> None:
    scene = Scene()
    assert scene.kept == finalized_features(1, {TRANSACTION_VERSION: 2})
    assert scene.gateway.finalized_features == scene.kept
    purgatory = scene.controller.subscribers[scene.controller.subscribe(Role.PURGATORY, "purgatory-0")]
    scene.cluster.settle()
    assert purgatory.finalized_features == scene.kept


def test_a_cluster_that_exists_keeps_level_0_until_it_is_raised() -> None:
    scene = Scene()
    scene.write(None)
    scene.cluster.controller("controller-1")
    scene.cluster.settle()
    assert scene.kept is None
    assert scene.gateway.finalized_features == FinalizedFeatures()
    assert scene.update(2).error_code == ErrorCode.NONE
    assert scene.kept == scene.gateway.finalized_features == finalized_features(1, {TRANSACTION_VERSION: 2})


def test_a_level_is_lowered_and_raised_and_each_change_has_a_later_epoch() -> None:
    scene = Scene()
    assert scene.update(0, SAFE_DOWNGRADE) == UpdateFeaturesResponse(0, "", scene.gateway.revision)
    assert scene.kept == scene.gateway.finalized_features == FinalizedFeatures(2)
    assert scene.update(1).error_code == ErrorCode.NONE
    assert scene.update(1).error_code == ErrorCode.NONE
    assert scene.kept == scene.gateway.finalized_features == finalized_features(3, {TRANSACTION_VERSION: 1})
    assert scene.update(0, UNSAFE_DOWNGRADE).error_code == ErrorCode.NONE
    assert scene.gateway.finalized_features.epoch == 4


def test_what_is_only_validated_changes_nothing() -> None:
    scene = Scene()
    assert scene.update(1, SAFE_DOWNGRADE, validate_only=True).error_code == ErrorCode.NONE
    assert scene.update(1, validate_only=True).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert scene.gateway.finalized_features == scene.kept == finalized_features(1, {TRANSACTION_VERSION: 2})


@pytest.mark.parametrize(
    ("level", "upgrade_type", "feature", "problem"),
    [
        (1, UPGRADE, TRANSACTION_VERSION, "Can't downgrade the version of this feature without setting the upgrade"),
        (3, UPGRADE, TRANSACTION_VERSION, "The controller only supports versions 0-2"),
        (-1, SAFE_DOWNGRADE, TRANSACTION_VERSION, "A feature version cannot be less than 0."),
        (2, 4, TRANSACTION_VERSION, "The controller does not support the given upgrade type."),
        (1, UPGRADE, "group.version", "The controller does not support this feature."),
        (0, SAFE_DOWNGRADE, "metadata.version", "The controller does not support this feature."),
    ],
)
def test_what_is_refused(level: int, upgrade_type: int, feature: str, problem: str) -> None:
    scene = Scene()
    refused = scene.update(level, upgrade_type, feature)
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    of_feature = f"Invalid update version {level} for feature {feature}. {problem}"
    whole = f"The update failed for all features since the following feature had an error: {of_feature}"
    assert refused.error_message.startswith(whole)
    assert scene.kept == finalized_features(1, {TRANSACTION_VERSION: 2})


def test_a_downgrade_to_a_newer_version_is_refused() -> None:
    scene = Scene()
    scene.update(0, SAFE_DOWNGRADE)
    refused = scene.update(1, SAFE_DOWNGRADE)
    assert refused.error_message.endswith("Can't downgrade to a newer version.")


@pytest.mark.parametrize(
    "value", [b"{}", b'{"epoch":-1,"levels":{}}', b'{"epoch":1,"levels":{"a":-1}}', b'{"epoch":1}']
)
def test_a_record_that_is_unreadable_means_level_0_until_it_is_written_again(value: bytes) -> None:
    scene = Scene()
    scene.write(value)
    assert scene.controller.core.image.unreadable.keys() == {KEY}
    assert scene.gateway.finalized_features == FinalizedFeatures()
    assert scene.update(2).error_code == ErrorCode.NONE
    assert scene.gateway.finalized_features.levels() == {TRANSACTION_VERSION: 2}


def test_a_record_is_read_as_it_was_written() -> None:
    record = finalized_features(7, {TRANSACTION_VERSION: 1, "of a later release": 3})
    assert encode_record(record) == b'{"epoch":7,"levels":{"of a later release":3,"transaction.version":1}}'
    assert decode_record(KEYS, KEY, encode_record(record)) == record
