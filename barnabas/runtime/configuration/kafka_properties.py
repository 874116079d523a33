"""What a service uses of a properties file that was written for a Kafka broker, and what it reports about the rest.

One file may be given to every service: each uses its own keys. A key of another service, and one that Barnabas does not
have, is reported; an unknown one stays in, for `build_config` to refuse: it is more likely a typo than intended.

A broker's listeners are its gateway's. The other services listen at one host:port, so that NAME://host:port does not
apply to them; and the listeners that `controller.listener.names` lists are for KRaft, and so apply to no service.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from barnabas.cluster.broker_config_keys import BROKER_KEYS
from barnabas.cluster.kafka_config_keys import why_without_effect

_LISTENER_KEYS: Final = ("listeners", "advertised.listeners")
_CONTROLLER_LISTENERS: Final = "controller.listener.names"


@dataclass(slots=True, frozen=True)
class Notice:
    """A key of a file that has no effect in this service."""

    key: str
    reason: str


def sort_out(
    properties: Mapping[str, str], fields: Mapping[str, msgspec.structs.FieldInfo]
) -> tuple[dict[str, str], list[Notice]]:
    """Return (what this service uses, what has no effect) of a file; `fields` are the service's own, by key."""
    taken: dict[str, str] = {}
    notices: list[Notice] = []
    for key, value in properties.items():
        is_known = key in fields or prefix_of(key, fields) is not None
        reason = None if is_known else why_not_here(key)
        if reason is not None:
            notices.append(Notice(key, reason))
        elif key in _LISTENER_KEYS and key in fields:
            useful, why = _listeners(value, fields[key], properties.get(_CONTROLLER_LISTENERS, ""))
            if useful:
                taken[key] = useful
            if why:
                notices.append(Notice(key, why))
        else:
            taken[key] = value
    return taken, sorted(notices, key=lambda notice: (notice.reason, notice.key))


def prefix_of(key: str, fields: Iterable[str]) -> str | None:
    """Return the field that holds all keys with the beginning of this one, which it names: "listener.name."."""
    return next((field for field in fields if field.endswith(".") and key.startswith(field)), None)


def why_not_here(key: str) -> str | None:
    """Return the message for a key that this service does not have; None: unknown key."""
    known = BROKER_KEYS.get(key)
    if known is not None:
        return f"it is a key of the {' and the '.join(role.value for role in known.services)}"
    return why_without_effect(key)


def _listeners(value: str, field: msgspec.structs.FieldInfo, controller_names: str) -> tuple[str, str]:
    """Return (what is left of a list of listeners, why not all of it)."""
    if typing.get_origin(field.type) is not list:
        is_brokers = "://" in value
        return ("", f"{value} is for a gateway; this service needs one host:port") if is_brokers else (value, "")
    of_controllers = {name.strip() for name in controller_names.split(",") if name.strip()}
    entries = [entry.strip() for entry in value.split(",") if entry.strip()]
    useful = [entry for entry in entries if entry.partition("://")[0] not in of_controllers]
    left_out = [entry for entry in entries if entry not in useful]
    return ",".join(useful), f"{','.join(left_out)}: there is no KRaft controller to listen for" if left_out else ""
