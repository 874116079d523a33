"""MembershipClient: how gateways, purgatory pods and logstores find the active controller, follow it and send it
requests.

The active controller is found by its election key in etcd. One subscription is open to it at any time and delivers
UpdateMetadata; it moves with the election. Requests wait until an active controller is connected, within their
deadline; one whose answer is lost after it was sent is answered REQUEST_TIMED_OUT and never sent again: it may already
be done.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from barnabas.cluster.access.operator_calls import OperatorCall
from barnabas.cluster.delegation_tokens import AlterDelegationTokenRequest, AlterDelegationTokenResponse
from barnabas.cluster.features import UpdateFeaturesRequest, UpdateFeaturesResponse
from barnabas.cluster.keys import ControllerRegistration, Keys, Role, decode_registration
from barnabas.cluster.messages import (
    AclResult,
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResult,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterReassignmentsRequest,
    AlterReassignmentsResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsResult,
    CreateTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeletedAcls,
    DeleteTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ReassignmentResult,
    UpdateMetadata,
)
from barnabas.cluster.quotas.entities import AlterClientQuotasRequest, AlterClientQuotasResponse, QuotaAlterationResult
from barnabas.cluster.quotas.shares import LEASE_MS, ShareQuotasRequest, ShareQuotasResponse
from barnabas.cluster.scram import AlterScramCredentialsRequest, AlterScramCredentialsResponse, ScramUserResult
from barnabas.metrics.conditions import Condition
from barnabas.ports.etcd import Snapshot
from barnabas.runtime.active_controller import ActiveController
from barnabas.runtime.etcd import EtcdClient
from barnabas.runtime.inter_service import identity
from barnabas.runtime.large_messages import LARGE_BYTES, over_turns
from barnabas.runtime.logs import get_logger
from barnabas.runtime.protobuf import from_proto, from_proto_in_steps, to_proto
from barnabas.runtime.streams import StreamLink
from barnabas.wire.errors import ErrorCode
from barnabas_protos.controller.v1 import membership_pb2 as pb

if TYPE_CHECKING:
    from barnabas_protos.controller.v1.membership_pb2_grpc import MembershipAsyncStub

Answer = TypeVar("Answer")
OnUpdate = Callable[[UpdateMetadata, Message], None]
"""Gets the update and the message that it came in, to be passed on."""
OnOperatorCalls = Callable[[list[OperatorCall]], None]

_SUBSCRIBE = "/barnabas.controller.v1.Membership/Subscribe"
_RETRY_S = 0.05
_CONNECT_S = 1.0
# The controller enforces a request's own timeout; this much later the answer is not waited for any more.
_ANSWER_MARGIN_MS = 2000
_ALLOCATE_TIMEOUT_MS = 5000
_ALTER_PARTITION_TIMEOUT_MS = 5000
_SHUTDOWN_TIMEOUT_MS = 10_000
_HEALTH_TIMEOUT_S = 2.0

_log = get_logger("membership")


class MembershipClient:
    """One per pod. `subscribe`, or `follow`, runs permanently; requests may be made meanwhile, concurrently."""

    def __init__(self, etcd: EtcdClient, keys: Keys, now_ms: Callable[[], int]) -> None:
        """`now_ms` is the monotonic clock that `last_heard_ms` is on."""
        self._etcd = etcd
        self._keys = keys
        self._now_ms = now_ms
        self._controller: ActiveController | None = None
        # Set, and replaced by another, when the active controller changes.
        self._moved = asyncio.Event()
        self._link: StreamLink | None = None
        self._applied_revision = -1
        # When the active controller last sent anything on the subscription; -1: never.
        self.last_heard_ms = -1

    def acknowledge(self, revision: int) -> None:
        """All processors of this pod answer by `revision` from now on."""
        if revision > self._applied_revision:
            self._applied_revision = revision
            self._tell_applied()

    async def subscribe(
        self, role: Role, pod_id: str, on_update: OnUpdate, on_operator_calls: OnOperatorCalls | None = None
    ) -> None:
        """Follow the active controller forever, calling `on_update` with all it publishes: a full update first.
        `on_operator_calls` gets calls of operators, for the topic of the audit; None: this pod takes none.
        """
        takes_calls = on_operator_calls is not None
        hello = pb.SubscribeRequest(role=role.value, pod_id=pod_id, takes_operator_calls=takes_calls)
        try:
            async with aclosing(self._elections()) as elections:
                async for address in elections:
                    await self._stop_listening()
                    self._link = self._listen(address, hello, on_update, on_operator_calls)
                    self._link.start()
        finally:
            await self._stop_listening()
            await self._move_to(None)

    async def follow(self) -> None:
        """Track the active controller forever, only for requests: logstores get its commands on the control channel."""
        try:
            async with aclosing(self._elections()) as elections:
                async for _ in elections:
                    pass
        finally:
            await self._move_to(None)

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        """Answered when leaders and gateways know the topics, or with REQUEST_TIMED_OUT: they may still be created."""
        message = to_proto(request, pb.CreateTopicsRequest)
        answer = await self._ask(
            lambda stub, timeout_s: stub.CreateTopics(message, timeout=timeout_s), request.timeout_ms, repeatable=False
        )
        if answer is not None:
            return from_proto(CreateTopicsResponse, answer)
        code = ErrorCode.REQUEST_TIMED_OUT
        results = [CreateTopicResult(topic.topic, bytes(16), code, code.message) for topic in request.topics]
        return CreateTopicsResponse(results, revision=-1)

    async def delete_topics(self, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        """Answered when gateways have removed the topics, or with REQUEST_TIMED_OUT: they may still be deleted."""
        message = to_proto(request, pb.DeleteTopicsRequest)
        answer = await self._ask(
            lambda stub, timeout_s: stub.DeleteTopics(message, timeout=timeout_s), request.timeout_ms, repeatable=False
        )
        if answer is not None:
            return from_proto(DeleteTopicsResponse, answer)
        code = ErrorCode.REQUEST_TIMED_OUT
        results = [DeleteTopicResult(topic.topic, topic.topic_id, code, code.message) for topic in request.topics]
        return DeleteTopicsResponse(results, revision=-1)

    async def alter_configs(self, request: AlterConfigsRequest) -> AlterConfigsResponse:
        """Answered when all affected services have the configs, or with REQUEST_TIMED_OUT: they may still be
        changed.
        """
        message = to_proto(request, pb.AlterConfigsRequest)
        answer = await self._ask(
            lambda stub, timeout_s: stub.AlterConfigs(message, timeout=timeout_s), request.timeout_ms, repeatable=False
        )
        if answer is not None:
            return from_proto(AlterConfigsResponse, answer)
        code = ErrorCode.REQUEST_TIMED_OUT
        return AlterConfigsResponse([AlterConfigsResult(code, code.message) for _ in request.resources], revision=-1)

    async def create_partitions(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        """Answered when leaders and gateways know the partitions, or with REQUEST_TIMED_OUT: they may still be
        created.
        """
        message = to_proto(request, pb.CreatePartitionsRequest)
        answer = await self._ask(
            lambda stub, timeout_s: stub.CreatePartitions(message, timeout=timeout_s),
            request.timeout_ms,
            repeatable=False,
        )
        if answer is not None:
            return from_proto(CreatePartitionsResponse, answer)
        code = ErrorCode.REQUEST_TIMED_OUT
        return CreatePartitionsResponse([CreatePartitionsResult(code, code.message) for _ in request.topics], -1)

    async def elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        """Answered when the new leaders lead, or with REQUEST_TIMED_OUT: they still may."""
        message = to_proto(request, pb.ElectLeadersRequest)
        answer = await self._ask(
            lambda stub, timeout_s: stub.ElectLeaders(message, timeout=timeout_s), request.timeout_ms, repeatable=False
        )
        if answer is not None:
            return from_proto(ElectLeadersResponse, answer)
        code = ErrorCode.REQUEST_TIMED_OUT
        results = [ElectionResult(each.topic, each.partition, code, code.message) for each in request.partitions]
        return ElectLeadersResponse(results, revision=-1, error_code=code)

    async def alter_reassignments(self, request: AlterReassignmentsRequest) -> AlterReassignmentsResponse:
        """Answered when the moves have begun, or with REQUEST_TIMED_OUT: they still may."""
        message = to_proto(request, pb.AlterReassignmentsRequest)
        answer = await self._ask(
            lambda stub, timeout_s: stub.AlterReassignments(message, timeout=timeout_s),
            request.timeout_ms,
            repeatable=False,
        )
        if answer is not None:
            return from_proto(AlterReassignmentsResponse, answer)
        code = ErrorCode.REQUEST_TIMED_OUT
        return AlterReassignmentsResponse([ReassignmentResult(code, code.message) for _ in request.partitions], -1)

    async def create_acls(self, request: CreateAclsRequest) -> CreateAclsResponse:
        """Answered when gateways decide by the ACLs, or with REQUEST_TIMED_OUT: they may still be created.

        Not repeated: they may have been deleted since.
        """
        message = to_proto(request, pb.CreateAclsRequest)
        answer = await self._ask(
            lambda stub, timeout_s: stub.CreateAcls(message, timeout=timeout_s), request.timeout_ms, repeatable=False
        )
        if answer is not None:
            return from_proto(CreateAclsResponse, answer)
        code = ErrorCode.REQUEST_TIMED_OUT
        return CreateAclsResponse([AclResult(code, code.message) for _ in request.acls], revision=-1)

    async def delete_acls(self, request: DeleteAclsRequest) -> DeleteAclsResponse:
        """Answered when gateways decide without the ACLs, or with REQUEST_TIMED_OUT: they may still be deleted.

        Not repeated: the answer names what was deleted, and another time would find nothing.
        """
        message = to_proto(request, pb.DeleteAclsRequest)
        answer = await self._ask(
            lambda stub, timeout_s: stub.DeleteAcls(message, timeout=timeout_s), request.timeout_ms, repeatable=False
        )
        if answer is not None:
            return from_proto(DeleteAclsResponse, answer)
        code = ErrorCode.REQUEST_TIMED_OUT
        return DeleteAclsResponse([DeletedAcls(code, code.message) for _ in request.filters], revision=-1)

    async def alter_scram_credentials(self, request: AlterScramCredentialsRequest) -> AlterScramCredentialsResponse:
        """Answered when all gateways know the credentials, or with REQUEST_TIMED_OUT: they may still be changed."""
        message = to_proto(request, pb.AlterScramCredentialsRequest)
        answer = await self._ask(
            lambda stub, timeout_s: stub.AlterScramCredentials(message, timeout=timeout_s),
            request.timeout_ms,
            repeatable=False,
        )
        if answer is not None:
            return from_proto(AlterScramCredentialsResponse, answer)
        code = ErrorCode.REQUEST_TIMED_OUT
        users = request.users()
        return AlterScramCredentialsResponse([ScramUserResult(user, code, code.message) for user in users], -1)

    async def alter_client_quotas(self, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
        """Answered when all gateways know the quotas, or with REQUEST_TIMED_OUT: they may still be changed."""
        message = to_proto(request, pb.AlterClientQuotasRequest)
        answer = await self._ask(
            lambda stub, timeout_s: stub.AlterClientQuotas(message, timeout=timeout_s),
            request.timeout_ms,
            repeatable=False,
        )
        if answer is not None:
            return from_proto(AlterClientQuotasResponse, answer)
        code = ErrorCode.REQUEST_TIMED_OUT
        results = [QuotaAlterationResult(code, code.message) for _ in request.alterations]
        return AlterClientQuotasResponse(results, revision=-1)

    async def alter_delegation_token(self, request: AlterDelegationTokenRequest) -> AlterDelegationTokenResponse:
        """Answered when all gateways know the change, or with REQUEST_TIMED_OUT: it may still be made."""
        message = to_proto(request, pb.AlterDelegationTokenRequest)
        answer = await self._ask(
            lambda stub, timeout_s: stub.AlterDelegationToken(message, timeout=timeout_s),
            request.timeout_ms,
            repeatable=False,
        )
        if answer is not None:
            return from_proto(AlterDelegationTokenResponse, answer)
        return AlterDelegationTokenResponse(ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT.message)

    async def update_features(self, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        """Answered when all gateways know the levels, or with REQUEST_TIMED_OUT: they may still be changed."""
        message = to_proto(request, pb.UpdateFeaturesRequest)
        answer = await self._ask(
            lambda stub, timeout_s: stub.UpdateFeatures(message, timeout=timeout_s),
            request.timeout_ms,
            repeatable=False,
        )
        if answer is not None:
            return from_proto(UpdateFeaturesResponse, answer)
        return UpdateFeaturesResponse(ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT.message, -1)

    async def share_quotas(self, request: ShareQuotasRequest) -> ShareQuotasResponse | None:
        """Agree on shares of quotas with the active controller; None if there is none, or it does not answer at once:
        another report follows anyway.
        """
        controller = self._controller
        if controller is None:
            return None
        message = to_proto(request, pb.ShareQuotasRequest)
        try:
            async with controller:
                answer = await controller.stub.ShareQuotas(message, timeout=LEASE_MS / 1000)
        except grpc.aio.AioRpcError:
            return None
        return from_proto(ShareQuotasResponse, answer)

    @property
    def active_revision(self) -> int:
        """Return what no other term of an active controller has; -1 while none is known."""
        return -1 if self._controller is None else self._controller.create_revision

    async def report_health(
        self, role: Role, member_id: str, incarnation: str, conditions: Iterable[Condition]
    ) -> bool:
        """Report a member's conditions to the active controller. Return whether it has taken them; one of a version
        that takes none counts as having done so.
        """
        controller = self._controller
        if controller is None:
            return False
        reported = [pb.HealthCondition(kind=each.kind.value, text=each.text) for each in conditions]
        message = pb.ReportHealthRequest(role=role.value, id=member_id, incarnation=incarnation, conditions=reported)
        try:
            async with controller:
                answer = await controller.stub.ReportHealth(message, timeout=_HEALTH_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            return error.code() is grpc.StatusCode.UNIMPLEMENTED
        return answer.taken

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Answered when the ISRs are committed, or with REQUEST_TIMED_OUT: they may still be."""
        message = to_proto(request, pb.AlterPartitionRequest)
        answer = await self._ask(
            lambda stub, timeout_s: stub.AlterPartition(message, timeout=timeout_s),
            _ALTER_PARTITION_TIMEOUT_MS,
            repeatable=False,
        )
        if answer is not None:
            return from_proto(AlterPartitionResponse, answer)
        return AlterPartitionResponse(ErrorCode.REQUEST_TIMED_OUT)

    async def controlled_shutdown(self, request: ControlledShutdownRequest) -> ControlledShutdownResponse:
        """Answered when others lead what they can lead. Can be repeated: it requests the same every time."""
        message = to_proto(request, pb.ControlledShutdownRequest)
        answer = await self._ask(
            lambda stub, timeout_s: stub.ControlledShutdown(message, timeout=timeout_s),
            _SHUTDOWN_TIMEOUT_MS,
            repeatable=True,
        )
        if answer is not None:
            return from_proto(ControlledShutdownResponse, answer)
        return ControlledShutdownResponse(ErrorCode.REQUEST_TIMED_OUT)

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        """Return a unique block of producer ids. Can be repeated: a block whose answer is lost stays unused."""
        message = to_proto(request, pb.AllocateProducerIdsRequest)
        answer = await self._ask(
            lambda stub, timeout_s: stub.AllocateProducerIds(message, timeout=timeout_s),
            _ALLOCATE_TIMEOUT_MS,
            repeatable=True,
        )
        if answer is not None:
            return from_proto(AllocateProducerIdsResponse, answer)
        return AllocateProducerIdsResponse(ErrorCode.REQUEST_TIMED_OUT, first_producer_id=-1, length=0)

    async def _elections(self) -> AsyncGenerator[str, None]:
        """Yield the address of each active controller."""
        async with aclosing(self._etcd.watch(self._keys.election)) as changes:
            async for change in changes:
                if isinstance(change, Snapshot):
                    found = [key_value for key_value in change.key_values if key_value.key == self._keys.election]
                    elected = found[0] if found else None
                else:
                    last = change.events[-1]
                    elected = None if last.deleted else last.key_value
                known = self._controller.create_revision if self._controller is not None else None
                # Without an active controller the last one stays known: it may be about to be elected again.
                if elected is not None and elected.create_revision != known:
                    record = decode_registration(Role.CONTROLLER, elected.value)
                    assert isinstance(record, ControllerRegistration)
                    await self._move_to(ActiveController(record.address, elected.create_revision))
                    yield record.address

    async def _move_to(self, controller: ActiveController | None) -> None:
        before, self._controller = self._controller, controller
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
        if before is not None:
            await before.retire()

    def _listen(
        self, address: str, hello: pb.SubscribeRequest, on_update: OnUpdate, on_operator_calls: OnOperatorCalls | None
    ) -> StreamLink:
        def take(data: bytes) -> Awaitable[None] | None:
            response = pb.SubscribeResponse.FromString(data)
            self.last_heard_ms = self._now_ms()
            if response.operator_calls and on_operator_calls is not None:
                on_operator_calls([from_proto(OperatorCall, each) for each in response.operator_calls])
            if not response.HasField("update"):
                return None
            if len(data) >= LARGE_BYTES:
                return take_large(response)
            on_update(from_proto(UpdateMetadata, response.update), response.update)
            return None

        async def take_large(response: pb.SubscribeResponse) -> None:
            on_update(await over_turns(from_proto_in_steps(UpdateMetadata, response.update)), response.update)

        def take_first(data: bytes) -> Awaitable[None] | None:
            # What was applied before the connection was lost.
            self._tell_applied()
            return take(data)

        return StreamLink(
            address,
            _SUBSCRIBE,
            hello=hello.SerializeToString(),
            pack_heartbeat=lambda count: pb.SubscribeRequest(heartbeat=count).SerializeToString(),
            on_up=take_first,
            on_message=take,
            on_down=lambda reason: _log.warning(
                "lost the connection to the controller", address=address, reason=reason
            ),
        )

    async def _stop_listening(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    def _tell_applied(self) -> None:
        if self._link is not None and self._applied_revision > 0:
            self._link.send(pb.SubscribeRequest(applied_revision=self._applied_revision).SerializeToString())

    async def _ask(
        self,
        send: Callable[[MembershipAsyncStub, float], Awaitable[Answer]],
        timeout_ms: int,
        *,
        repeatable: bool,
    ) -> Answer | None:
        """Return None without an answer; then (unless nothing was sent) it is unknown whether it was done."""
        deadline_ms = self._now_ms() + max(0, timeout_ms) + _ANSWER_MARGIN_MS
        while (remaining_s := (deadline_ms - self._now_ms()) / 1000) > 0:
            controller, moved = self._controller, self._moved
            try:
                if controller is None:
                    async with asyncio.timeout(remaining_s):
                        await moved.wait()
                    continue
                if controller.generation != identity.generation():
                    # It connects again with the certificate that has been replaced since.
                    await self._move_to(ActiveController(controller.address, controller.create_revision))
                    continue
                async with controller:
                    async with asyncio.timeout(min(remaining_s, _CONNECT_S)):
                        await controller.channel.channel_ready()
                    return await send(controller.stub, remaining_s)
            except TimeoutError:
                continue
            except grpc.aio.AioRpcError as error:
                # FAILED_PRECONDITION: not active, so it has done nothing; the election key will name the active one.
                if error.code() is not grpc.StatusCode.FAILED_PRECONDITION and not repeatable:
                    return None
            await asyncio.sleep(_RETRY_S)
        return None
