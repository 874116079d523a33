"""What Kafka's own message JSON says of every field, in short: `kafka-4.4.0-schemas.txt`.

One line a message: its name, API key, valid and flexible versions, `unstable` where the last version is, and `broker`
for a request that brokers offer to clients. Below it one line a field, indented by its depth: name, type, versions, and
what it has of `nullable=`, `tag=`, `default=`, and of `taggedVersions=` that are not its versions.
"""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCHEMAS_FILE = Path(__file__).parent / "kafka-4.4.0-schemas.txt"
_EXTRAS = {"nullableVersions": "nullable", "tag": "tag", "taggedVersions": "taggedVersions", "default": "default"}


@dataclass(slots=True)
class KafkaField:
    name: str
    type: str
    versions: str
    nullable: str = "none"
    tag: int | None = None
    tagged_versions: str | None = None
    default: str | None = None
    fields: list[KafkaField] = field(default_factory=list)


@dataclass(slots=True)
class KafkaMessage:
    name: str
    api_key: int
    versions: str
    flexible: str
    is_unstable: bool
    is_offered_to_clients: bool
    fields: list[KafkaField] = field(default_factory=list)


def read_jar(jars: Path) -> str:
    """The text of the file, from kafka-clients in the directory `jars`."""
    with zipfile.ZipFile(next(iter(jars.glob("kafka-clients-*.jar")))) as jar:
        loaded = [
            json.loads(re.sub(r"(?m)^\s*//.*$|//[^\"\n]*$", "", jar.read(name).decode()))
            for name in jar.namelist()
            if re.fullmatch(r"common/message/\w+(Request|Response)\.json", name)
        ]
    with_fields = [message for message in loaded if message["validVersions"] != "none"]
    return "".join(map(_message_text, sorted(with_fields, key=lambda message: (message["apiKey"], message["type"]))))


def _message_text(message: dict[str, Any]) -> str:
    words = [message["name"], str(message["apiKey"]), message["validVersions"], message["flexibleVersions"]]
    if message.get("latestVersionUnstable"):
        words.append("unstable")
    if "broker" in message.get("listeners", ()):
        words.append("broker")
    common = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", ())}
    return " ".join(words) + "\n" + _fields_text(message["fields"], common, " ")


def _fields_text(fields: list[dict[str, Any]], common: dict[str, Any], indent: str) -> str:
    text = ""
    for each in fields:
        extras = [f"{short}={each[name]}" for name, short in _EXTRAS.items() if name in each]
        if each.get("taggedVersions") == each["versions"]:
            extras.remove(f"taggedVersions={each['versions']}")
        text += indent + " ".join([each["name"], each["type"], each["versions"], *extras]) + "\n"
        inner = each.get("fields") or common.get(each["type"].removeprefix("[]"), [])
        text += _fields_text(inner, common, indent + " ")
    return text


def kafkas_schemas() -> dict[str, KafkaMessage]:
    """Every message of Kafka 4.4 by its name."""
    messages: dict[str, KafkaMessage] = {}
    above: list[list[KafkaField]] = []
    for line in SCHEMAS_FILE.read_text().splitlines():
        depth = len(line) - len(line.lstrip(" "))
        first, second, third, *rest = line.split()
        if depth == 0:
            flexible, *marks = rest
            message = KafkaMessage(first, int(second), third, flexible, "unstable" in marks, "broker" in marks)
            messages[first] = message
            above = [message.fields]
            continue
        extras = dict(word.split("=") for word in rest)
        one = KafkaField(
            first,
            second,
            third,
            extras.get("nullable", "none"),
            int(extras["tag"]) if "tag" in extras else None,
            extras.get("taggedVersions"),
            extras.get("default"),
        )
        above[depth - 1 :] = [above[depth - 1], one.fields]
        above[depth - 1].append(one)
    return messages
