"""The manifests configure by the environment, where a name that is no key is ignored: a slip would go unseen."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from barnabas.runtime.config import load_config
from services.controller.shell.config import ControllerConfig
from services.gateway.shell.config import GatewayProperties
from services.logstore.shell.config import LogstoreSettings
from services.purgatory.shell.config import PurgatoryConfig

MANIFESTS = Path(__file__).parents[3] / "deploy/k8s"
ROLES: dict[str, type[msgspec.Struct]] = {
    "controller": ControllerConfig,
    "gateway": GatewayProperties,
    "logstore": LogstoreSettings,
    "purgatory": PurgatoryConfig,
}


def environment_of(role: str) -> dict[str, str]:
    """The variables of a role, with what Kubernetes fills in at run time filled in."""
    found = re.findall(
        r"\{name: (BARNABAS_\w+), value(?:: \"?([^\"}]*?)\"?|From: .*)\}", (MANIFESTS / f"{role}.yaml").read_text()
    )
    filled = {name: value.replace("$(POD_NAME)", f"{role}-0").replace("$(POD_IP)", "10.0.0.7") for name, value in found}
    return {name: value or "0" for name, value in filled.items()}


@pytest.mark.parametrize("role", ROLES)
def test_every_variable_is_a_key_of_its_service_and_its_value_is_taken(
    role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = environment_of(role)
    assert len(environment) >= 4
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    config = msgspec.to_builtins(load_config(ROLES[role], [], program=role).config)
    keys = {"BARNABAS_" + key.upper().replace(".", "_") for key in config}
    assert environment.keys() <= keys
