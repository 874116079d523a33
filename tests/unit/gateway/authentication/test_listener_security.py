"""Kafka's keys for the security of listeners."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.runtime.configuration.config import ConfigError, build_config, settings_of
from barnabas_gateway.core.model.config import Listener
from barnabas_gateway.shell.config import GatewayProperties

PLAIN_KEY = "listener.name.clients.plain.sasl.jaas.config"
PLAIN_JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="a;\\"b" user_bob=c ;'
CLIENTS = {
    "etcd.endpoints": "127.0.0.1:2379",
    "listeners": "CLIENTS://127.0.0.1:9092,PLAINTEXT://127.0.0.1:9094",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
}


def properties(**given: str) -> GatewayProperties:
    return build_config(GatewayProperties, {key: (text, "test") for key, text in (CLIENTS | given).items()})


def listeners(**given: str) -> dict[str, Listener]:
    config = properties(**given).core_config({"CLIENTS": 9092, "PLAINTEXT": 9094})
    return config.listeners_by_name


def refusal(**given: str) -> str:
    with pytest.raises(ConfigError) as caught:
        properties(**given)
    return str(caught.value)


def test_a_listener_is_secured_by_its_protocol() -> None:
    found = listeners()
    assert found["PLAINTEXT"].sasl is None
    sasl = found["CLIENTS"].sasl
    assert sasl is not None
    assert (sasl.mechanisms, dict(sasl.plain_users)) == (("SCRAM-SHA-256",), {})


def test_a_listeners_keys_override_the_others() -> None:
    keys: dict[str, Any] = {
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN, SCRAM-SHA-512",
        PLAIN_KEY: PLAIN_JAAS,
        "connections.max.reauth.ms": "1000",
        "listener.name.clients.plain.connections.max.reauth.ms": "2000",
    }
    sasl = listeners(**keys)["CLIENTS"].sasl
    assert sasl is not None
    assert sasl.mechanisms == ("PLAIN", "SCRAM-SHA-512")
    assert sasl.plain_users == {"alice": 'a;"b', "bob": "c"}
    assert sasl.reauthentication_ms_by_mechanism == {"PLAIN": 2000, "SCRAM-SHA-512": 1000}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms is needed for CLIENTS"),
        ({"sasl.enabled.mechanisms": "NTLM"}, "expected some of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "has no users"),
        ({"sasl.enabled.mechanisms": "PLAIN", PLAIN_KEY: "x.Other required;"}, "expected org.apache.kafka"),
        ({"sasl.enabled.mechanisms": "PLAIN", PLAIN_KEY: PLAIN_JAAS.rstrip(" ;")}, "with one module"),
        ({"sasl.enabled.mechanisms": "PLAIN", PLAIN_KEY: PLAIN_JAAS + PLAIN_JAAS}, "options NAME"),
        ({"listener.name.clients.sasl.enabled.mechanism": "PLAIN"}, "did you mean sasl.enabled.mechanisms"),
        ({"listener.name.other.sasl.enabled.mechanisms": "PLAIN"}, "no listener has this name"),
        ({"listener.name.plaintext.sasl.enabled.mechanisms": "PLAIN"}, "without SASL"),
        ({"listener.name.clients.connections.max.reauth.ms": "-1"}, "a number of 0 or more"),
        ({"listener.security.protocol.map": "CLIENTS:TLS"}, "expected NAME:PROTOCOL"),
        ({"listener.security.protocol.map": ""}, "is needed for CLIENTS"),
    ],
)
def test_what_does_not_fit_together_is_refused(given: dict[str, str], message: str) -> None:
    assert message in refusal(**given)


def test_no_password_is_in_a_message_or_a_description() -> None:
    secret = {"sasl.enabled.mechanisms": "PLAIN", PLAIN_KEY: PLAIN_JAAS.replace("user_bob=c", "user_bob=hunter2")}
    loaded = properties(**secret)
    assert "hunter2" not in str(settings_of(loaded, secret.keys()))
    assert "hunter2" not in repr(loaded.core_config({"CLIENTS": 9092, "PLAINTEXT": 9094}))
    assert "hunter2" not in refusal(**(secret | {PLAIN_KEY: secret[PLAIN_KEY] + "x"}))
