"""A secure local cluster from the inside: who reaches which port with which certificate, and new certificates."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import grpc
import pytest

from barnabas.cli.local.certificates import issue, read_authority, write_secret
from barnabas.cluster.access.service_permissions import DEFAULT_DOMAIN
from barnabas.cluster.keys import Role
from barnabas.runtime.inter_service.identity import ServiceIdentity
from barnabas.runtime.pem_files import TlsFiles
from barnabas_protos.controller.v1 import membership_pb2 as pb
from barnabas_protos.controller.v1.membership_pb2_grpc import MembershipStub
from tests.integration.running_cluster import HOST, RunningCluster

pytestmark = pytest.mark.integration
OPTIONS = [("grpc.enable_http_proxy", 0)]
WAIT_SECONDS = 30


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("cluster"), 1, secure=True) as running:
        yield running


def identity(cluster: RunningCluster, path: str) -> ServiceIdentity:
    own = str(cluster.directory.secrets_path / f"{path}.pem")
    return ServiceIdentity(TlsFiles(str(cluster.directory.secrets_path / "ca.crt"), own, own), DEFAULT_DOMAIN)


def ask_membership(cluster: RunningCluster, own: ServiceIdentity | None) -> grpc.StatusCode:
    """Ask the controller for producer ids, as gateways do; return how that ends."""
    address = f"{HOST}:{cluster.local.layout.membership_port}"
    if own is None:
        channel = grpc.insecure_channel(address, OPTIONS)
    else:
        options = [*OPTIONS, *own.channel_options(Role.CONTROLLER)]
        channel = grpc.secure_channel(address, own.channel_credentials(), options)
    with channel:
        try:
            MembershipStub(channel).AllocateProducerIds(pb.AllocateProducerIdsRequest(), timeout=10)
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


def test_a_role_reaches_what_its_certificate_grants(cluster: RunningCluster) -> None:
    # Gateways have producer ids for idempotent producers, logstores for transactional ones.
    for role in ("inside/gateway", "inside/logstore-0"):
        assert ask_membership(cluster, identity(cluster, role)) is grpc.StatusCode.OK, role
    for other in ("inside/purgatory", "operators/admin", "gateway"):
        assert ask_membership(cluster, identity(cluster, other)) is grpc.StatusCode.PERMISSION_DENIED, other
    assert ask_membership(cluster, None) is grpc.StatusCode.UNAVAILABLE
    refusals = cluster.directory.log_path("controller").read_text()
    assert "call refused" in refusals
    assert "role=purgatory" in refusals


def test_a_logstore_speaks_for_itself_alone(cluster: RunningCluster) -> None:
    own = identity(cluster, "inside/logstore-0")
    channel = grpc.secure_channel(
        f"{HOST}:{cluster.local.layout.membership_port}",
        own.channel_credentials(),
        [*OPTIONS, *own.channel_options(Role.CONTROLLER)],
    )
    with channel:
        stub = MembershipStub(channel)
        for broker_id, code in ((0, grpc.StatusCode.OK), (1, grpc.StatusCode.PERMISSION_DENIED)):
            changes = pb.AlterPartitionRequest(broker_id=broker_id, broker_epoch=-1)
            leaving = pb.ControlledShutdownRequest(broker_id=broker_id, broker_epoch=-1)
            for call, request in ((stub.AlterPartition, changes), (stub.ControlledShutdown, leaving)):
                assert _code_of(call, request) is code


def _code_of(call: Callable[..., object], request: object) -> grpc.StatusCode:
    try:
        call(request, timeout=10)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize(
    ("role", "codes"), [("viewer", (0, 1, 1)), ("operator", (0, 0, 1)), ("admin", (0, 0, 0)), ("none", (1, 1, 1))]
)
def test_operators_do_what_their_role_allows(cluster: RunningCluster, role: str, codes: tuple[int, ...]) -> None:
    cluster.cli("topics", "create", f"by-{role}", "--partitions", "1")
    if role == "none":
        given = ("--address", cluster.ops_address, "--tls-authority", str(cluster.directory.secrets_path / "ca.crt"))
    else:
        given = ("--operator-config", str(cluster.directory.secrets_path / "operators" / f"{role}.properties"))
    commands = (("topics", "list"), ("balance", "resume"), ("topics", "delete", f"by-{role}"))
    ran = [cluster.cli(*command, *given) for command in commands]
    assert tuple(each.returncode for each in ran) == codes, [each.stderr for each in ran]
    if role == "viewer":
        assert "needs operator" in ran[1].stderr


def test_records_and_state_of_a_secure_cluster(cluster: RunningCluster) -> None:
    assert cluster.cli("produce", "kept", stdin="hello\n").returncode == 0
    assert cluster.cli("consume", "kept", "--count", "1").stdout == "hello\n"
    assert cluster.status().healthy
    saved = cluster.directory.path / "state.backup"
    backup = cluster.cli("backup", str(saved))
    assert backup.returncode == 0, backup.stderr


def test_a_certificate_that_is_replaced_is_used_without_a_restart(cluster: RunningCluster) -> None:
    """The controller gets a purgatory's certificate, which gateways accept of no controller; then its own again."""
    path = cluster.directory.secrets_path
    own, gateway = path / "inside" / "controller.pem", identity(cluster, "inside/gateway")
    before = own.read_bytes()
    other = issue(
        read_authority(path), "other", (f"purgatory.{DEFAULT_DOMAIN}",), datetime.fromtimestamp(time.time(), UTC)
    )
    write_secret(own, other)
    assert ask_membership(cluster, gateway) is grpc.StatusCode.UNAVAILABLE
    write_secret(own, before)
    assert ask_membership(cluster, gateway) is grpc.StatusCode.OK
    # A whole new set, and connections that open afterwards.
    now = datetime.fromtimestamp(time.time(), UTC)
    for name in ("controller", "gateway", "logstore-0", "purgatory"):
        issued = issue(read_authority(path), name, (f"{name.removesuffix('-0')}.{DEFAULT_DOMAIN}",), now)
        write_secret(path / "inside" / f"{name}.pem", issued)
    pids = cluster.pids
    cluster.kill("purgatory")
    cluster.start("purgatory")
    deadline = time.monotonic() + WAIT_SECONDS
    while not cluster.status().healthy:
        assert time.monotonic() < deadline, cluster.last_words()
        time.sleep(0.2)
    assert {name: pid for name, pid in cluster.pids.items() if name != "purgatory"} == {
        name: pid for name, pid in pids.items() if name != "purgatory"
    }
    assert cluster.cli("produce", "kept", stdin="again\n").returncode == 0
