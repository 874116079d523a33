"""UpdateFeatures: which levels may be finalized, and the write that does it (KIP-584, KIP-1022).

Rules and messages are those of Kafka's FeatureControlManager. Every member of a release with features supports the same
levels as this controller, so that none has to be asked.
"""

from __future__ import annotations

from typing import Final

from barnabas.cluster.features import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    finalized_features,
    refusal,
    support_problem,
)
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.writes import Write, put

_UPGRADE_TYPES: Final = frozenset((UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE))


def update_features(
    image: ControllerImage, request: UpdateFeaturesRequest, known_revision: int
) -> tuple[UpdateFeaturesResponse, list[Write]]:
    """Return the answer, and the write; none if nothing changes or it is only to be validated."""
    before = image.finalized_features
    levels = before.levels()
    updates = {each.feature: each for each in request.updates}
    for update in updates.values():
        problem = _problem(update, before.level(update.feature))
        if problem:
            error = ErrorCode.INVALID_UPDATE_VERSION
            return UpdateFeaturesResponse(error, refusal(update, problem), known_revision), []
        levels[update.feature] = update.level
    done = UpdateFeaturesResponse(ErrorCode.NONE, "", known_revision)
    after = finalized_features(before.epoch + 1, levels)
    key = image.keys.finalized_features
    if request.validate_only or (after.levels() == before.levels() and key not in image.unreadable):
        return done, []
    return done, [put(key, after)]


def _problem(update: FeatureUpdate, level: int) -> str:
    if update.upgrade_type not in _UPGRADE_TYPES:
        return "The controller does not support the given upgrade type."
    problem = support_problem(update)
    if problem:
        return problem
    if update.level < level and update.upgrade_type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    return "Can't downgrade to a newer version." if update.level > level and update.upgrade_type != UPGRADE else ""
