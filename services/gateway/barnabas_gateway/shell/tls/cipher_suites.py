"""`ssl.cipher.suites`: suites by the names that Java and IANA give them, as OpenSSL takes them.

Of TLS 1.3 OpenSSL serves three suites, and Python's `ssl` has no call to choose among them: a list has all of these or
none. A list without any suite of a version ends that version.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from functools import cache
from typing import Final

_PREFIX: Final = "TLS_"
_WITH: Final = "_WITH_"
_STATIC_RSA: Final = "RSA"
_TLS_1_3: Final = "TLSv1.3"


@cache
def _served() -> dict[str, str]:
    """The version by the name that OpenSSL has for a suite; none without encryption or without a certificate."""
    suites = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).get_ciphers()
    return {
        each["name"]: each["protocol"] for each in suites if "PSK" not in each["name"] and "SRP" not in each["name"]
    }


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a suite: ECDHE-RSA-AES128-GCM-SHA256 of TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256.

    Raises ValueError for one that is not served.
    """
    name = suite
    if suite.startswith(_PREFIX) and _WITH in suite:
        exchange, cipher = suite.removeprefix(_PREFIX).split(_WITH, 1)
        cipher = cipher.replace("AES_", "AES").replace("_CBC", "").replace("POLY1305_SHA256", "POLY1305")
        exchange = "" if exchange == _STATIC_RSA else f"{exchange}_"
        name = f"{exchange}{cipher}".replace("_", "-")
    if not suite.startswith(_PREFIX) or name not in _served():
        raise ValueError(f"ssl.cipher.suites={suite}: expected names like TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
    return name


def choose_suites(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    """Have the context serve these suites alone, the first that the client has too. Raises ValueError."""
    names = [openssl_name(suite) for suite in suites]
    of_1_3 = {name for name, version in _served().items() if version == _TLS_1_3}
    chosen_of_1_3 = of_1_3.intersection(names)
    if chosen_of_1_3 and chosen_of_1_3 != of_1_3:
        raise ValueError(
            f"ssl.cipher.suites: Python's ssl can't choose among the suites of TLS 1.3; list all of "
            f"{', '.join(sorted(of_1_3))}, or none"
        )
    older = [name for name in names if name not in of_1_3]
    lowest = context.minimum_version if older else ssl.TLSVersion.TLSv1_3
    highest = context.maximum_version if chosen_of_1_3 else ssl.TLSVersion.TLSv1_2
    if lowest > highest:
        raise ValueError("ssl.cipher.suites has no suite of a version that ssl.enabled.protocols has")
    context.minimum_version, context.maximum_version = lowest, highest
    if older:
        context.set_ciphers(":".join(older))
