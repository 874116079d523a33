"""A broker's loggers: described, and their levels changed as a whole or not at all (KIP-412)."""

from __future__ import annotations

import pytest

from barnabas.cluster.administration import (
    AlterBrokerLoggersRequest,
    AlterBrokerLoggersResponse,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedResource,
    LoggerChange,
)
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.administration.broker_loggers import BROKER_LOGGER
from tests.unit.logstore.service.support import NODE_ID, Host
from tests.unit.logstore.service.test_administration import ask

SET, DELETE, APPEND, SUBTRACT = range(4)


def describe(host: Host, node_id: str = str(NODE_ID), *keys: str) -> DescribedResource:
    resource = ConfigResource(BROKER_LOGGER, node_id, not keys, list(keys))
    response = ask(host, DescribeConfigsRequest([resource], True, True))
    assert isinstance(response, DescribeConfigsResponse)
    (described,) = response.results
    return described


def alter(
    host: Host, *changes: tuple[str, int, str], node_id: int = NODE_ID, validate_only: bool = False
) -> tuple[int, str]:
    request = AlterBrokerLoggersRequest(node_id, [LoggerChange(*change) for change in changes], validate_only)
    response = ask(host, request)
    assert isinstance(response, AlterBrokerLoggersResponse)
    return response.error_code, response.error_message


def levels(host: Host) -> dict[str, str]:
    return {config.name: config.value for config in describe(host).configs}


def test_loggers_are_described_with_kafkas_source() -> None:
    host = Host()
    described = describe(host)
    assert described.error_code == ErrorCode.NONE
    assert [config.name for config in described.configs] == ["root", "logstore", "logstore.links"]
    for config in described.configs:
        assert (config.value, config.source, config.config_type) == ("INFO", 6, 0)
        assert not any((config.is_null, config.read_only, config.is_sensitive, config.synonyms))
    assert [config.name for config in describe(host, str(NODE_ID), "logstore", "absent").configs] == ["logstore"]


def test_levels_are_set_and_deleted() -> None:
    host = Host()
    assert alter(host, ("logstore.links", SET, "DEBUG"), ("root", SET, "WARN")) == (0, "")
    assert levels(host) == {"root": "WARN", "logstore": "WARN", "logstore.links": "DEBUG"}
    assert alter(host, ("logstore.links", DELETE, "")) == (0, "")
    assert levels(host)["logstore.links"] == "WARN"
    assert alter(host, *[("logstore", SET, level) for level in ("FATAL", "ERROR", "INFO", "TRACE")]) == (0, "")
    assert levels(host)["logstore"] == "TRACE"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (("absent", SET, "DEBUG"), ErrorCode.INVALID_CONFIG, "Logger absent does not exist!"),
        (("absent", DELETE, ""), ErrorCode.INVALID_CONFIG, "Logger absent does not exist!"),
        (
            ("logstore", SET, "debug"),
            ErrorCode.INVALID_CONFIG,
            "Cannot set the log level of logstore to debug as it is not a supported log level. "
            "Valid log levels are FATAL, ERROR, WARN, INFO, DEBUG, TRACE",
        ),
        (
            ("root", DELETE, ""),
            ErrorCode.INVALID_REQUEST,
            "Removing the log level of the root logger is not allowed",
        ),
        (
            ("logstore", APPEND, "DEBUG"),
            ErrorCode.INVALID_REQUEST,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            ("absent", SUBTRACT, "DEBUG"),
            ErrorCode.INVALID_REQUEST,
            "SUBTRACT operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            ("logstore", 7, "DEBUG"),
            ErrorCode.INVALID_REQUEST,
            "Unknown operation type 7 is not allowed for the BROKER_LOGGER resource",
        ),
    ],
)
def test_one_wrong_change_refuses_all(change: tuple[str, int, str], error: ErrorCode, message: str) -> None:
    host = Host()
    assert alter(host, ("logstore", SET, "DEBUG"), change) == (error, message)
    assert set(levels(host).values()) == {"INFO"}


def test_what_is_only_validated_changes_nothing() -> None:
    host = Host()
    assert alter(host, ("logstore", SET, "DEBUG"), validate_only=True) == (0, "")
    assert alter(host, ("logstore", SET, "LOUD"), validate_only=True)[0] == ErrorCode.INVALID_CONFIG
    assert set(levels(host).values()) == {"INFO"}


def test_another_brokers_loggers_are_not_these() -> None:
    host = Host()
    message = f"Unexpected node id. Expected {NODE_ID}, but received 7"
    assert alter(host, ("logstore", SET, "DEBUG"), node_id=7) == (ErrorCode.INVALID_REQUEST, message)
    described = describe(host, "7")
    assert (described.error_code, described.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert set(levels(host).values()) == {"INFO"}


def test_long_names_and_levels_are_cut_in_messages() -> None:
    host = Host()
    assert alter(host, ("n" * 30_000, SET, "DEBUG"))[1] == f"Logger {'n' * 100} does not exist!"
    assert len(alter(host, ("logstore", SET, "L" * 30_000))[1]) < 300
