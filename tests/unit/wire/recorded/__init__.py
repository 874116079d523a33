"""Requests and responses as real clients and Apache Kafka 4.4.0 exchanged them, one of each client, key and version.

`frames.txt` has them: client, API key, version, request and response in hex, each frame without its size. Where Kafka's
jars are (`make peer`) and kcat is on PATH, `python -m tests.unit.wire.recorded` records them again.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from barnabas.wire.api_keys import ApiKey

FRAMES_FILE = Path(__file__).parent / "frames.txt"


class Exchange(NamedTuple):
    client: str
    api_key: int
    version: int
    request: bytes
    response: bytes
    """Empty where there was none: Produce with acks=0."""

    @property
    def name(self) -> str:
        return f"{self.client}-{self.api_key}-v{self.version}"

    def line(self) -> str:
        return f"{self.client} {self.api_key} {self.version} {self.request.hex()} {self.response.hex()}".rstrip() + "\n"


def exchanges(*, with_schema: bool = True) -> list[Exchange]:
    """Return those in versions that have a schema here, or the others: what only a newer Kafka has."""
    found = []
    for line in FRAMES_FILE.read_text().splitlines():
        client, api_key, version, request, *response = line.split()
        found.append(
            Exchange(client, int(api_key), int(version), bytes.fromhex(request), bytes.fromhex("".join(response)))
        )
    return [each for each in found if (each.version in ApiKey(each.api_key).schema_versions) == with_schema]
