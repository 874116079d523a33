"""A secure local cluster from the inside: who reaches which port with which certificate, and new certificates."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime

import grpc
import pytest

from barnabas.cluster.access.service_permissions import DEFAULT_DOMAIN
from barnabas.cluster.keys import Keys, Role
from barnabas.ports.etcd import EtcdRefused, Put, Txn, modified_at
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.etcd import EtcdClient
from barnabas.runtime.etcd.users import let_all_in
from barnabas.runtime.inter_service.identity import ServiceIdentity
from barnabas.runtime.pem_files import TlsFiles
from barnabas_cli.local.certificates import issue, read_authority, write_secret
from barnabas_cli.local.etcd import etcd_files
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
    ("role", "codes"),
    [
        ("viewer", (0, 1, 1)),
        pytest.param("operator", (0, 0, 1), marks=pytest.mark.deep),
        pytest.param("admin", (0, 0, 0), marks=pytest.mark.deep),
        ("none", (1, 1, 1)),
    ],
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


def attempts_in_etcd(cluster: RunningCluster, name: str) -> set[str]:
    """Return what the holder of a service's key for etcd may do there."""
    keys = Keys()
    own = keys.registration(Role.LOGSTORE, "0")
    writes = {
        "write its registration": own,
        "write another's registration": keys.registration(Role.LOGSTORE, "1"),
        "write a gateway's registration": keys.registration(Role.GATEWAY, "gateway"),
        "be elected": keys.election,
        "write a topic": keys.topic("t"),
        "write beside": "/elsewhere",
    }
    reads = {
        "read the version": keys.version,
        "read the election": keys.election,
        "read its registration": own,
        "read credentials": keys.credentials.scram,
        "read ACLs": keys.acls,
        "read all": keys.prefix,
    }

    async def attempt() -> set[str]:
        layout = cluster.local.layout
        etcd = EtcdClient((f"{HOST}:{layout.etcd_client_port}",), monotonic_ms, etcd_files(cluster.directory, name))
        allowed = set()
        for what, key in writes.items():
            with suppress(EtcdRefused):
                # It changes nothing, and needs the right to.
                result = await etcd.txn(Txn((modified_at(key, 1),), (Put(key, b"stolen"),)))
                assert not result.succeeded
                allowed.add(what)
        for what, key in reads.items():
            with suppress(EtcdRefused):
                await (etcd.get(key) if key in (keys.version, own) else etcd.get_prefix(key))
                allowed.add(what)
        with suppress(EtcdRefused):
            await let_all_in(etcd)
            allowed.add("end the limits")
        await etcd.close()
        return allowed

    return asyncio.run(attempt())


def test_a_service_does_in_etcd_what_it_needs_alone(cluster: RunningCluster) -> None:
    of_each = {"read the version", "read the election"}
    own = {"write its registration", "read its registration"}
    assert attempts_in_etcd(cluster, "logstore-0") == of_each | own
    assert attempts_in_etcd(cluster, "purgatory") == of_each
    assert attempts_in_etcd(cluster, "gateway") == of_each | {"write a gateway's registration"}
    controller = attempts_in_etcd(cluster, "controller")
    assert {"be elected", "write a topic", "read credentials"} <= controller
    assert not {"write beside", "end the limits"} & controller


def test_services_come_back_where_etcd_has_users(cluster: RunningCluster) -> None:
    """They take over what they have left, and etcd knows its users after a restart."""
    for name in ("logstore-0", "gateway", "purgatory", "controller", "etcd"):
        cluster.kill(name)
    cluster.up()
    assert cluster.cli("produce", "kept-in-etcd", stdin="hello\n").returncode == 0
    assert attempts_in_etcd(cluster, "purgatory") == {"read the version", "read the election"}


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


@pytest.mark.deep
def test_a_running_cluster_is_opened_and_closed_again(cluster: RunningCluster) -> None:
    """Etcd lets all in, and then each service do what it needs. It kept running as it was, so that none was ready."""
    for option, limited in (("--no-secure", False), ("--secure", True)):
        ran = cluster.cli("up", option, "--no-supervisor")
        assert ran.returncode == 0, ran.stderr + ran.stdout
        assert "etcd: its configuration changed; restarting it" in ran.stdout
        assert cluster.cli("produce", "switched", stdin=f"{option}\n").returncode == 0
        if limited:
            assert attempts_in_etcd(cluster, "purgatory") == {"read the version", "read the election"}
    assert cluster.cli("consume", "switched", "--count", "2").stdout == "--no-secure\n--secure\n"
