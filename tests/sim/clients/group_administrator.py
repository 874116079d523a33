"""An administrator of groups: commits, reads and deletes offsets of a group without members, deletes that group, and
looks at the groups that have members. One request at a time; it need not be repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request, Response
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.wire.messages.offset_commit import OffsetCommitResponse
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from barnabas.wire.messages.offset_fetch import OffsetFetchResponse
from tests.sim.clients import committed_offsets
from tests.sim.clients.client import UNKNOWN_TOPIC, Client, ClientEnvironment
from tests.sim.groups.assignments import TopicPartition
from tests.sim.groups.errors import NO_COORDINATOR
from tests.sim.groups.history import GroupHistory
from tests.sim.groups.log import Commit
from tests.sim.scheduler import InvariantViolation

GROUP_ID = "without-members"
COMMIT_VERSION, FETCH_VERSION, DELETE_VERSION, DELETE_GROUPS_VERSION, DESCRIBE_VERSION, LIST_VERSION = 8, 8, 0, 2, 5, 5

R = TypeVar("R", bound=Response)


class GroupAdministrator(Client):
    def __init__(
        self,
        name: str,
        environment: ClientEnvironment,
        topics: dict[str, int],
        group_ids: list[str],
        interval_us: int,
        groups: GroupHistory,
    ) -> None:
        super().__init__(name, environment)
        self._partitions = [(topic, partition) for topic, count in topics.items() for partition in range(count)]
        self._group_ids = group_ids
        self._interval_us = interval_us
        self._groups = groups
        self._commits = 0
        self.is_stopping = False

    def work(self) -> None:
        self.meanwhile(self.scheduler.below(2 * self._interval_us) + 1, "administers groups", self._administer)

    def _administer(self) -> None:
        if self.is_stopping:
            return
        random = self.scheduler.random
        task = random.choice(
            (self._commit, self._commit, self._fetch, self._fetch, self._delete_offset, self._delete_group, self._look)
        )
        task(random.sample(self._partitions, random.randint(1, min(2, len(self._partitions)))))

    def _request(
        self,
        what: str,
        api_key: ApiKey,
        request: Request,
        version: int,
        kind: type[R],
        codes_of: Callable[[R], list[int]],
    ) -> None:
        """`codes_of` returns the error codes in the answer."""

        def answered(response: R | None) -> None:
            if response is None:
                return
            codes = codes_of(response)
            for code in codes:
                if self.fails_internally(code):
                    continue
                if code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND, *NO_COORDINATOR, *UNKNOWN_TOPIC):
                    raise InvariantViolation(f"{self.name}: {what} fails with {ErrorCode(code).name}")
            if ErrorCode.NONE in codes:
                self._groups.counts.administered[what] += 1
            self.work()

        self.ask(api_key, request, version, kind, answered)

    # --- a group without members --------------------------------------------------------------------------------------

    def _commit(self, partitions: list[TopicPartition]) -> None:
        self._commits += 1
        commit_id = f"{self.name}.{self._commits}"
        offsets = {key: self.scheduler.below(1_000) for key in partitions}
        for key, offset in offsets.items():
            self._groups.committing(GROUP_ID, key, commit_id, Commit(offset, "", -1))

        def codes_of(response: OffsetCommitResponse) -> list[int]:
            results = committed_offsets.committed(response)
            for key, code in results:
                if code == ErrorCode.NONE:
                    self._groups.commit_acknowledged(GROUP_ID, key, commit_id)
            return [code for _, code in results]

        request = committed_offsets.commit_request(GROUP_ID, -1, "", None, offsets, commit_id)
        what = "offsets are committed from outside"
        self._request(what, ApiKey.OFFSET_COMMIT, request, COMMIT_VERSION, OffsetCommitResponse, codes_of)

    def _fetch(self, partitions: list[TopicPartition]) -> None:
        asked = self._groups.moment(GROUP_ID)

        def codes_of(response: OffsetFetchResponse) -> list[int]:
            results = committed_offsets.fetched(response, FETCH_VERSION, partitions)
            for key, (code, offset, commit_id) in results.items():
                if code == ErrorCode.NONE:
                    self._groups.offset_fetched(GROUP_ID, key, offset, commit_id, asked)
            return [code for code, _, _ in results.values()]

        request = committed_offsets.fetch_request(GROUP_ID, partitions, FETCH_VERSION, require_stable=False)
        self._request("offsets are read", ApiKey.OFFSET_FETCH, request, FETCH_VERSION, OffsetFetchResponse, codes_of)

    def _delete_offset(self, partitions: list[TopicPartition]) -> None:
        asked = self._groups.moment(GROUP_ID)
        self._groups.asks_to_delete(GROUP_ID, [topic for topic, _ in partitions])

        def codes_of(response: OffsetDeleteResponse) -> list[int]:
            if response.error_code:
                return [response.error_code]
            results = [(topic.name, each) for topic in response.topics for each in topic.partitions]
            for topic, each in results:
                if each.error_code == ErrorCode.NONE:
                    self._groups.offset_deleted(GROUP_ID, (topic, each.partition_index), asked)
            return [each.error_code for _, each in results]

        topics = [
            OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(each) for each in numbers])
            for topic, numbers in committed_offsets.by_topic(partitions).items()
        ]
        request = OffsetDeleteRequest(GROUP_ID, topics)
        what = "offsets are deleted"
        self._request(what, ApiKey.OFFSET_DELETE, request, DELETE_VERSION, OffsetDeleteResponse, codes_of)

    def _delete_group(self, partitions: list[TopicPartition]) -> None:
        asked = self._groups.moment(GROUP_ID)
        self._groups.asks_to_delete(GROUP_ID, [topic for topic, _ in self._partitions])

        def codes_of(response: DeleteGroupsResponse) -> list[int]:
            code = response.results[0].error_code
            if code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
                for key in self._partitions:
                    self._groups.offset_deleted(GROUP_ID, key, asked)
            return [code]

        request = DeleteGroupsRequest([GROUP_ID])
        what = "a group is deleted"
        self._request(what, ApiKey.DELETE_GROUPS, request, DELETE_GROUPS_VERSION, DeleteGroupsResponse, codes_of)

    # --- groups with members ------------------------------------------------------------------------------------------

    def _look(self, partitions: list[TopicPartition]) -> None:
        if self.scheduler.below(2):
            listing = ListGroupsRequest([], [])
            what = "groups are listed"
            self._request(
                what,
                ApiKey.LIST_GROUPS,
                listing,
                LIST_VERSION,
                ListGroupsResponse,
                lambda answer: [answer.error_code],
            )
            return
        request = DescribeGroupsRequest(self._group_ids, False)
        self._request(
            "groups are described",
            ApiKey.DESCRIBE_GROUPS,
            request,
            DESCRIBE_VERSION,
            DescribeGroupsResponse,
            self._described,
        )

    def _described(self, response: DescribeGroupsResponse) -> list[int]:
        for group in response.groups:
            if group.error_code == ErrorCode.NONE and group.group_state == "Stable":
                for member in group.members:
                    self._groups.described(group.group_id, member.member_id, bytes(member.member_assignment))
        return [group.error_code for group in response.groups]
