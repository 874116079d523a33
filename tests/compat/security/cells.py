"""The cells of the matrix: each way to authenticate on each kind of connection, with the secret and without it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from tests.integration.kerberos_realm import REALM

NAME: Final = "localhost"
"""The host of all brokers, by the name that Kerberos has for it."""
USER: Final = "alice"
PASSWORD: Final = "alice-secret"
SCRAMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
MECHANISMS: Final = ("PLAIN", *SCRAMS, OAUTHBEARER, GSSAPI)
MUTUAL: Final = "mTLS"

LISTENERS: Final = {
    "CLEAR": ("SASL_PLAINTEXT", "", MECHANISMS),
    "TLS12": ("SASL_SSL", "TLSv1.2", MECHANISMS),
    "TLS13": ("SASL_SSL", "TLSv1.3", MECHANISMS),
    "MUTUAL12": ("SSL", "TLSv1.2", (MUTUAL,)),
    "MUTUAL13": ("SSL", "TLSv1.3", (MUTUAL,)),
}
"""By listener: its protocol, the one version of TLS that it serves, and the ways to authenticate at it."""
PORTS: Final = {name: 10 * number for number, name in enumerate(LISTENERS)}
"""The offset of a listener's bootstrap port, behind which are the ports of its brokers."""


@dataclass(slots=True, frozen=True)
class Cell:
    """What a client is to do, as the programs of all languages read it."""

    name: str
    bootstrap: str
    protocol: str
    mechanism: str
    """Empty: the certificate is the way to authenticate."""
    topic: str = ""
    user: str = ""
    password: str = ""
    ca: str = ""
    """Path of the authority's certificate; empty: no TLS."""
    certificate: str = ""
    """Path of a private key and its certificate, PEM; empty: none."""
    token_path: str = ""
    """Of a file with an access token."""
    service: str = ""
    """The service that a ticket of Kerberos is for; its host is localhost."""
    principal: str = ""
    keytab: str = ""
    krb5_conf: str = ""
    is_refused: bool = False
    """Whether its secret is wrong, so that its connection has to fail, and soon."""


def cells(first_port: int, secrets: Path, prefix: str) -> list[Cell]:
    """Return all cells for one client; its topics begin with `prefix`."""
    made = []
    for listener, (protocol, version, ways) in LISTENERS.items():
        for way in ways:
            name = "-".join(part for part in (way, version or "SASL_PLAINTEXT") if part)
            cell = Cell(
                name=name,
                bootstrap=f"{NAME}:{first_port + PORTS[listener]}",
                protocol=protocol,
                mechanism="" if way == MUTUAL else way,
                topic=f"{prefix}-{name}",
                ca=str(secrets / "ca.crt") if version else "",
            )
            if way == MUTUAL:
                made.append(replace(cell, certificate=str(secrets / "client.pem")))
                wrong = replace(cell, certificate=str(secrets / "foreign.pem"))
            elif way == OAUTHBEARER:
                made.append(replace(cell, token_path=str(secrets / "client.jwt")))
                wrong = replace(cell, token_path=str(secrets / "foreign.jwt"))
            elif way == GSSAPI:
                realm = secrets / "realm"
                cell = replace(cell, keytab=str(realm / f"{USER}.keytab"), krb5_conf=str(realm / "krb5.conf"))
                made.append(replace(cell, service="kafka", principal=f"{USER}@{REALM}"))
                wrong = replace(cell, service="other", principal=f"{USER}@{REALM}")
            else:
                made.append(replace(cell, user=USER, password=PASSWORD))
                wrong = replace(cell, user=USER, password="guess")
            made.append(replace(wrong, name=f"{name}-refused", is_refused=True))
    return made


def write_cells(path: Path, made: Iterable[Cell]) -> None:
    path.write_bytes(msgspec.json.encode([asdict(cell) for cell in made]))


def read_cells(path: Path) -> list[Cell]:
    return msgspec.json.decode(path.read_bytes(), type=list[Cell])
