"""What the key of a service may do in etcd, and that changes of users fail nothing.

Every pod had one client key of etcd, and etcd no users: a stolen one could write any record of the controller, and read
the credentials of all users. `tests/integration/test_inside.py` asks a real etcd.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest

from barnabas.cluster.keys import Keys, Role
from barnabas.ports.etcd import EtcdRefused, Put, Txn, prefix_end
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.etcd import EtcdClient
from barnabas.runtime.etcd.users import ROOT, MemberUser
from barnabas_cli.local.etcd import ETCD_ADMINISTRATOR
from barnabas_cli.local.layout import ClusterLayout, members_of
from barnabas_cli.local.secrets import _certificates_of_etcd
from barnabas_protos.etcd.v1 import rpc_pb2 as pb

KEYS = Keys("/b/")
Range = tuple[str, str]


def granted(user: MemberUser, *kinds: int) -> set[Range]:
    return {(each.key.decode(), each.range_end.decode()) for each in user.permissions(KEYS) if each.permType in kinds}


@pytest.mark.parametrize(
    ("user", "written"),
    [
        (MemberUser("l", Role.LOGSTORE, "1"), ("/b/logstores/1", "")),
        (MemberUser("l", Role.LOGSTORE), ("/b/logstores/", "/b/logstores0")),
        (MemberUser("g", Role.GATEWAY, "gateway"), ("/b/gateways/gateway", "")),
        (MemberUser("p", Role.PURGATORY), ("/b/purgatories/", "/b/purgatories0")),
    ],
)
def test_a_member_writes_its_registration_and_reads_three_keys(user: MemberUser, written: Range) -> None:
    assert granted(user, pb.Permission.READWRITE, pb.Permission.WRITE) == {written}
    election = (KEYS.election, prefix_end(KEYS.election))
    assert granted(user, pb.Permission.READ) == {(KEYS.version, ""), (KEYS.cluster, ""), election}


def test_a_controller_writes_below_the_prefix_alone() -> None:
    controller = MemberUser("c", Role.CONTROLLER, "c")
    assert granted(controller, pb.Permission.READWRITE) == {("/b/", "/b0")}
    assert granted(controller, pb.Permission.READ, pb.Permission.WRITE) == set()


def test_cve_2018_16886_no_user_has_the_name_in_etcds_own_certificate() -> None:
    """Etcd's JSON gateway shows etcd that certificate for each caller: where its name was a user, each was that."""
    name, _ = _certificates_of_etcd(ClusterLayout(9092, 19092, 3, secure=True))["etcd"]
    users = {user for user, _, _ in members_of(ClusterLayout(9092, 19092, 3, secure=True))}
    assert name not in {*users, ETCD_ADMINISTRATOR, ROOT, *(role.value for role in Role)}


class Etcd(grpc.GenericRpcHandler):
    """Refuses what comes first as etcd does where its users change meanwhile; then `details`, if there are any."""

    def __init__(self, overtaken: int, details: str = "") -> None:
        self.came = 0
        self._overtaken = overtaken
        self._details = details

    def service(self, call: grpc.HandlerCallDetails) -> Any:
        answer: Any = pb.TxnResponse(succeeded=True) if call.method.endswith("Txn") else pb.RangeResponse()

        async def serve(_request: bytes, context: Any) -> bytes:
            self.came += 1
            if self.came <= self._overtaken:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: revision of auth store is old")
            if self._details:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, self._details)
            content: bytes = answer.SerializeToString()
            return content

        return grpc.unary_unary_rpc_method_handler(serve)


def run(etcd: Etcd, work: Callable[[EtcdClient], Awaitable[object]]) -> object:
    async def connected() -> object:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((etcd,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        client = EtcdClient((f"127.0.0.1:{port}",), monotonic_ms)
        try:
            return await work(client)
        finally:
            await client.close()
            await server.stop(None)

    return asyncio.run(connected())


TXN = Txn((), (Put("/b/a", b""),))


@pytest.mark.parametrize("work", [lambda client: client.txn(TXN), lambda client: client.get("/b/a")])
def test_a_request_that_a_change_of_users_overtakes_is_sent_again(
    work: Callable[[EtcdClient], Awaitable[object]],
) -> None:
    """It has done nothing. Only those with a password, whose token ends then, were sent again."""
    etcd = Etcd(overtaken=2)
    run(etcd, work)
    assert etcd.came == 3


@pytest.mark.parametrize("work", [lambda client: client.txn(TXN), lambda client: client.get("/b/a")])
def test_another_refusal_stays_one(work: Callable[[EtcdClient], Awaitable[object]]) -> None:
    etcd = Etcd(overtaken=1, details="etcdserver: duplicate key given in txn request")
    with pytest.raises(EtcdRefused, match="duplicate key"):
        run(etcd, work)
    assert etcd.came == 2
