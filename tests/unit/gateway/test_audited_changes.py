"""Records of changes that clients make: which, by whom, and what came of each; never a value."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.cluster import messages as cluster
from barnabas.cluster.controller_calls.method import Change
from barnabas.cluster.delegation_tokens import (
    AlterDelegationTokenRequest,
    AlterDelegationTokenResponse,
    DelegationTokenPeriod,
)
from barnabas.cluster.quotas.entities import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    QuotaAlteration,
    QuotaAlterationResult,
    QuotaEntityPart,
)
from barnabas.cluster.scram import (
    AlterScramCredentialsRequest,
    AlterScramCredentialsResponse,
    ScramUser,
    ScramUserResult,
    UserScramCredential,
)
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import incremental_alter_configs as wire
from barnabas_gateway.core.model.audit import changes_of
from barnabas_gateway.core.model.outputs import ControllerAnswer, ControllerRequest
from tests.unit.gateway.world import World, topic

REFUSED = int(ErrorCode.INVALID_REQUEST)
CONFIGS = cluster.AlterConfigsRequest(
    [cluster.AlterConfigsResource(4, "1", False, [cluster.ConfigChange("ssl.key.password", 0, "a secret")])], 1000
)
CREDENTIAL = UserScramCredential("bob", 2, 4096, b"salt", b"a secret", b"a secret")


@pytest.mark.parametrize(
    ("request_", "answer", "expected"),
    [
        (
            cluster.CreateTopicsRequest([], 1000),
            cluster.CreateTopicsResponse([cluster.CreateTopicResult("t", bytes(16), REFUSED)], 1),
            [Change("topic created", "t", REFUSED)],
        ),
        (
            cluster.DeleteTopicsRequest([cluster.TopicReference("a", bytes(16))], 1000),
            cluster.DeleteTopicsResponse([cluster.DeleteTopicResult("", bytes(16), 0)], 1),
            [Change("topic deleted", "a", 0)],
        ),
        (
            cluster.CreatePartitionsRequest([cluster.NewPartitions("t", 7)], 1000),
            cluster.CreatePartitionsResponse([cluster.CreatePartitionsResult(0)], 1),
            [Change("partitions created", "t", 0, "7")],
        ),
        (
            CONFIGS,
            cluster.AlterConfigsResponse([cluster.AlterConfigsResult(0)], 1),
            [Change("config changed", "BROKER 1", 0, "ssl.key.password")],
        ),
        (replace(CONFIGS, validate_only=True), cluster.AlterConfigsResponse([cluster.AlterConfigsResult(0)], 1), []),
        (
            cluster.AlterReassignmentsRequest([cluster.Reassignment("t", 3, [1, 2])], 1000),
            cluster.AlterReassignmentsResponse([cluster.ReassignmentResult(0)], 1),
            [Change("replicas moved", "t-3", 0, "1,2")],
        ),
        (
            AlterScramCredentialsRequest([ScramUser("alice", 2)], [CREDENTIAL], 1000),
            AlterScramCredentialsResponse([ScramUserResult("alice", 0), ScramUserResult("bob", REFUSED)], 1),
            [Change("credential deleted", "alice", 0), Change("credential set", "bob", REFUSED)],
        ),
        (
            AlterClientQuotasRequest(
                [QuotaAlteration([QuotaEntityPart("user", "alice"), QuotaEntityPart("client-id")])], 1000
            ),
            AlterClientQuotasResponse([QuotaAlterationResult(0)], 1),
            [Change("quota changed", "user=alice,client-id=<default>", 0)],
        ),
        (
            AlterDelegationTokenRequest(None, DelegationTokenPeriod("User:a", 1, b"a secret"), None, 1000),
            AlterDelegationTokenResponse(REFUSED),
            [Change("delegation token renewed", "", REFUSED)],
        ),
    ],
)
def test_what_was_changed_is_named(
    request_: ControllerRequest, answer: ControllerAnswer, expected: list[Change]
) -> None:
    found = list(changes_of(request_, answer))
    assert found == expected
    assert "secret" not in repr(found)


def test_a_change_is_a_line_in_the_log_with_its_client() -> None:
    world = World(topic())
    client = world.client()
    altered = [wire.AlterableConfig("retention.ms", 0, "7"), wire.AlterableConfig("flush.ms", 0, "8")]
    request = wire.IncrementalAlterConfigsRequest([wire.AlterConfigsResource(2, "t", altered)])
    client.ask(request, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
    world.controller_answers(cluster.AlterConfigsResponse([cluster.AlterConfigsResult(REFUSED, "no")], world.revision))
    (line,) = [line for line in world.logs if line.event == "config not changed"]
    assert line.fields["resource"] == "TOPIC t"
    assert line.fields["detail"] == "retention.ms,flush.ms"
    assert (line.fields["verdict"], line.fields["error"]) == ("refused", "INVALID_REQUEST")
    assert line.fields["principal"] == "User:ANONYMOUS"
    assert line.fields["peer"]
