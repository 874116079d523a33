"""Clients' own tests of authentication, where their packages have any: franz-go's, from the Go module proxy."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Final

from barnabas_cli.local.layout import HOST
from tests.compat.matrix.programs import Report
from tests.compat.matrix.toolchains import UnavailableError, prepare
from tests.compat.security.cells import PASSWORD, PORTS, USER

_MODULE: Final = "github.com/twmb/franz-go"
_SECONDS_MAX: Final = 600
_RESULT: Final = re.compile(r"^--- (PASS|FAIL|SKIP): (\w+)", re.MULTILINE)
_BEFORE_CLEAR: Final = 80
"""Ports from the PLAINTEXT listener, which their other helpers need, to the first that is secured."""


def franz_go_tests(first_port: int, log: Path) -> Report:
    """Run TestSCRAM… of its package kgo."""
    try:
        directory = prepare("security-go")
    except UnavailableError as reason:
        return Report(skipped=str(reason))
    command = ["go", "test", "-mod=mod", "-count=1", "-v", "-run", "^TestSCRAM", f"{_MODULE}/pkg/kgo"]
    environment = {
        "KGO_SEEDS": f"{HOST}:{first_port - _BEFORE_CLEAR}",
        "KGO_TEST_SCRAM": f"{USER}:{PASSWORD}:256",
        "KGO_TEST_SCRAM_SEEDS": f"{HOST}:{first_port + PORTS['CLEAR']}",
    }
    log.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    log.write_text(done.stdout)
    results = {name: "" if verdict == "PASS" else verdict for verdict, name in _RESULT.findall(done.stdout)}
    return Report(results=results or {"start": done.stdout[-300:]})
