"""GSSAPI (RFC 4752), the client's side, by MIT Kerberos' library through python-gssapi.

The ticket is that of a key table, else of the cache that KRB5CCNAME or `krb5.conf` names.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from barnabas.client.sasl import SaslRefusal
from barnabas.cluster.jaas import KERBEROS_MODULE, login_options

GSSAPI: Final = "GSSAPI"
_NO_LAYER: Final = 1
_SERVICE: Final = "sasl.kerberos.service.name"
_OPTIONS: Final = ("keyTab", "principal", "serviceName", "useKeyTab", "storeKey", "useTicketCache")
_NO_EFFECT: Final = ("renewTGT", "doNotPrompt", "refreshKrb5Config", "isInitiator", "debug")

ValueT = TypeVar("ValueT")


@dataclass(slots=True, frozen=True)
class KerberosLogin:
    service: str
    """The first part of the broker's principal; the second is the host that is connected to."""
    principal: str = ""
    keytab: str = ""
    """Empty: the ticket is in a cache."""


def kerberos_login(properties: Mapping[str, str]) -> KerberosLogin:
    """Return what the properties say. Raises ValueError that names the property, or what has to be installed."""
    jaas = properties.get("sasl.jaas.config")
    if jaas is None:
        keytab, principal = properties.get("sasl.kerberos.keytab", ""), properties.get("sasl.kerberos.principal", "")
        options = {"keyTab": keytab, "principal": principal}
    else:
        try:
            options = login_options(jaas, KERBEROS_MODULE)
        except ValueError as error:
            raise ValueError(f"sasl.jaas.config: {error}") from None
        for name in options:
            if name not in _OPTIONS and name not in _NO_EFFECT:
                raise ValueError(f"sasl.jaas.config: {name} is not supported")
        if options.get("useKeyTab", "false").lower() != "true":
            options.pop("keyTab", None)
    service = properties.get(_SERVICE) or options.get("serviceName") or "kafka"
    login = KerberosLogin(service, options.get("principal", ""), options.get("keyTab", ""))
    if login.keytab and not login.principal:
        raise ValueError(f"the key table {login.keytab} needs a principal")
    _library()
    return login


class GssapiClient:
    """One exchange: tokens of Kerberos, the server's offer of security layers, and the choice of none."""

    def __init__(self, login: KerberosLogin, host: str) -> None:
        self._gssapi = _library()
        self._login = login
        self._host = host
        self._context: Any = None
        self._has_chosen = False

    def first_token(self) -> bytes:
        """Raises SaslRefusal: there is no ticket."""
        return self._called(self._begin)

    def next_token(self, answer: bytes) -> bytes | None:
        """Return None when the choice of a layer is accepted. Raises SaslRefusal."""
        if self._has_chosen:
            return None
        if not self._called(lambda: bool(self._context.complete)):
            return self._called(lambda: bytes(self._context.step(answer) or b""))
        offer = self._called(lambda: bytes(self._context.unwrap(answer).message))
        if len(offer) != 4 or not offer[0] & _NO_LAYER:
            raise SaslRefusal("the server insists on a security layer of Kerberos")
        self._has_chosen = True
        choice = bytes((_NO_LAYER, 0, 0, 0))
        return self._called(lambda: bytes(self._context.wrap(choice, False).message))

    def _begin(self) -> bytes:
        library, login = self._gssapi, self._login
        credentials = None
        if login.principal:
            name = library.Name(login.principal, library.NameType.kerberos_principal)
            store = {"client_keytab": login.keytab, "ccache": f"MEMORY:barnabas-{id(self)}"} if login.keytab else None
            credentials = library.Credentials(name=name, usage="initiate", store=store)
        target = library.Name(f"{login.service}@{self._host}", library.NameType.hostbased_service)
        self._context = library.SecurityContext(
            name=target, creds=credentials, mech=library.MechType.kerberos, usage="initiate"
        )
        return bytes(self._context.step() or b"")

    def _called(self, call: Callable[[], ValueT]) -> ValueT:
        try:
            return call()
        except self._gssapi.exceptions.GSSError as error:
            texts = error.get_all_statuses(error.maj_code, True) + error.get_all_statuses(error.min_code, False)
            raise SaslRefusal(f"GSSAPI: {'; '.join(dict.fromkeys(texts))}") from None


def _library() -> Any:
    try:
        return importlib.import_module("gssapi")
    except ImportError as error:
        raise ValueError(
            f"sasl.mechanism=GSSAPI needs python-gssapi ({error}): pip install 'barnabas[gssapi]', which compiles it"
        ) from None
