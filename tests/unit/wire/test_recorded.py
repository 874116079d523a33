"""What real clients and a real broker sent is read, and written again to the very same bytes."""

from __future__ import annotations

import pytest

from barnabas.wire import codec
from barnabas.wire.api_keys import CLIENT_KEYS, ApiKey
from barnabas.wire.headers import decode_request_header
from barnabas.wire.schema import Versions
from scripts.pages.kafka_differences import API_KEYS
from tests.unit.wire.recorded import Exchange, exchanges

EXCHANGES = exchanges()

ENDS_WITH_MORE = {
    "librdkafka-51-v0": 1,
}
"""Requests that have bytes after their last field, and how many; brokers ignore them."""


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange.name)
def test_a_recorded_request_is_read_and_written_again(exchange: Exchange) -> None:
    frame = memoryview(exchange.request)
    header, position = decode_request_header(frame)
    assert (header.api_key, header.api_version) == (exchange.api_key, exchange.version)
    request = codec.decode_request(header.api_key, header.api_version, frame, position)
    written = codec.encode_request(request, header.api_version, header.correlation_id, header.client_id)
    end = len(exchange.request) - ENDS_WITH_MORE.get(exchange.name, 0)
    assert b"".join(written)[4:] == exchange.request[:end]


WITHOUT_SCHEMA = exchanges(with_schema=False)


@pytest.mark.parametrize("exchange", WITHOUT_SCHEMA, ids=lambda exchange: exchange.name)
def test_what_clients_send_in_a_version_without_schema_is_in_the_table(exchange: Exchange) -> None:
    header, _ = decode_request_header(memoryview(exchange.request))
    assert (header.api_key, header.api_version) == (exchange.api_key, exchange.version)
    assert exchange.version in Versions.parse(API_KEYS[exchange.api_key].without_schema)


ANSWERED = [exchange for exchange in EXCHANGES if exchange.response]


@pytest.mark.parametrize("exchange", ANSWERED, ids=lambda exchange: exchange.name)
def test_a_recorded_response_is_read_and_written_again(exchange: Exchange) -> None:
    correlation_id, response = codec.decode_response(exchange.api_key, exchange.version, memoryview(exchange.response))
    written = codec.encode_response(response, exchange.version, correlation_id)
    assert b"".join(written)[4:] == exchange.response


NOT_RECORDED = {
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "a broker offers it only with a plugin that takes the metrics",
    ApiKey.PUSH_TELEMETRY: "the same",
    ApiKey.STREAMS_GROUP_HEARTBEAT: "Kafka Streams is not among the clients here",
}


def test_all_clients_and_nearly_all_keys_were_recorded() -> None:
    assert {exchange.client for exchange in [*EXCHANGES, *WITHOUT_SCHEMA]} == {
        "aiokafka",
        "broker",
        "java",
        "kafka-python",
        "kcat",
        "librdkafka",
    }
    assert set(CLIENT_KEYS) - {exchange.api_key for exchange in [*EXCHANGES, *WITHOUT_SCHEMA]} == set(NOT_RECORDED)
