"""Who may do what by the operators' API: a role for each caller, the least role for each method.

A viewer reads what the cluster is and does. An operator moves leaders and replicas, which clients notice little. An
admin also changes what is kept: topics, configs, and which nodes there are. A method that the table does not name is
refused to all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import Final

_SERVICE: Final = "/barnabas.controller.v1.Operations/"


class OperatorRole(IntEnum):
    """A role may do what the ones before it may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


_METHODS_BY_ROLE: Final[Mapping[OperatorRole, tuple[str, ...]]] = {
    OperatorRole.VIEWER: (
        "DescribeCluster",
        "ListNodes",
        "ListTopics",
        "DescribeTopic",
        "ListPartitions",
        "ListGroups",
        "DescribeGroup",
        "ListReassignments",
        "DescribeControllerHistory",
        "DescribeConfigs",
        "ListDrains",
        "WatchEvents",
    ),
    OperatorRole.OPERATOR: (
        "RunElection",
        "Reassign",
        "CancelReassignments",
        "RemoveThrottles",
        "DrainNode",
        "ReturnNode",
        "PauseBalance",
        "ResumeBalance",
    ),
    OperatorRole.ADMIN: (
        "CreateTopic",
        "DeleteTopic",
        "AlterTopic",
        "AlterBrokerConfigs",
        "RemoveNode",
    ),
}

LEAST_ROLE_BY_METHOD: Final[Mapping[str, OperatorRole]] = {
    **{_SERVICE + name: role for role, names in _METHODS_BY_ROLE.items() for name in names},
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": OperatorRole.VIEWER,
}
"""The least role that may call each method, by its whole path."""


def highest_role(names: Collection[str], names_by_role: Mapping[OperatorRole, Collection[str]]) -> OperatorRole | None:
    """Return the highest role that a caller has by one of its names; None: it has none."""
    held = [role for role, holders in names_by_role.items() if not set(names).isdisjoint(holders)]
    return max(held, default=None)


def may_operate(role: OperatorRole | None, method: str) -> bool:
    """Return whether the role may call the method of that path."""
    least = LEAST_ROLE_BY_METHOD.get(method)
    return role is not None and least is not None and role >= least
