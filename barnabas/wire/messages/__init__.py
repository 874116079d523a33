"""The messages of Kafka's protocol: one module per API key, each opening with its contract.

Fields bear the names of Kafka's message JSON in snake case, and every class can be made without arguments. A field
that a version does not have is left out when that version is encoded.

A module bears the name of its `ApiKey`, and its two messages that name as Kafka writes it: `delete_records` has
`DeleteRecordsRequest` and `DeleteRecordsResponse`. It is imported when its key is first asked for, since most processes
meet few of them, and all together take more than a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from barnabas.wire.api_keys import CLIENT_KEYS, ApiKey
from barnabas.wire.schema import Request, Response

__all__ = ["MESSAGES", "Request", "Response", "api_key_of"]


class _Messages(Mapping[ApiKey, tuple[type[Request], type[Response]]]):
    def __init__(self) -> None:
        self._imported: dict[ApiKey, tuple[type[Request], type[Response]]] = {}

    def __getitem__(self, key: ApiKey) -> tuple[type[Request], type[Response]]:
        if key not in self._imported:
            if key not in CLIENT_KEYS:
                raise KeyError(key)
            module = import_module(f"{__name__}.{key.name.lower()}")
            self._imported[key] = (
                getattr(module, f"{key.api_name}Request"),
                getattr(module, f"{key.api_name}Response"),
            )
        return self._imported[key]

    def __iter__(self) -> Iterator[ApiKey]:
        return iter(CLIENT_KEYS)

    def __len__(self) -> int:
        return len(CLIENT_KEYS)


MESSAGES: Final = _Messages()
"""Request and response of each key that has a schema."""


def api_key_of(message: type[Request | Response]) -> ApiKey:
    """The key that a class of `MESSAGES` belongs to."""
    return ApiKey[message.__module__.rpartition(".")[2].upper()]
