"""KerberosAcceptors: security contexts of Kerberos, by MIT Kerberos' library through python-gssapi.

A key table is opened again for each token, so that a new key is used at once. Where `krb5.conf` is KRB5_CONFIG says;
what has been seen before is in its replay cache (`default_rcache_name`), a file for all processors of a host.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from barnabas_gateway.core.model.config import KerberosConfig
from barnabas_gateway.core.sasl.gssapi import SecurityContext, SecurityContextError

_REASON_CHARACTERS_MAX: Final = 300
_SAYS_NOTHING: Final = ("Unspecified GSS failure", "Success", "Unknown")
_FIRST_ERROR: Final = -1765328384
"""Of krb5's table; RFC 4120's numbers are behind it."""
_RETRIABLE: Final = (_FIRST_ERROR + 33, _FIRST_ERROR + 34)
"""KRB_AP_ERR_TKT_NYV and KRB_AP_ERR_REPEAT (Kafka's KerberosError)."""
_FOREVER_S: Final = 0xFFFF_FFFF

ValueT = TypeVar("ValueT")


class KerberosAcceptors:
    def __init__(self, configs: Iterable[KerberosConfig], wall_ms: Callable[[], int]) -> None:
        """Raises OSError if the library is not there, or a key table has no key of its principal."""
        self._wall_ms = wall_ms
        self._credentials: dict[KerberosConfig, Any] = {}
        self._default_realm = ""
        for config in configs:
            self._gssapi = _library()
            self._default_realm = self._find_default_realm()
            self._credentials[config] = self._acquire(config)

    def begin(self, config: KerberosConfig) -> SecurityContext:
        context = self._gssapi.SecurityContext(creds=self._credentials[config], usage="accept")
        return _KerberosContext(context, self._gssapi.exceptions.GSSError, self._default_realm, self._wall_ms)

    def _acquire(self, config: KerberosConfig) -> Any:
        library = self._gssapi
        try:
            name = library.Name(config.principal, library.NameType.kerberos_principal)
            return library.Credentials(
                name=name, usage="accept", mechs=[library.MechType.kerberos], store={"keytab": config.keytab}
            )
        except library.exceptions.GSSError as error:
            raise OSError(f"GSSAPI as {config.principal} with {config.keytab}: {_reason(error)}") from None

    def _find_default_realm(self) -> str:
        """Return it from `krb5.conf`; empty, as in Kafka, if there is none: the rule DEFAULT never applies then."""
        library = self._gssapi
        try:
            name = library.Name("user", library.NameType.user).canonicalize(library.MechType.kerberos)
        except library.exceptions.GSSError:
            return ""
        return str(name).partition("@")[2]


class _KerberosContext:
    """A context of one client."""

    def __init__(self, context: Any, error: type[Exception], default_realm: str, wall_ms: Callable[[], int]) -> None:
        self._context = context
        self._error = error
        self._wall_ms = wall_ms
        self.default_realm = default_realm
        self.is_established = False

    def accept(self, token: bytes) -> bytes:
        answer = self._called(lambda: bytes(self._context.step(token) or b""))
        # An error for which there is a token for the client is raised by what is called next.
        self.is_established = self._called(lambda: bool(self._context.complete))
        return answer

    def initiator(self) -> str:
        try:
            return self._called(lambda: bytes(self._context.initiator_name)).decode()
        except UnicodeDecodeError:
            raise SecurityContextError("a principal that is not UTF-8") from None

    def expires_ms(self) -> int | None:
        left_s = self._called(lambda: int(self._context.lifetime))
        return None if left_s >= _FOREVER_S else self._wall_ms() + left_s * 1000

    def wrap(self, message: bytes) -> bytes:
        return self._called(lambda: bytes(self._context.wrap(message, False).message))

    def unwrap(self, message: bytes) -> bytes:
        return self._called(lambda: bytes(self._context.unwrap(message).message))

    def _called(self, call: Callable[[], ValueT]) -> ValueT:
        try:
            return call()
        except self._error as error:
            raise SecurityContextError(_reason(error), is_retriable=_code(error) in _RETRIABLE) from None


def _library() -> Any:
    try:
        return importlib.import_module("gssapi")
    except ImportError as error:
        raise OSError(
            f"GSSAPI needs python-gssapi ({error}): pip install 'barnabas[gssapi]', which compiles it: install a C "
            "compiler and the headers of Python and MIT Kerberos first (Debian: gcc python3-dev libkrb5-dev)"
        ) from None


def _reason(error: Any) -> str:
    """Return what the library says of GSSAPI's error and of the mechanism's own."""
    texts = error.get_all_statuses(error.maj_code, True)
    if error.min_code:
        texts += error.get_all_statuses(error.min_code, False)
    said = [each for each in dict.fromkeys(texts) if each and not each.startswith(_SAYS_NOTHING)]
    return "; ".join(said)[:_REASON_CHARACTERS_MAX] or "an error that Kerberos does not explain"


def _code(error: Any) -> int:
    """Return the mechanism's error as a signed number."""
    code = int(error.min_code) & 0xFFFF_FFFF
    return code - (1 << 32) if code >> 31 else code
