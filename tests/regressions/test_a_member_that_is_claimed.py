"""A caller speaks as the members that its certificate names, whatever its messages say.

With the key of one logstore another could be shut down, its ISRs changed, and its position as a follower claimed, so
that records counted as committed that it did not have.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from barnabas.channel.generated.packing import pack_replicate_request
from barnabas.channel.messages import ReplicaHello, ReplicateRequest
from barnabas.cluster.access.service_permissions import DEFAULT_DOMAIN, member_uri
from barnabas.cluster.keys import Role
from barnabas.cluster.messages import AlterPartitionResponse, ControlledShutdownResponse
from barnabas.runtime.inter_service import identity
from barnabas.runtime.inter_service.identity import Certified, ServiceIdentity
from barnabas.runtime.pem_files import TlsFiles
from barnabas_cli.local.certificates import create_authority, issue, names, write_authority, write_secret
from barnabas_cli.local.layout import ClusterDirectory, ClusterLayout
from barnabas_cli.local.secrets import ensure_secrets
from barnabas_controller.shell.membership import _Subscription, add_membership
from barnabas_logstore.shell.data_listener import DataListener
from barnabas_protos.controller.v1 import membership_pb2 as pb
from barnabas_protos.controller.v1.membership_pb2_grpc import MembershipStub
from tests.compiled import interpreted_only
from tests.regressions.test_a_role_that_is_claimed import Driver as SubscriptionDriver
from tests.regressions.test_a_role_that_is_claimed import Records, Stream

NOW = datetime.fromtimestamp(time.time(), UTC)
LOGSTORE = f"logstore.{DEFAULT_DOMAIN}"


def of(role: Role, member_id: str, domain: str = DEFAULT_DOMAIN) -> str:
    return member_uri(domain, role, member_id)


def certified(*uris: str) -> Certified:
    return Certified(frozenset({Role.LOGSTORE}), frozenset(uris), DEFAULT_DOMAIN)


@pytest.mark.parametrize(
    ("caller", "speaks_as_1"),
    [
        (certified(), True),
        (certified(of(Role.LOGSTORE, "1")), True),
        (certified(of(Role.LOGSTORE, "1"), of(Role.LOGSTORE, "2")), True),
        (certified(of(Role.LOGSTORE, "2")), False),
        (certified(of(Role.LOGSTORE, "11")), False),
        (certified(of(Role.LOGSTORE, "1/")), False),
        (certified(of(Role.LOGSTORE, "*")), False),
        (certified(of(Role.GATEWAY, "1")), True),
        (Certified(frozenset({Role.GATEWAY}), frozenset({of(Role.LOGSTORE, "1")}), DEFAULT_DOMAIN), False),
        (Certified(), False),
        (None, True),
    ],
)
def test_a_certificate_is_that_of_the_members_it_names(caller: Certified | None, speaks_as_1: bool) -> None:
    """One that names none of its role is any of them."""
    assert identity.is_itself(caller, Role.LOGSTORE, "1") is speaks_as_1


@pytest.mark.parametrize(("pod_id", "subscribed"), [("g-1", True), ("g-2", False)])
def test_a_subscription_is_its_own_pods(pod_id: str, subscribed: bool) -> None:
    caller = Certified(frozenset({Role.GATEWAY}), frozenset({of(Role.GATEWAY, "g-1")}), DEFAULT_DOMAIN)
    stream, driver = Stream(caller), SubscriptionDriver()
    subscription = _Subscription(cast("Any", stream), cast("Any", driver), cast("Any", Records()))
    subscription.on_message(pb.SubscribeRequest(role="gateway", pod_id=pod_id).SerializeToString())
    assert (bool(driver.subscribed), bool(stream.closed)) == (subscribed, not subscribed)


@interpreted_only("holds a listener to the type of its loop")
@pytest.mark.parametrize(("replica_id", "closed"), [(1, False), (2, True)])
def test_a_follower_is_the_one_of_its_certificate(replica_id: int, closed: bool) -> None:
    taken: list[ReplicateRequest] = []

    class Core:
        def on_replicate(self, _stream_id: int, request: ReplicateRequest) -> None:
            taken.append(request)

    class Loop:
        core = Core()

        def wake(self) -> None: ...

    class Server:
        def add_generic_rpc_handlers(self, _handlers: object) -> None: ...

    listener = DataListener(cast("Any", Server()))
    listener.serve(cast("Any", Loop()))
    stream = Stream(certified(of(Role.LOGSTORE, "1")))
    handler = listener._open_replicate(cast("Any", stream))
    handler.on_message(pack_replicate_request(ReplicateRequest(ReplicaHello("c", replica_id, 7))))
    assert (len(taken), bool(stream.closed)) == (0 if closed else 1, closed)


class Driver:
    """Answers what it is asked."""

    class core:  # noqa: N801
        active = True

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def ask(self, request: Any) -> object:
        self.asked.append(request.broker_id)
        return ControlledShutdownResponse(0) if "Shutdown" in type(request).__name__ else AlterPartitionResponse(0)


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    authority = create_authority("test", NOW)
    write_authority(tmp_path, authority)
    write_secret(tmp_path / "c.pem", issue(authority, "c", (f"controller.{DEFAULT_DOMAIN}",), NOW))
    uris = (of(Role.LOGSTORE, "2", "elsewhere"), of(Role.LOGSTORE, "1"))
    write_secret(tmp_path / "l.pem", issue(authority, "l", (LOGSTORE, *uris), NOW))
    write_secret(tmp_path / "any.pem", issue(authority, "l", (LOGSTORE,), NOW))
    return tmp_path


def who(secrets: Path, name: str) -> ServiceIdentity:
    own = str(secrets / name)
    return ServiceIdentity(TlsFiles(str(secrets / "ca.crt"), own, own), DEFAULT_DOMAIN)


@pytest.mark.parametrize(
    ("name", "broker_id", "answered"), [("l.pem", 1, True), ("l.pem", 2, False), ("any.pem", 2, True)]
)
def test_a_broker_changes_isrs_and_shuts_down_as_itself(
    secrets: Path, name: str, broker_id: int, answered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, driver = who(secrets, "c.pem"), Driver()
    monkeypatch.setattr(identity, "_identity", own)

    async def ask() -> list[grpc.StatusCode]:
        server = grpc.aio.server()
        add_membership(server, cast("Any", driver), cast("Any", Records()))
        port = server.add_secure_port("127.0.0.1:0", own.server_credentials())
        await server.start()
        caller = who(secrets, name)
        options = [("grpc.enable_http_proxy", 0), *caller.channel_options(Role.CONTROLLER)]
        codes = []
        async with grpc.aio.secure_channel(f"127.0.0.1:{port}", caller.channel_credentials(), options) as channel:
            stub: Any = MembershipStub(channel)
            for call, request in (
                (stub.AlterPartition, pb.AlterPartitionRequest(broker_id=broker_id)),
                (stub.ControlledShutdown, pb.ControlledShutdownRequest(broker_id=broker_id)),
            ):
                try:
                    await call(request, timeout=10)
                    codes.append(grpc.StatusCode.OK)
                except grpc.aio.AioRpcError as error:
                    codes.append(error.code())
        await server.stop(None)
        return codes

    codes = asyncio.run(ask())
    assert codes == [grpc.StatusCode.OK if answered else grpc.StatusCode.PERMISSION_DENIED] * 2
    assert driver.asked == ([broker_id] * 2 if answered else [])


def test_up_gives_each_logstore_a_key_of_its_own_and_takes_the_one_of_all_away(tmp_path: Path) -> None:
    directory, layout = ClusterDirectory(tmp_path), ClusterLayout(9092, 19092, 2, secure=True)
    inside = directory.secrets_path / "inside"
    ensure_secrets(directory, ClusterLayout(9092, 19092, 1, secure=True))
    write_secret(inside / "logstore.pem", b"the one of all")
    kept = (inside / "logstore-0.pem").read_bytes()
    ensure_secrets(directory, layout)
    assert sorted(each.name for each in inside.iterdir()) == [
        "controller.pem",
        "gateway.pem",
        "logstore-0.pem",
        "logstore-1.pem",
        "purgatory.pem",
    ]
    assert (inside / "logstore-0.pem").read_bytes() == kept
    assert names((inside / "logstore-1.pem").read_bytes()) == (LOGSTORE, of(Role.LOGSTORE, "1"))
    assert names((inside / "gateway.pem").read_bytes()) == (f"gateway.{DEFAULT_DOMAIN}", of(Role.GATEWAY, "gateway"))


def test_up_replaces_a_certificate_that_does_not_name_its_member(tmp_path: Path) -> None:
    directory, layout = ClusterDirectory(tmp_path), ClusterLayout(9092, 19092, 1, secure=True)
    ensure_secrets(directory, layout)
    authority = create_authority("test", NOW)
    path = directory.secrets_path / "inside" / "gateway.pem"
    write_secret(path, issue(authority, "gateway", (f"gateway.{DEFAULT_DOMAIN}",), NOW))
    ensure_secrets(directory, layout)
    assert of(Role.GATEWAY, "gateway") in names(path.read_bytes())
