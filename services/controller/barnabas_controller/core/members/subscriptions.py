"""Subscribers of the metadata, and how far each has come."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.cluster.keys import Role
from barnabas.cluster.messages import UpdateMetadata
from barnabas_controller.core.members.metadata import without_gateways_own
from barnabas_controller.core.state.effects import PublishMetadata


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

    def publications(self, update: UpdateMetadata) -> list[PublishMetadata]:
        """Return what sends an update to all subscribers: keys of users go to gateways alone."""
        return self._publications(update, self.by_id)

    def first_publication(self, update: UpdateMetadata, subscriber_id: int) -> list[PublishMetadata]:
        """Return what sends the full update to a new subscriber."""
        return self._publications(update, [subscriber_id])

    def _publications(self, update: UpdateMetadata, subscriber_ids: Iterable[int]) -> list[PublishMetadata]:
        gateways = frozenset(each for each in subscriber_ids if self.by_id[each].role is Role.GATEWAY)
        others = frozenset(subscriber_ids) - gateways
        without = without_gateways_own(update)
        if without is update:
            everyone = gateways | others
            return [PublishMetadata(update, everyone)] if everyone else []
        published = [(without, others), (update, gateways)]
        return [PublishMetadata(each, to) for each, to in published if to]

    def gateways_know(self, revision: int) -> bool:
        """Whether every subscribed gateway has reached `revision`; a gateway without a subscription reports itself
        unready.
        """
        return all(each.applied_revision >= revision for each in self.by_id.values() if each.role is Role.GATEWAY)

    def follows(self, role: Role, pod_id: str) -> bool:
        return any(each.role is role and each.pod_id == pod_id for each in self.by_id.values())
