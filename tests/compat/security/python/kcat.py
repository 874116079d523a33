"""kcat in each cell: Debian's librdkafka, which has GSSAPI."""

from __future__ import annotations

import re
import subprocess

from tests.compat.security.cells import OAUTHBEARER, Cell
from tests.compat.security.python.cells import PATIENCE_S, RECORDS, REFUSED_WITHIN_S, run_cells, values_of


def settings(cell: Cell) -> dict[str, str]:
    config = {"security.protocol": cell.protocol}
    if cell.ca:
        config["ssl.ca.location"] = cell.ca
    if cell.certificate:
        config["ssl.certificate.location"] = config["ssl.key.location"] = cell.certificate
    if cell.service:
        config |= {
            "sasl.mechanism": cell.mechanism,
            "sasl.kerberos.service.name": cell.service,
            "sasl.kerberos.principal": cell.principal,
            "sasl.kerberos.keytab": cell.keytab,
        }
    elif cell.mechanism:
        config |= {"sasl.mechanism": cell.mechanism, "sasl.username": cell.user, "sasl.password": cell.password}
    return config


def _kcat(cell: Cell, seconds: float, *arguments: str, stdin: bytes = b"") -> bytes:
    """Raises AssertionError with what it printed."""
    given = [word for key, value in settings(cell).items() for word in ("-X", f"{key}={value}")]
    command = ["kcat", "-b", cell.bootstrap, *given, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=seconds, check=False)
    assert done.returncode == 0, " ".join(done.stderr.decode().split())
    return done.stdout


def use(cell: Cell) -> list[bytes]:
    text = b"".join(value + b"\n" for value in values_of(cell))
    _kcat(cell, PATIENCE_S, "-P", "-t", cell.topic, "-p", "0", "-X", "allow.auto.create.topics=true", stdin=text)
    reading = ("-C", "-t", cell.topic, "-p", "0", "-o", "beginning", "-c", str(RECORDS), "-q")
    return _kcat(cell, PATIENCE_S, *reading).splitlines()


def connect(cell: Cell) -> None:
    _kcat(cell, REFUSED_WITHIN_S, "-L", "-m", "4")


if __name__ == "__main__":
    printed = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Version (\S+).*librdkafka (\S+)", printed)
    assert found is not None, printed
    run_cells(f"{found[1]} (librdkafka {found[2]})", use, connect, lacking=[OAUTHBEARER])
