"""A small client of a schema registry of Confluent's kind: reads schemas by id, remembers all of them.

An id means the same schema forever, so nothing that was read is ever asked for again. Wire format of a record: a zero
byte, the id in four bytes (big endian), the payload.
"""

from __future__ import annotations

import base64
import json
import struct
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from pipeline.core.errors import PipelineError
from pipeline.core.rows import MisfitError

TIMEOUT_S = 10.0
ATTEMPTS = 4
RESPONSE_BYTES_MAX = 16 * 1024 * 1024
REFERENCES_MAX = 200


class RegistryError(PipelineError):
    """The registry does not answer, or not with what a registry answers."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """`kind` is AVRO, PROTOBUF or JSON; `references` by the name that the text imports them under, in order of need."""

    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()


def split_wire_format(value: bytes) -> tuple[int, bytes]:
    """The schema's id, and the payload. Raises MisfitError."""
    if len(value) < 5 or value[0] != 0:
        raise MisfitError("the value does not begin with a zero byte and a schema's id")
    return struct.unpack_from(">I", value, 1)[0], value[5:]


@dataclass(slots=True)
class Registry:
    """`url` may name a user: http://user:password@host:8081."""

    url: str
    _schemas: dict[int, RegisteredSchema | None] = field(default_factory=dict)

    def schema(self, schema_id: int) -> RegisteredSchema:
        """MisfitError: the registry has none under this id. RegistryError: nobody knows now."""
        if schema_id not in self._schemas:
            answer = self._get(f"/schemas/ids/{schema_id}")
            self._schemas[schema_id] = None if answer is None else self._read(answer)
        known = self._schemas[schema_id]
        if known is None:
            # Forgotten again: it may be registered by the time that these records are sent once more.
            del self._schemas[schema_id]
            raise MisfitError(f"the registry has no schema with id {schema_id}")
        return known

    def _read(self, answer: Any) -> RegisteredSchema:
        references: dict[str, str] = {}
        self._collect(answer, references)
        return RegisteredSchema(str(answer.get("schemaType", "AVRO")), str(answer["schema"]), tuple(references.items()))

    def _collect(self, answer: Any, references: dict[str, str]) -> None:
        for reference in answer.get("references") or []:
            name = str(reference["name"])
            if name in references or len(references) >= REFERENCES_MAX:
                continue
            subject = urllib.parse.quote(str(reference["subject"]), safe="")
            inner = self._get(f"/subjects/{subject}/versions/{int(reference['version'])}")
            if inner is None:
                raise RegistryError(f"{self.url}: a schema refers to {name}, which the registry does not have")
            self._collect(inner, references)
            references[name] = str(inner["schema"])

    def _get(self, path: str) -> Any:
        """The answer; None where there is nothing under the path."""
        request = _request(self.url.rstrip("/") + path)
        for attempt in range(ATTEMPTS):
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                    return json.loads(response.read(RESPONSE_BYTES_MAX))
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    return None
                if error.code < 500 and error.code != 429:
                    raise RegistryError(f"{self.url} refuses: {error.code} {error.reason}") from None
                reason = str(error)
            except (OSError, ValueError) as error:
                reason = str(error)
            if attempt + 1 < ATTEMPTS:
                time.sleep(0.2 * 2**attempt)
        raise RegistryError(f"the schema registry {self.url} does not answer: {reason}")


def _request(url: str) -> urllib.request.Request:
    parsed = urllib.parse.urlsplit(url)
    if parsed.scheme not in ("http", "https"):
        raise RegistryError(f"a schema registry is at http:// or https://, not {url}")
    host = parsed.netloc.rpartition("@")[2]
    request = urllib.request.Request(parsed._replace(netloc=host).geturl())
    request.add_header("Accept", "application/vnd.schemaregistry.v1+json, application/json")
    if parsed.username is not None:
        user = f"{urllib.parse.unquote(parsed.username)}:{urllib.parse.unquote(parsed.password or '')}"
        request.add_header("Authorization", "Basic " + base64.b64encode(user.encode()).decode())
    return request
