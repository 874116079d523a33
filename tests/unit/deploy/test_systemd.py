"""The units for systemd: systemd takes them, and every command, key and file that they name is there."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from barnabas.runtime.configuration.config import build_config
from barnabas.runtime.configuration.properties import parse_properties
from barnabas_controller.shell.config import ControllerConfig
from barnabas_gateway.shell.config import GatewayProperties
from barnabas_gateway.shell.processor_ipc import DRAIN_GRACE_MS
from barnabas_logstore.shell.config import LogstoreSettings
from barnabas_purgatory.shell.config import PurgatoryConfig

DIRECTORY = Path(__file__).parents[3] / "deploy/systemd"
UNITS = sorted(DIRECTORY.glob("*.service"))
CONFIGS: dict[str, type[msgspec.Struct]] = {
    "controller": ControllerConfig,
    "gateway": GatewayProperties,
    "logstore": LogstoreSettings,
    "purgatory": PurgatoryConfig,
}


def settings(unit: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def command(unit: Path) -> list[str]:
    return settings(unit)["ExecStart"][0].split()


def service_of(unit: Path) -> str:
    return unit.stem.removeprefix("barnabas-").removesuffix("@")


@pytest.mark.parametrize("unit", [each for each in UNITS if service_of(each) != "etcd"], ids=lambda unit: unit.stem)
def test_a_unit_runs_a_service_that_is_there_with_a_configuration_that_it_takes(unit: Path) -> None:
    arguments = command(unit)
    assert arguments[:2] == ["/opt/barnabas/bin/python", "-m"]
    assert arguments[2] == f"barnabas_{service_of(unit)}"
    assert importlib.util.find_spec(f"{arguments[2]}.__main__") is not None
    values: dict[str, tuple[str, str]] = {}
    for option, value in zip(arguments[3::2], arguments[4::2], strict=True):
        value = value.replace("%i", "1")
        if option == "--config":
            path = DIRECTORY / "etc" / Path(value).relative_to("/etc/barnabas")
            values |= {key: (text, path.name) for key, text in parse_properties(path.read_text()).items()}
        else:
            assert option == "--set"
            key, _, text = value.partition("=")
            values[key] = (text, "--set")
    build_config(CONFIGS[service_of(unit)], values)


def test_every_configuration_is_some_units() -> None:
    named = {Path(part).name.replace("%i", "1") for unit in UNITS for part in command(unit) if part.startswith("/etc/")}
    assert named == {path.name for path in (DIRECTORY / "etc").iterdir()}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_restarts_stops_gently_and_is_confined(unit: Path) -> None:
    found = settings(unit)
    assert found["Restart"] == ["always"]
    assert found["RestartPreventExitStatus"] == ["2"]
    assert (found["KillMode"], found["KillSignal"]) == (["mixed"], ["SIGTERM"])
    assert int(found["TimeoutStopSec"][0]) > DRAIN_GRACE_MS / 1000 + 10
    assert int(found["LimitNOFILE"][0]) >= 65_536
    assert found["User"] == ["barnabas"]
    for key in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "ProtectKernelTunables", "RestrictNamespaces"):
        assert found[key] == ["yes"]
    assert found["ProtectSystem"] == ["strict"]
    assert found["CapabilityBoundingSet"] == [""]
    if service_of(unit) != "etcd":
        assert "BARNABAS_LANE_DIRECTORY=/run/barnabas-lanes" in found["Environment"], "/tmp is private"
        assert (found["RuntimeDirectory"], found["RuntimeDirectoryMode"]) == (["barnabas-lanes"], ["0700"])


def test_the_readme_names_every_unit() -> None:
    readme = (DIRECTORY / "README.md").read_text()
    for unit in UNITS:
        assert unit.name.replace("@", "@ID") in readme


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """With commands that are there, which is all that is changed."""
    for unit in [*UNITS, *DIRECTORY.glob("*.target")]:
        text = (
            unit.read_text().replace("/opt/barnabas/bin/python", sys.executable).replace("/usr/bin/etcd", "/bin/true")
        )
        (tmp_path / unit.name.replace("@.", "@1.")).write_text(text)
    answer = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, sorted(tmp_path.iterdir()))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    ours = [line for line in answer.stderr.splitlines() if "barnabas" in line]
    assert (answer.returncode, ours) == (0, []), answer.stderr
