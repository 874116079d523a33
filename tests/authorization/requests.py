"""Ask a broker of Apache Kafka and a cluster of Barnabas the same requests, under the same random ACLs.

    python -m tests.authorization.requests --rounds 40 --seed 1

Each round creates ACLs for one user on both, as another one who is a super user; then the user sends every request of
`tests/unit/gateway/request_rights.py`, and some more, to both. Compared is what authorization decides:
errors of authorization, errors about what does not exist, which names are returned, authorized operations. Other errors
and values count as one. `--save` writes the result to docs/verify/authorization.md, between its markers.
"""

from __future__ import annotations

import argparse
import copy
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import fields, is_dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from barnabas.cluster.acls import ANY, CLUSTER, Acl, Operation, PatternType, PermissionType, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response, encode_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.describe_acls import DescribeAclsRequest
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest
from barnabas.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.wire.record_batch import Record, build_batch
from barnabas_cli.local.layout import HOST
from bench.apache_kafka import ApacheKafka
from scripts.pages.kafka_differences import TOPIC_CONFIG_KEYS
from tests.authorization.__main__ import PAGE
from tests.integration.reserved_ports import free_port
from tests.integration.running_cluster import RunningCluster
from tests.unit.gateway.request_rights import ROWS
from tests.unit.gateway.world import TOPIC_ID

BEGIN, END = "<!-- requests: begin -->\n", "<!-- requests: end -->\n"
USER: Final = "someone"
TIMEOUT_S: Final = 20
NO_PRODUCER_ID: Final = 10**9
JAAS: Final = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="secret";'
NAMES: Final = {
    ResourceType.TOPIC: ("t", "u", "absent", "new", "*"),
    ResourceType.GROUP: ("g", "h", "*"),
    ResourceType.CLUSTER: (CLUSTER[1], CLUSTER[1], "*"),
    ResourceType.TRANSACTIONAL_ID: ("x", "*"),
}
DECIDED: Final = {
    int(each)
    for each in ErrorCode
    if each.name.endswith("AUTHORIZATION_FAILED") or each.name in ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID")
}
NOT_COMPARED: Final = ("__consumer_offsets", "__transaction_state", *TOPIC_CONFIG_KEYS)
"""Internal topics, and configuration keys that Kafka's topics have and ours do not."""
SHOWN: Final = ("name", "topic", "group_id", "authorized_operations")
"""Ends of the names of fields that are compared."""


class Peer:
    """Two connections to one of the two: of the super user, and of the user whose rights are asked about."""

    def __init__(self, admin_port: int, user_port: int) -> None:
        self.admin, self.user = Connection(admin_port), Connection(user_port)
        self.topic_id = b""
        assert not self.user.ask(SaslHandshakeRequest("PLAIN"), ApiKey.SASL_HANDSHAKE, 1).error_code
        token = SaslAuthenticateRequest(f"\0{USER}\0secret".encode())
        assert not self.user.ask(token, ApiKey.SASL_AUTHENTICATE, 1).error_code

    def prepare(self) -> None:
        """Topics t and u, and the groups g and h with offsets of t."""
        topics = [CreatableTopic(name, 1, 1) for name in ("t", "u")]
        created = self.admin.ask(CreateTopicsRequest(topics, 30_000), ApiKey.CREATE_TOPICS, 7)
        assert not any(each.error_code for each in created.topics), created
        self.topic_id = created.topics[0].topic_id if created.topics[0].name == "t" else created.topics[1].topic_id
        for group_id in ("g", "h"):
            partition = OffsetCommitRequestPartition(0, 1, -1, None)
            commit = OffsetCommitRequest(group_id, topics=[OffsetCommitRequestTopic("t", partitions=[partition])])
            self._until(lambda: not self.admin.ask(FIND_GROUP, ApiKey.FIND_COORDINATOR, 4).coordinators[0].error_code)
            self._until(lambda asked=commit: not committed(self.admin.ask(asked, ApiKey.OFFSET_COMMIT, 8)))

    def set_acls(self, acls: list[Acl]) -> None:
        """Replace all ACLs; return when the broker decides by them."""
        self.admin.ask(
            DeleteAclsRequest([DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)]), ApiKey.DELETE_ACLS, 3
        )
        creations = [
            AclCreation(
                each.resource_type,
                each.resource_name,
                each.pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )
            for each in acls
        ]
        created = self.admin.ask(CreateAclsRequest(creations), ApiKey.CREATE_ACLS, 3)
        assert not any(each.error_code for each in created.results), created
        self._until(lambda: self.acls() == set(acls))

    def acls(self) -> set[Acl]:
        answer = self.admin.ask(DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY), ApiKey.DESCRIBE_ACLS, 3)
        return {
            Acl(
                each.resource_type,
                each.pattern_type,
                each.resource_name,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for each in answer.resources
            for acl in each.acls
        }

    def decided(self, request: Any, api_key: ApiKey, version: int) -> list[str]:
        asked = copy.deepcopy(request)
        put_topic_id(asked, self.topic_id)
        try:
            answer = self.user.ask(asked, api_key, version)
        except TimeoutError:
            raise AssertionError(f"no answer to {asked}") from None
        return sorted(set(decisions(answer, self.topic_id)))

    def _until(self, is_so: Any) -> None:
        deadline_s = time.monotonic() + 60
        while not is_so():
            assert time.monotonic() < deadline_s, "not so within a minute"
            time.sleep(0.02)


FIND_GROUP = FindCoordinatorRequest("", 0, ["g"])


def committed(answer: Any) -> int:
    code: int = answer.topics[0].partitions[0].error_code
    return code


class Connection:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), TIMEOUT_S)
        self._correlation_id = 0

    def ask(self, request: Any, api_key: ApiKey, version: int) -> Any:
        self._correlation_id += 1
        self._socket.sendall(b"".join(encode_request(request, version, self._correlation_id, "client")))
        size = int.from_bytes(self._read(4), "big")
        return decode_response(api_key, version, memoryview(self._read(size)))[1]

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            assert part, "the connection was closed"
            data += part
        return data


def put_topic_id(request: Any, topic_id: bytes) -> None:
    """Put the id of this cluster's topic where the request has that of the tests' topic."""
    for each in fields(request):
        value = getattr(request, each.name)
        if value == TOPIC_ID:
            setattr(request, each.name, topic_id)
        for item in value if isinstance(value, list) else [value]:
            if is_dataclass(item):
                put_topic_id(item, topic_id)


def decisions(answer: Any, topic_id: bytes, path: str = "") -> Iterator[str]:
    """Yield what authorization has decided, each with the fields that lead to it."""
    for each in fields(answer):
        value = getattr(answer, each.name)
        here = f"{path}{each.name}"
        if each.name.endswith("error_code"):
            yield f"{here}={ErrorCode(value).name if value in DECIDED else 'other'}"
        elif each.name.endswith(SHOWN) and value not in ("", None, "__consumer_offsets", "__transaction_state"):
            yield f"{here}={value}"
        elif value == topic_id:
            yield f"{here}=the id of t"
        elif isinstance(value, list):
            for item in value:
                name = getattr(item, "name", None) or getattr(item, "topic", None) or getattr(item, "group_id", None)
                if is_dataclass(item) and name not in NOT_COMPARED:
                    yield from decisions(item, topic_id, f"{here}[{name or ''}].")


def names_of_configs(api_key: ApiKey) -> bool:
    """Whether an answer lists what the two have in different numbers: brokers, configs, log directories."""
    return api_key in (ApiKey.DESCRIBE_CONFIGS, ApiKey.LIST_CONFIG_RESOURCES, ApiKey.DESCRIBE_LOG_DIRS)


def batch(*, is_transactional: bool = False) -> bytes:
    record = Record(b"k", b"v", int(time.time() * 1000))
    if not is_transactional:
        return build_batch([record])
    return build_batch([record], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)


def requests_of(random: Random) -> list[tuple[ApiKey, int, Any]]:
    """Everything that changes nothing for those that come after it."""
    requests: list[tuple[ApiKey, int, Any]] = []
    for row in ROWS:
        request = copy.deepcopy(row.request)
        if row.api_key is ApiKey.DELETE_TOPICS:
            continue
        # Groups that the same patterns cover, and that do not exist.
        if row.api_key is ApiKey.DELETE_GROUPS:
            request.groups_names = ["g2", "h2"]
        if row.api_key is ApiKey.OFFSET_DELETE:
            request.group_id = "g2"
        if row.api_key is ApiKey.METADATA:
            request.allow_auto_topic_creation = False
        if row.api_key is ApiKey.ALTER_PARTITION_REASSIGNMENTS:
            request.topics[0].partitions[0].replicas = None
        if row.api_key is ApiKey.PRODUCE:
            # A transactional id is looked at only if the records are transactional.
            is_transactional = request.transactional_id is not None
            request.topic_data[0].partition_data[0].records = batch(is_transactional=is_transactional)
        # An id that neither gives to a producer, so that no transaction is begun.
        for name in ("producer_id", "v3_and_below_producer_id"):
            if hasattr(request, name) and row.api_key is not ApiKey.INIT_PRODUCER_ID:
                setattr(request, name, NO_PRODUCER_ID)
        if isinstance(request, AddPartitionsToTxnRequest) and row.version > 3:
            # Kafka does not answer one without transactions if it is allowed.
            topics = [AddPartitionsToTxnTopic("t", [0])]
            request.transactions = [AddPartitionsToTxnTransaction("x", NO_PRODUCER_ID, 0, True, topics)]
        if hasattr(request, "validate_only"):
            request.validate_only = True
        requests.append((row.api_key, row.version, request))
    data = [PartitionProduceData(0, batch())]
    requests += [
        (ApiKey.METADATA, 9, MetadataRequest(None, include_topic_authorized_operations=True)),
        (
            ApiKey.METADATA,
            9,
            MetadataRequest(
                [MetadataRequestTopic(name=name) for name in ("t", "u", "absent")],
                False,
                include_cluster_authorized_operations=True,
                include_topic_authorized_operations=True,
            ),
        ),
        (ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(bytes(15) + b"x", None)], False)),
        (ApiKey.PRODUCE, 9, ProduceRequest(None, 1, 1000, [TopicProduceData("absent", partition_data=data)])),
        (ApiKey.PRODUCE, 13, ProduceRequest(None, 1, 1000, [TopicProduceData("", TOPIC_ID, data)])),
        (ApiKey.LIST_GROUPS, 4, ListGroupsRequest()),
        (ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest(True)),
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest([])),
        (
            ApiKey.CREATE_TOPICS,
            7,
            CreateTopicsRequest([CreatableTopic("new", 1, 1), CreatableTopic("t", 1, 1)], 1000, validate_only=True),
        ),
        (
            ApiKey.CREATE_TOPICS,
            7,
            CreateTopicsRequest([CreatableTopic("new", 1, 1), CreatableTopic("new", 1, 1)], 1000, validate_only=True),
        ),
        (
            ApiKey.CREATE_PARTITIONS,
            3,
            CreatePartitionsRequest([CreatePartitionsTopic("absent", 3, None)], 1000, validate_only=True),
        ),
        (
            ApiKey.DELETE_TOPICS,
            6,
            DeleteTopicsRequest([DeleteTopicState("absent"), DeleteTopicState("t2")], timeout_ms=1000),
        ),
        (ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest([DeleteTopicState(None, bytes(15) + b"x")], timeout_ms=1000)),
    ]
    random.shuffle(requests)
    return requests


def random_acls(random: Random) -> list[Acl]:
    acls: dict[Acl, None] = {}
    for _ in range(random.choice((0, 3, 8, 15, 25))):
        resource_type = random.choice((ResourceType.TOPIC, ResourceType.TOPIC, *NAMES))
        pattern_type = random.choice((PatternType.LITERAL, PatternType.LITERAL, PatternType.PREFIXED))
        name = random.choice(NAMES[resource_type])
        if name == "*" or resource_type is ResourceType.CLUSTER:
            pattern_type = PatternType.LITERAL
        if resource_type is ResourceType.CLUSTER:
            name = CLUSTER[1]
        acl = Acl(
            resource_type,
            pattern_type,
            name,
            random.choice((f"User:{USER}", f"User:{USER}", "User:*", "User:other")),
            random.choice(("*", "127.0.0.1", "10.0.0.1")),
            random.choice(tuple(each for each in Operation if each <= Operation.IDEMPOTENT_WRITE)),
            random.choice((PermissionType.ALLOW,) * 4 + (PermissionType.DENY,)),
        )
        acls[acl] = None
    return list(acls)


def run(kafka: Peer, barnabas: Peer, rounds: int, seed: int) -> tuple[Counter[str], int]:
    random = Random(seed)
    counts: Counter[str] = Counter()
    different = 0
    for number in range(rounds):
        acls = random_acls(random)
        for peer in (kafka, barnabas):
            peer.set_acls(acls)
        for api_key, version, request in requests_of(random):
            theirs, ours = (peer.decided(request, api_key, version) for peer in (kafka, barnabas))
            if names_of_configs(api_key):
                theirs, ours = ([each for each in answer if "error_code" in each] for answer in (theirs, ours))
            is_denied = any("AUTHORIZATION_FAILED" in each for each in theirs)
            counts[f"{api_key.name}, {'denied' if is_denied else 'not denied'}"] += 1
            if ours != theirs:
                different += 1
                print(f"round {number}: {request} v{version}\n  Kafka:    {theirs}\n  Barnabas: {ours}")
                if different < 3:
                    print("\n".join(f"  {acl}" for acl in acls))
    return counts, different


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    # The directory last: what runs is found by its files.
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        kafka_ports = [free_port() for _ in range(3)]
        broker = apache_kafka(Path(directory) / "kafka", *kafka_ports)
        broker.start()
        stack.callback(broker.stop)
        user_port = 0

        def properties(first_port: int) -> dict[str, str]:
            nonlocal user_port
            user_port = first_port
            return {
                "listeners": f"PLAINTEXT://{HOST}:{first_port - 80},SASL_PLAINTEXT://{HOST}:{first_port}",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
            }

        cluster = stack.enter_context(RunningCluster(Path(directory) / "barnabas", 1, properties))
        barnabas = Peer(cluster.local.layout.kafka_port, user_port)
        kafka = wait_for(lambda: Peer(kafka_ports[0], kafka_ports[1]))
        for peer in (kafka, barnabas):
            peer.prepare()
        counts, different = run(kafka, barnabas, given.rounds, given.seed)
    denied = sum(count for name, count in counts.items() if name.endswith(", denied"))
    apis = len({name.partition(",")[0] for name in counts})
    text = (
        f"`python -m tests.authorization.requests --seed {given.seed} --rounds {given.rounds}`: {counts.total():,} "
        f"requests of {apis} APIs\nunder {given.rounds} sets of ACLs, of which Kafka denied {denied:,} wholly or "
        f"in part; **{different} answered\ndifferently**.\n"
    )
    print(text)
    if given.save:
        page = PAGE.read_text()
        begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
        PAGE.write_text(page[:begin] + text + page[end:])
    return 1 if different else 0


def wait_for(connect: Any) -> Peer:
    deadline_s = time.monotonic() + 60
    while True:
        try:
            peer: Peer = connect()
            return peer
        except (OSError, AssertionError):
            assert time.monotonic() < deadline_s, "the broker does not answer"
            time.sleep(0.2)


def apache_kafka(directory: Path, port: int, user_port: int, controller_port: int) -> ApacheKafka:
    broker = ApacheKafka(
        directory,
        port,
        controller_port,
        "512m",
        {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": JAAS,
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
        },
    )
    broker.settings["listeners"] += f",SASL://{HOST}:{user_port}"
    broker.settings["advertised.listeners"] = f"PLAINTEXT://{HOST}:{port},SASL://{HOST}:{user_port}"
    return broker


if __name__ == "__main__":
    sys.exit(main())
