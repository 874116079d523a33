"""What is in the files of both distributions, and what they say of themselves."""

from __future__ import annotations

import email
import tarfile
import zipfile
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.packaging.conftest import Distribution
from tests.releases import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.deep]

PACKAGES = {
    "barnabas": {
        "barnabas",
        "barnabas_cli",
        "barnabas_controller",
        "barnabas_gateway",
        "barnabas_logstore",
        "barnabas_protos",
        "barnabas_purgatory",
    },
    "barnabas_pipeline": {"barnabas_pipeline"},
}
EXTRAS = {"barnabas": {"all", "controller", "gateway", "gssapi", "logstore", "traces"}, "barnabas_pipeline": set[str]()}
COMMANDS = {"barnabas": "barnabas", "barnabas_pipeline": "barnabas-pipeline"}
each_distribution = pytest.mark.parametrize("name", list(PACKAGES))

Distributions = dict[str, Distribution]


def files_of(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def information(wheel: Path, file: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(f".dist-info/{file}")]
        return archive.read(name).decode()


def metadata(wheel: Path) -> Message:
    return email.message_from_string(information(wheel, "METADATA"))


@each_distribution
def test_a_wheel_installs_no_package_of_a_name_that_others_may_have(distributions: Distributions, name: str) -> None:
    tops = {file.partition("/")[0] for file in files_of(distributions[name].wheel)}
    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES[name]


@each_distribution
def test_every_package_states_that_it_is_typed(distributions: Distributions, name: str) -> None:
    assert {f"{package}/py.typed" for package in PACKAGES[name]} <= files_of(distributions[name].wheel)


@each_distribution
def test_a_wheel_has_every_file_of_its_packages_that_git_has(distributions: Distributions, name: str) -> None:
    """An sdist that leaves something out would go unnoticed until an import fails."""
    folders = [ROOT, ROOT / "cli", ROOT / "pipeline", ROOT / "protos", *(ROOT / "services").iterdir()]
    packages = [folder / package for folder in folders for package in PACKAGES[name] if (folder / package).is_dir()]
    assert {package.name for package in packages} == PACKAGES[name]
    expected = {
        path.relative_to(package.parent).as_posix()
        for package in packages
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {file for file in files_of(distributions[name].wheel) if ".dist-info/" not in file} == expected


@each_distribution
def test_every_dependency_has_a_lower_and_an_upper_bound(distributions: Distributions, name: str) -> None:
    for line in metadata(distributions[name].wheel).get_all("Requires-Dist", []):
        requirement = Requirement(line)
        operators = {specifier.operator for specifier in requirement.specifier}
        is_own_extra = name == requirement.name == "barnabas"
        assert is_own_extra or operators == {"=="} or operators == {">=", "<"}, line


@each_distribution
def test_extras_are_those_of_users(distributions: Distributions, name: str) -> None:
    """What only work on Barnabas needs is a dependency group, which no wheel has."""
    assert set(metadata(distributions[name].wheel).get_all("Provides-Extra", [])) == EXTRAS[name]


@each_distribution
def test_metadata_is_complete(distributions: Distributions, name: str) -> None:
    found = metadata(distributions[name].wheel)
    assert found["License-Expression"] == "Apache-2.0"
    assert found["License-File"] == "LICENSE"
    assert found["Requires-Python"] == ">=3.11"
    assert found["Description-Content-Type"] == "text/markdown"
    assert found["Author"]
    assert found["Summary"]
    assert found["Keywords"]
    assert "Typing :: Typed" in found.get_all("Classifier", [])
    assert str(found.get_payload()).strip()
    assert f"{COMMANDS[name]} = " in information(distributions[name].wheel, "entry_points.txt")


@each_distribution
def test_an_sdist_has_no_tests_and_nothing_of_the_checkout(distributions: Distributions, name: str) -> None:
    with tarfile.open(distributions[name].sdist) as archive:
        paths = {tuple(member.name.split("/")[1:]) for member in archive.getmembers()}
    own = {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO", ".gitignore"}
    allowed = {"barnabas": {"barnabas", "services", "protos", "CHANGELOG.md", "cli", "constraints.txt", "scripts"}}
    assert {path[0] for path in paths} <= own | allowed.get(name, {"barnabas_pipeline"})
    scripts = {path[1] for path in paths if path[0] == "scripts"}
    assert scripts <= {"__init__.py", "compiled"}, "what the wheel's build hook runs"
