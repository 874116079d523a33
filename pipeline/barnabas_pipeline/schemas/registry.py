"""A small client of a schema registry of Confluent's kind: reads schemas by id, remembers all of them.

An id means the same schema forever, so nothing that was read is ever asked for again.
"""

from __future__ import annotations

import base64
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from barnabas_pipeline.core.errors import PipelineError
from barnabas_pipeline.core.rows import MisfitError
from barnabas_pipeline.schemas.wire_format import SchemaId

TIMEOUT_S = 10.0
# With the pauses between them 25 s, in which a registry restarts.
ATTEMPTS = 8
RESPONSE_BYTES_MAX = 16 * 1024 * 1024
REFERENCES_MAX = 200
# An id that nobody knows may be known later, and must not be asked for with every record that has it.
UNKNOWN_FOR_S = 10.0
UNKNOWN_MAX = 10_000


class RegistryError(PipelineError):
    """The registry does not answer, or not with what a registry answers."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """`kind` is AVRO, PROTOBUF or JSON; `references` by the name that the text imports them under, in order of need."""

    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Registry:
    """`url`: one, or several of the same registry with commas between them. `user` is NAME:SECRET, and may stand in a
    URL as well (http://name:secret@host:8081)."""

    url: str
    user: str = ""
    _schemas: dict[SchemaId, RegisteredSchema] = field(default_factory=dict)
    _unknown: dict[SchemaId, tuple[str, float]] = field(default_factory=dict)

    def schema(self, schema_id: SchemaId) -> RegisteredSchema:
        """MisfitError: the registry has none under this id. RegistryError: nobody knows now."""
        known = self._schemas.get(schema_id)
        if known is not None:
            return known
        reason, until_s = self._unknown.get(schema_id, ("", 0.0))
        if until_s > time.monotonic():
            raise MisfitError(reason)
        try:
            found = self._schemas[schema_id] = self._find(schema_id)
        except MisfitError as error:
            if len(self._unknown) >= UNKNOWN_MAX:
                self._unknown.clear()
            self._unknown[schema_id] = (str(error), time.monotonic() + UNKNOWN_FOR_S)
            raise
        return found

    def _find(self, schema_id: SchemaId) -> RegisteredSchema:
        kind, place = ("GUID", "guids") if isinstance(schema_id, uuid.UUID) else ("id", "ids")
        answer = self._get(f"/schemas/{place}/{schema_id}")
        if answer is None:
            raise MisfitError(f"the registry has no schema with {kind} {schema_id}")
        return self._read(answer)

    def _read(self, answer: dict[str, Any]) -> RegisteredSchema:
        references: dict[str, str] = {}
        try:
            self._collect(answer, references)
            kind, text = str(answer.get("schemaType") or "AVRO"), str(answer["schema"])
        except (KeyError, TypeError, AttributeError):
            raise self._no_registry("an answer has no schema in it") from None
        return RegisteredSchema(kind, text, tuple(references.items()))

    def _collect(self, answer: dict[str, Any], references: dict[str, str]) -> None:
        for reference in answer.get("references") or ():
            name = str(reference["name"])
            if name in references:
                continue
            if len(references) >= REFERENCES_MAX:
                raise MisfitError(f"its schema refers to more than {REFERENCES_MAX} others")
            subject = urllib.parse.quote(str(reference["subject"]), safe="")
            # What is referred to stays readable, also where its subject was deleted since.
            inner = self._get(f"/subjects/{subject}/versions/{reference['version']}?deleted=true")
            if inner is None:
                raise MisfitError(f"its schema refers to {name}, which the registry does not have")
            self._collect(inner, references)
            references[name] = str(inner["schema"])

    def _get(self, path: str) -> dict[str, Any] | None:
        """The answer; None where the registry says that there is nothing under the path.

        A 404 without a registry's code may be of a registry that does not know this kind of path. Or of a proxy before
        one that starts just now, or of no registry at all: then nothing is known of any id.
        """
        for attempt in range(ATTEMPTS):
            status, answer = self._ask(path)
            if status == 404 and not _has_code(answer):
                status, kinds = self._ask("/schemas/types")
                if status != 200 or not isinstance(kinds, list):
                    _pause(attempt)
                    continue
                status, answer = self._ask(path)  # once more: it may have come between the two
            if status == 404:
                return None
            if not isinstance(answer, dict):
                raise self._no_registry("an answer is no object")
            return answer
        raise self._no_registry("it does not know /schemas/types; is a path missing, as /apis/ccompat/v7?")

    def _ask(self, path: str) -> tuple[int, Any]:
        """200 or 404, and the answer (None if it is not JSON); asks again for a while where there is hope."""
        urls = self.url.split(",")
        for attempt in range(ATTEMPTS):
            request = self._request(urls[attempt % len(urls)].strip(), path)
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                    return 200, json.loads(response.read(RESPONSE_BYTES_MAX))
            except urllib.error.HTTPError as error:
                with error:
                    answer = _json_of(error)
                if error.code == 404:
                    return 404, answer
                if error.code in (401, 403):
                    hint = "its user is given by --registry-user NAME:SECRET"
                    raise RegistryError(f"{self._shown} refuses: {error.code} {error.reason}; {hint}") from None
                if error.code < 500 and error.code != 429:
                    raise RegistryError(f"{self._shown} refuses: {error.code} {error.reason}") from None
                reason = str(error)
            except (OSError, ValueError, http.client.HTTPException) as error:
                reason = str(error) or type(error).__name__
            _pause(attempt)
        raise RegistryError(f"the schema registry {self._shown} does not answer: {reason}")

    def _no_registry(self, why: str) -> RegistryError:
        return RegistryError(f"{self._shown} is no schema registry of Confluent's kind: {why}")

    @property
    def _shown(self) -> str:
        """The address without who may read it: for errors."""
        return ",".join(_without_user(each.strip()) for each in self.url.split(","))

    def _request(self, url: str, path: str) -> urllib.request.Request:
        parsed = urllib.parse.urlsplit(url)
        if parsed.scheme not in ("http", "https") or not parsed.hostname:
            raise RegistryError(f"a schema registry is at http:// or https://, not {_without_user(url)}")
        request = urllib.request.Request(_without_user(url).rstrip("/") + path)
        request.add_header("Accept", "application/vnd.schemaregistry.v1+json, application/json")
        user = self.user
        if not user and parsed.username is not None:
            user = f"{urllib.parse.unquote(parsed.username)}:{urllib.parse.unquote(parsed.password or '')}"
        if user:
            # Unredirected: it is for this host and no other.
            request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(user.encode()).decode())
        return request


def _pause(attempt: int) -> None:
    """After the last one none."""
    if attempt + 1 < ATTEMPTS:
        time.sleep(0.2 * 2**attempt)


def _has_code(answer: Any) -> bool:
    code = answer.get("error_code") if isinstance(answer, dict) else None
    return isinstance(code, int) and code // 100 == 404


def _without_user(url: str) -> str:
    parsed = urllib.parse.urlsplit(url)
    return parsed._replace(netloc=parsed.netloc.rpartition("@")[2]).geturl()


def _json_of(error: urllib.error.HTTPError) -> Any:
    try:
        return json.loads(error.read(RESPONSE_BYTES_MAX))
    except (OSError, ValueError, http.client.HTTPException):
        return None


Compiled = TypeVar("Compiled")


@dataclass(slots=True)
class CompiledSchemas(Generic[Compiled]):
    """A registry's schemas of one kind, each compiled once; so is what can't be: an id's schema never changes."""

    registry: Registry
    kind: str
    compile: Callable[[str, tuple[tuple[str, str], ...]], Compiled]
    _compiled: dict[SchemaId, Compiled] = field(default_factory=dict)
    _refused: dict[SchemaId, str] = field(default_factory=dict)

    def of(self, schema_id: SchemaId) -> Compiled:
        """Raises MisfitError if no values can be read by the id's schema, RegistryError if nobody knows now."""
        known = self._compiled.get(schema_id)
        if known is not None:
            return known
        if schema_id not in self._refused:
            registered = self.registry.schema(schema_id)
            if registered.kind != self.kind:
                self._refused[schema_id] = f"schema {schema_id} is {registered.kind}, not {self.kind}"
            else:
                try:
                    self._compiled[schema_id] = self.compile(registered.text, registered.references)
                    return self._compiled[schema_id]
                except PipelineError as error:
                    self._refused[schema_id] = f"schema {schema_id}: {error}"
        raise MisfitError(self._refused[schema_id])
