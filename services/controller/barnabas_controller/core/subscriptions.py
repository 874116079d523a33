"""Who follows the metadata, and how far each has come."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.cluster.keys import Role


@dataclass(slots=True)
class Subscriber:
    role: Role
    pod_id: str
    # The revision that every processor of the pod answers by.
    applied_revision: int = -1


class Subscriptions:
    """The open subscriptions, by the id that the shell gave each."""

    def __init__(self) -> None:
        self.by_id: dict[int, Subscriber] = {}
        self.published_revision = -1
        """Of the last change that is told to members; later ones, a gateway's registration say, are none of theirs."""

    def gateways_know(self, revision: int) -> bool:
        """Every gateway that follows answers by `revision`; one that does not follow calls itself unready."""
        return all(each.applied_revision >= revision for each in self.by_id.values() if each.role is Role.GATEWAY)

    def follows(self, role: Role, pod_id: str) -> bool:
        return any(each.role is role and each.pod_id == pod_id for each in self.by_id.values())
