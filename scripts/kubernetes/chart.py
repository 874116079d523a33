"""The Helm chart as tests see it: rendered by Helm's own engine (the package helm-python-sdk), as objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import helm_python
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/k8s/chart"
EXAMPLES = CHART / "examples"

Values = dict[str, Any]
Object = dict[str, Any]


def example(name: str) -> Values:
    values = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    assert isinstance(values, dict)
    return values


def render_files(values: Values | None = None, release: str = "barnabas", namespace: str = "prod") -> dict[str, str]:
    """By template, in their order; what renders to nothing is left out. Raises helm_python.HelmError."""
    with helm_python.Chart.load(CHART) as chart:
        files = chart.render(values or {}, name=release, namespace=namespace)
    return {Path(path).name: text for path, text in sorted(files.items()) if path.endswith(".yaml") and text.strip()}


def notes(values: Values | None = None) -> str:
    """What `helm install` prints."""
    with helm_python.Chart.load(CHART) as chart:
        files = chart.render(values or {}, name="barnabas", namespace="prod")
    (text,) = [text for path, text in files.items() if path.endswith("NOTES.txt")]
    return str(text)


def render(values: Values | None = None, release: str = "barnabas", namespace: str = "prod") -> list[Object]:
    """Every object. Raises helm_python.HelmError."""
    texts = render_files(values, release, namespace).values()
    return [each for text in texts for each in yaml.safe_load_all(text) if each]


def refusal(values: Values) -> str:
    """Why Helm renders nothing, without what it says of its own templates around it."""
    try:
        render(values)
    except helm_python.HelmError as error:
        return str(error).strip().splitlines()[-1].rpartition("): ")[2].removeprefix("- ")
    raise AssertionError("it renders")


def find(objects: list[Object], kind: str, name: str) -> Object:
    (found,) = [each for each in objects if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def pod_templates(objects: list[Object]) -> dict[str, Object]:
    """By role."""
    workloads = [each for each in objects if each["kind"] in ("Deployment", "StatefulSet")]
    return {each["metadata"]["labels"]["app.kubernetes.io/component"]: each["spec"]["template"] for each in workloads}


def job_templates(objects: list[Object]) -> list[Object]:
    """Of Jobs and CronJobs."""
    jobs = [each["spec"] for each in objects if each["kind"] == "Job"]
    jobs += [each["spec"]["jobTemplate"]["spec"] for each in objects if each["kind"] == "CronJob"]
    return [each["template"] for each in jobs]


def container(objects: list[Object], role: str) -> Object:
    (only,) = pod_templates(objects)[role]["spec"]["containers"]
    assert isinstance(only, dict)
    return only
