"""GSSAPI at one listener, by Kafka's keys and the options of Java's Krb5LoginModule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.cluster.jaas import KERBEROS_MODULE
from barnabas_gateway.core.model.config import KerberosConfig
from barnabas_gateway.core.model.kerberos_names import parse_short_name_rules

_SERVICE_NAME: Final = "sasl.kerberos.service.name"
_RULES: Final = "sasl.kerberos.principal.to.local.rules"
KERBEROS_KEYS: Final = (_SERVICE_NAME, _RULES)
"""For all listeners or, with a prefix, for one, or for its mechanism `gssapi`."""
_KEYTAB: Final = "keyTab"
_PRINCIPAL: Final = "principal"
_SERVICE_OPTION: Final = "serviceName"
_ALWAYS_TRUE: Final = ("useKeyTab", "storeKey")
_WITHOUT_EFFECT: Final = ("debug", "doNotPrompt", "isInitiator", "refreshKrb5Config", "renewTGT", "useTicketCache")
"""Options of those who get tickets: a gateway needs none."""
_OPTIONS: Final = (_KEYTAB, _PRINCIPAL, _SERVICE_OPTION, *_ALWAYS_TRUE, *_WITHOUT_EFFECT)


def kerberos_config(options: Mapping[str, str], values: Mapping[str, str]) -> KerberosConfig:
    """Return what a listener's login module and keys say, `KERBEROS_KEYS` without empty ones. Raises ValueError."""
    unknown = [option for option in options if option not in _OPTIONS]
    if unknown:
        raise ValueError(f"unknown options of Krb5LoginModule: {', '.join(unknown)}; known are {', '.join(_OPTIONS)}")
    for option in _ALWAYS_TRUE:
        if options.get(option, "true").lower() != "true":
            raise ValueError(f"{option}={options[option]}: a gateway has its key in a key table, so it has to be true")
    for option in (_KEYTAB, _PRINCIPAL):
        if not options.get(option):
            raise ValueError(
                f'{option} is needed for GSSAPI: {KERBEROS_MODULE} required {_KEYTAB}="FILE" '
                f'{_PRINCIPAL}="kafka/HOST@REALM";'
            )
    principal = options[_PRINCIPAL]
    _check_service_name(principal, options.get(_SERVICE_OPTION, ""), values.get(_SERVICE_NAME, ""))
    texts = [each.strip() for each in values.get(_RULES, "DEFAULT").split(",")]
    try:
        rules = parse_short_name_rules(texts)
    except ValueError as error:
        raise ValueError(f"{_RULES}: {error}") from None
    return KerberosConfig(options[_KEYTAB], principal, rules)


def _check_service_name(principal: str, by_option: str, by_key: str) -> None:
    """Clients ask for a ticket of `<service name>/<host>`: with another name none could get in."""
    if by_option and by_key and by_option != by_key:
        raise ValueError(f"{_SERVICE_OPTION}={by_option} and {_SERVICE_NAME}={by_key} differ")
    name = by_option or by_key
    if name and name != principal.partition("@")[0].partition("/")[0]:
        raise ValueError(f"the service name {name} is not that of {_PRINCIPAL}={principal}")
