"""Write the protocol's tables to `docs/reference/protocol.md` and to the contract of each message module, and what
differs from Kafka 4.4 to `docs/reference/kafka-4.4.md`.

`scripts/protocol` runs it; `tests/unit/docs/test_protocol.py` holds both to the tables.
"""

from __future__ import annotations

import re
from pathlib import Path

from barnabas.wire.api_keys import CLIENT_KEYS, NEVER, SERVED_KEYS, ApiKey
from barnabas.wire.schema import Versions
from barnabas_gateway.core.handlers import HANDLERS
from scripts.pages import kafka_differences

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "protocol.md"
MESSAGES_DIRECTORY = ROOT / "barnabas" / "wire" / "messages"

HEAD = """# Kafka's protocol: API keys and versions

Written by `scripts/protocol` from `barnabas/wire/api_keys.py:ApiKey` and
`services/gateway/barnabas_gateway/core/handlers/__init__.py:HANDLERS`; change those, not this page.

A broker of Apache Kafka 4.3 offers {client} of the protocol's {all} API keys to clients. Barnabas can read and write
all of them, in every version, and serves {served}. ApiVersions lists only the served keys, so that clients do without
the others or report what is missing. [kafka-4.4.md](kafka-4.4.md) says what Kafka 4.4 has beyond that.

- **Kafka 4.3**: the versions that its brokers offer.
- **schema**: the versions that Barnabas can read and write. There are more than Kafka's where Kafka 4 has dropped
  versions that older clients still use (Produce, Fetch), or holds one back as unstable (InitProducerId v6).
- **advertised**: the versions in ApiVersions. Produce and Fetch start at 0, with the old message formats. If these
  are switched off, Fetch starts at 4, and Produce still at 0, as in Kafka (KAFKA-18659): older librdkafka stops
  compressing otherwise.
- **state**: a link to the handler, whose docstring lists the known deviations; or what the key waits for.

The name of a key links to its messages, which say what each version added.

| key | name | Kafka 4.3 | schema | advertised | state |
|---:|---|---|---|---|---|
"""

TAIL = """
Keys that only Kafka's brokers and controllers use have no schema here; Barnabas's services use gRPC (`protos`) and
keep cluster state in etcd. These are {internal}.
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
    reported = versions(key.advertised_min, key.version_max) if key.is_served else ""
    state = key.state.value
    if key.is_served:
        state = f"[served](../../services/gateway/barnabas_gateway/core/handlers/{handler(key)}.py)"
    name = f"[{key.api_name}](../../barnabas/wire/messages/{key.name.lower()}.py)"
    offered = versions(key.version_min, key.version_max)
    return f"| {int(key)} | {name} | {offered} | {versions(*key.schema_versions)} | {reported} | {state} |\n"


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
    kafka_differences.PAGE.write_text(kafka_differences.page())
    for key in CLIENT_KEYS:
        if module(key).read_text() != module_text(key):
            module(key).write_text(module_text(key))


if __name__ == "__main__":
    write()
