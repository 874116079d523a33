"""Features of the cluster: UpdateFeatures finalizes their levels, ApiVersions reports them (KIP-584, KIP-1022).

`transaction.version` says which transactions clients use: from 2 on each has a producer epoch of its own (KIP-890). A
cluster that is new begins with the levels of `NEW_CLUSTER_LEVELS`, one that existed before it had features with none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from barnabas.cluster.json_values import UnreadableValue

TRANSACTION_VERSION: Final = "transaction.version"
SUPPORTED_FEATURES: Final = {TRANSACTION_VERSION: (0, 2)}
"""The lowest and the highest level of each; every release that serves transactions has all of them."""
NEW_CLUSTER_LEVELS: Final = {TRANSACTION_VERSION: 2}


@dataclass(slots=True, frozen=True)
class FinalizedFeature:
    feature: str
    level: int


@dataclass(slots=True, frozen=True)
class FinalizedFeatures:
    """All features with a level above 0: what etcd has, and what members are sent. `epoch` grows with each change, and
    is 0 until there is one: clients keep the levels of the highest epoch that they have seen.
    """

    epoch: int = 0
    features: list[FinalizedFeature] = field(default_factory=list)

    def levels(self) -> dict[str, int]:
        return {each.feature: each.level for each in self.features}

    def level(self, feature: str) -> int:
        return self.levels().get(feature, 0)

    def to_json(self) -> dict[str, Any]:
        """Return the record's fields in etcd."""
        return {"epoch": self.epoch, "levels": self.levels()}


def finalized_features(epoch: int, levels: dict[str, int]) -> FinalizedFeatures:
    return FinalizedFeatures(epoch, [FinalizedFeature(*each) for each in sorted(levels.items()) if each[1]])


def finalized_features_from_json(values: dict[str, Any]) -> FinalizedFeatures:
    """Raises UnreadableValue, or an error of a value that has another type."""
    epoch, levels = msgspec.convert(values["epoch"], int), msgspec.convert(values["levels"], dict[str, int])
    if not 0 <= epoch < 2**63 or not all(0 <= level < 2**15 for level in levels.values()):
        raise UnreadableValue("an epoch or a level is out of range")
    return finalized_features(epoch, levels)


UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3


@dataclass(slots=True, frozen=True)
class FeatureUpdate:
    """`upgrade_type` may be an unknown one. Level 0 removes the feature."""

    feature: str
    level: int
    upgrade_type: int


@dataclass(slots=True, frozen=True)
class UpdateFeaturesRequest:
    """All updates are done, or none."""

    updates: list[FeatureUpdate]
    timeout_ms: int
    validate_only: bool = False


@dataclass(slots=True, frozen=True)
class UpdateFeaturesResponse:
    error_code: int
    error_message: str
    revision: int


def support_problem(update: FeatureUpdate) -> str:
    """Return why no member of the cluster has this level of the feature; empty: all have it."""
    supported = SUPPORTED_FEATURES.get(update.feature)
    if supported is None:
        return "The controller does not support this feature."
    first, last = supported
    if update.level < 0:
        return "A feature version cannot be less than 0."
    return "" if first <= update.level <= last else f"The controller only supports versions {first}-{last}"


def refusal(update: FeatureUpdate, problem: str) -> str:
    """Return the message of the answer to a request with this update, as Kafka has it."""
    of_feature = f"Invalid update version {update.level} for feature {update.feature}. {problem}"
    return f"The update failed for all features since the following feature had an error: {of_feature}"
