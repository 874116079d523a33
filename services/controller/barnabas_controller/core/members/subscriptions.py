"""Subscribers of the metadata, and how far each has come."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.cluster.keys import Role


@dataclass(slots=True)
class Subscriber:
    role: Role
    pod_id: str
    # The revision that every processor of the pod has reached.
    applied_revision: int = -1


class Subscriptions:
    """The open subscriptions, by the id that the shell gave each."""

    def __init__(self) -> None:
        self.by_id: dict[int, Subscriber] = {}
        self.published_revision = -1
        """The revision of the last change that is sent to members; later ones, such as a gateway's registration, don't
        concern them.
        """

    def gateways_know(self, revision: int) -> bool:
        """Whether every subscribed gateway has reached `revision`; a gateway without a subscription reports itself
        unready.
        """
        return all(each.applied_revision >= revision for each in self.by_id.values() if each.role is Role.GATEWAY)

    def follows(self, role: Role, pod_id: str) -> bool:
        return any(each.role is role and each.pod_id == pod_id for each in self.by_id.values())
