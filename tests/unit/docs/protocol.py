"""What the protocol's tables say, told to readers: `docs/protocol.md`, and the contract of each message module.

`scripts/protocol` writes both anew; `test_protocol.py` holds them to the tables.
"""

from __future__ import annotations

import re
from pathlib import Path

from barnabas.wire.api_keys import CLIENT_KEYS, NEVER, SERVED_KEYS, ApiKey
from barnabas.wire.schema import Versions
from barnabas_gateway.core.handlers import HANDLERS

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "protocol.md"
MESSAGES_DIRECTORY = ROOT / "barnabas" / "wire" / "messages"

HEAD = """# The protocol, key by key

Written by `scripts/protocol` from `barnabas/wire/api_keys.py:ApiKey` and
`services/gateway/barnabas_gateway/core/handlers/__init__.py:HANDLERS`; change those, not this page.

A broker of Apache Kafka 4.3 offers {client} of the protocol's {all} API keys to clients. Barnabas reads and writes all
of them, in every version, and serves {served}. ApiVersions tells clients what is served and nothing else, so that they
do without the rest, or say what they miss.

- **Kafka 4.3**: the versions that its brokers offer.
- **schema**: the versions that Barnabas can read and write. More than Kafka's where Kafka 4 has dropped versions that
  older clients still speak (Produce, Fetch), or holds one back as unstable (InitProducerId v6).
- **told**: what ApiVersions tells. Produce and Fetch from 0, with the old message formats; switched off, Fetch from 4,
  and Produce still from 0, as Kafka does (KAFKA-18659): older librdkafka stops compressing otherwise.
- **state**: the handler, whose contract has the known deviations, or what is missing.

The name of a key leads to its messages, and to what each of their versions added.

| key | name | Kafka 4.3 | schema | told | state |
|---:|---|---|---|---|---|
"""

TAIL = """
Keys that brokers and controllers of Kafka keep among themselves have no schema here. Barnabas has its own ways between
its services (`protos`), and cluster state in etcd: {internal}.
"""


def versions(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first} to {last}"


def contract(key: ApiKey) -> tuple[str, str]:
    """The first line and the state of the key's module."""
    offered = Versions(key.version_min, key.version_max)
    text = f"{'version' if len(set(key.schema_versions)) == 1 else 'versions'} {versions(*key.schema_versions)}"
    if key.schema_versions != offered:
        text += f" (Kafka 4.3: {versions(*offered)})"
    flexible = f"flexible from {key.flexible_from}"
    if key.flexible_from == NEVER:
        flexible = "never flexible"
    elif key.flexible_from <= key.schema_versions.first:
        flexible = "flexible"
    state = (
        f"served by `services/gateway/barnabas_gateway/core/handlers/{handler(key)}.py`"
        if key.is_served
        else key.state.value
    )
    return f'"""{key.api_name}, API key {int(key)}, {text}; {flexible}.', f"State: {state}."


def handler(key: ApiKey) -> str:
    """The name of the module of a served key's handler."""
    return HANDLERS[key].__module__.rpartition(".")[2]


def row(key: ApiKey) -> str:
    told = versions(key.advertised_min, key.version_max) if key.is_served else ""
    state = key.state.value
    if key.is_served:
        state = f"[served](../services/gateway/barnabas_gateway/core/handlers/{handler(key)}.py)"
    name = f"[{key.api_name}](../barnabas/wire/messages/{key.name.lower()}.py)"
    offered = versions(key.version_min, key.version_max)
    return f"| {int(key)} | {name} | {offered} | {versions(*key.schema_versions)} | {told} | {state} |\n"


def page() -> str:
    internal = ", ".join(f"{key.api_name} ({int(key)})" for key in ApiKey if key not in CLIENT_KEYS)
    head = HEAD.format(client=len(CLIENT_KEYS), all=len(ApiKey), served=len(SERVED_KEYS))
    return head + "".join(map(row, CLIENT_KEYS)) + TAIL.format(internal=internal)


def module(key: ApiKey) -> Path:
    return MESSAGES_DIRECTORY / f"{key.name.lower()}.py"


def module_text(key: ApiKey) -> str:
    """The key's module as it has to be: what the tables say in the places where it says it."""
    title, state = contract(key)
    text = module(key).read_text()
    text = title + text[text.index("\n") :]
    return re.sub(r"(?m)^State: .*$", lambda _: state, text, count=1)


def write() -> None:
    PAGE.write_text(page())
    for key in CLIENT_KEYS:
        if module(key).read_text() != module_text(key):
            module(key).write_text(module_text(key))


if __name__ == "__main__":
    write()
