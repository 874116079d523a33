"""What deploy/pipeline brings for Kubernetes: valid, confined, of one piece. `make pipeline-k8s` runs it for real."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from barnabas_pipeline.core.tables_job import tables_job

pytestmark = pytest.mark.deep

ROOT = Path(__file__).parents[3]
PIPELINE = ROOT / "deploy/pipeline"
KUBERNETES = ("1.28", "1.34", "1.37")
CRD = Path(os.environ.get("SPARK_OPERATOR_CRD", ROOT / ".cache/spark-operator/sparkapplications.yaml"))

Object = dict[str, Any]


def documents(name: str) -> list[Object]:
    return list(yaml.safe_load_all((PIPELINE / name).read_text()))


def one(name: str, kind: str) -> Object:
    (found,) = [each for each in documents(name) if each["kind"] == kind]
    return found


APPLICATION = one("spark-application.yaml", "SparkApplication")["spec"]
DRIVER = one("kubernetes/driver.yaml", "Deployment")["spec"]["template"]["spec"]
POD = one("kubernetes/pod.yaml", "Pod")["spec"]
PODS = {
    "driver.yaml": DRIVER,
    "pod.yaml": POD,
    **{f"SparkApplication {role}": APPLICATION[role]["template"]["spec"] for role in ("driver", "executor")},
}
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def spark_properties() -> dict[str, str]:
    lines = (PIPELINE / "kubernetes/spark.properties").read_text().splitlines()
    return dict(re.split(r"\s+", line, maxsplit=1) for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize("version", KUBERNETES)
def test_every_object_is_valid(version: str) -> None:
    names = [f"kubernetes/{name}.yaml" for name in ("rbac", "tables", "driver", "pod")]
    objects = [each for name in names for each in documents(name)]
    objects.append(one("spark-application.yaml", "ConfigMap"))
    templates = [{"apiVersion": "v1", "kind": "Pod", "spec": spec} for spec in PODS.values()]
    for each in objects + templates:
        kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("spec", PODS.values(), ids=PODS.keys())
def test_every_pod_is_confined(spec: Object) -> None:
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (only,) = spec["containers"]
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounted = {each["name"]: each["mountPath"] for each in only["volumeMounts"]}
    assert mounted.keys() == {each["name"] for each in spec["volumes"]}
    assert mounted["scratch"] == "/tmp"
    assert mounted["tables"] == "/tables"


def test_the_job_is_one_and_the_same() -> None:
    job = yaml.safe_load((PIPELINE / "kubernetes/job.yaml").read_text())
    assert tables_job(job).checkpoint_root.startswith("/tables/")
    assert yaml.safe_load(one("spark-application.yaml", "ConfigMap")["data"]["job.yaml"]) == job


def test_names_fit_each_other() -> None:
    account = one("kubernetes/rbac.yaml", "ServiceAccount")["metadata"]["name"]
    assert account == DRIVER["serviceAccountName"] == APPLICATION["driver"]["serviceAccount"]
    assert account == spark_properties()["spark.kubernetes.authenticate.driver.serviceAccountName"]
    claim = one("kubernetes/tables.yaml", "PersistentVolumeClaim")["metadata"]["name"]
    claims = [each["persistentVolumeClaim"]["claimName"] for spec in PODS.values() for each in spec["volumes"][:1]]
    assert claims == [claim] * len(PODS)


def test_versions_are_those_of_the_project() -> None:
    images = {DRIVER["containers"][0]["image"], APPLICATION["image"]}
    images.add(spark_properties()["spark.kubernetes.container.image"])
    assert images == {f"barnabas-pipeline:{VERSION}"}
    assert f"pyspark=={APPLICATION['sparkVersion']}" in (ROOT / "constraints-pipeline.txt").read_text().splitlines()


def test_spark_submit_gets_a_program_that_it_takes_for_python() -> None:
    """Without .py it takes it for a jar: "Cannot load main class from JAR file"."""
    program = PIPELINE / "barnabas-pipeline.py"
    assert program.is_file()
    assert f"deploy/pipeline/{program.name} /opt/" in (PIPELINE / "Dockerfile").read_text()
    assert APPLICATION["mainApplicationFile"] == f"local:///opt/{program.name}"
    assert f"/opt/{program.name}" in DRIVER["containers"][0]["args"]


def test_the_build_sees_every_package_of_the_wheel() -> None:
    """The repository's own .dockerignore is the broker's: it has no `pipeline`."""
    seen = {line[1:] for line in (PIPELINE / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"}
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    folders = {package.partition("/")[0] for package in wheel["packages"]}
    assert folders | {"pipeline", "constraints.txt", "constraints-pipeline.txt", "deploy/pipeline"} <= seen


def test_spark_may_make_the_network_policy_that_it_makes_or_is_set_not_to() -> None:
    """Since 4.3 a submission in cluster mode fails without the right; the operator (2.5) has none to give."""
    rules = one("kubernetes/rbac.yaml", "Role")["rules"]
    verbs = {verb for rule in rules if "networkpolicies" in rule["resources"] for verb in rule["verbs"]}
    assert {"create", "patch"} <= verbs
    excluded = APPLICATION["sparkConf"]["spark.kubernetes.driver.pod.excludedFeatureSteps"]
    assert excluded.split(",") == ["org.apache.spark.deploy.k8s.features.NetworkPolicyFeatureStep"]


# --- the entry point, by what it starts ---


@pytest.fixture
def run_entrypoint(tmp_path: Path) -> Any:
    """Runs the entry point with programs that print a line for each argument."""
    for name in ("bin/spark-submit", "bin/java"):
        program = tmp_path / name
        program.parent.mkdir(exist_ok=True)
        program.write_text('#!/bin/bash\nprintf "%s\\n" "$(basename "$0")" "$@"\n')
        program.chmod(0o755)

    def run(*arguments: str, **environment: str) -> list[str]:
        places = {"PATH": os.environ["PATH"], "SPARK_HOME": str(tmp_path), "JAVA_HOME": str(tmp_path)}
        command = [str(PIPELINE / "entrypoint.sh"), *arguments]
        done = subprocess.run(command, env=places | environment, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    return run


def test_a_driver_is_submitted_as_a_client_at_its_pods_address(run_entrypoint: Any) -> None:
    rest = ["--properties-file", "/opt/spark/conf/spark.properties", "local:///opt/a b.py", "--job", "x"]
    lines = run_entrypoint("driver", *rest, SPARK_DRIVER_BIND_ADDRESS="10.0.0.7")
    address = ["--conf", "spark.driver.bindAddress=10.0.0.7"]
    assert lines == ["spark-submit", "--deploy-mode", "client", *address, *rest]


def test_an_executor_gets_its_options_whole_and_in_order(run_entrypoint: Any, tmp_path: Path) -> None:
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dnumber={number} of 12" for number in range(12)}
    spark = {
        "DRIVER_URL": "spark://d:1",
        "APPLICATION_ID": "app",
        "RESOURCE_PROFILE_ID": "0",
        "EXECUTOR_MEMORY": "512m",
    }
    spark |= {"EXECUTOR_ID": "3", "EXECUTOR_CORES": "2", "EXECUTOR_POD_IP": "10.0.0.8", "EXECUTOR_POD_NAME": "pod-3"}
    lines = run_entrypoint("executor", **options, **{f"SPARK_{name}": value for name, value in spark.items()})
    assert lines[: len(options) + 3] == ["java", *options.values(), "-Xms512m", "-Xmx512m"]
    classpath = lines[lines.index("-cp") + 1]
    assert classpath == f"{tmp_path}/conf:{tmp_path}/jars/*"
    pairs = dict(zip(lines[-14::2], lines[-13::2], strict=True))
    assert pairs == {
        "--driver-url": "spark://d:1",
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "app",
        "--hostname": "10.0.0.8",
        "--resourceProfileId": "0",
        "--podName": "pod-3",
    }


def test_anything_else_is_a_command(run_entrypoint: Any) -> None:
    assert run_entrypoint("printf", "%s\n", "one two", "three") == ["one two", "three"]


# --- the operator's schema ---


def strict(schema: Object) -> Object:
    """The schema with every key that it does not name forbidden, as `kubectl apply --validate=strict` has it."""
    closed = {key: value for key, value in schema.items() if key not in ("properties", "items", "additionalProperties")}
    if "properties" in schema:
        closed["properties"] = {name: strict(each) for name, each in schema["properties"].items()}
        closed["additionalProperties"] = bool(schema.get("x-kubernetes-preserve-unknown-fields", False))
    if isinstance(schema.get("additionalProperties"), dict):
        closed["additionalProperties"] = strict(schema["additionalProperties"])
    if "items" in schema:
        closed["items"] = strict(schema["items"])
    return closed


def test_the_application_is_what_the_operators_definition_says() -> None:
    """The operator has it in config/crd/bases; with its 0.8 MB it is not kept here."""
    if not CRD.is_file():
        pytest.skip(
            f"no definition of SparkApplication at {CRD} (SPARK_OPERATOR_CRD): it comes with the Spark operator"
        )
    (version,) = [each for each in yaml.safe_load(CRD.read_text())["spec"]["versions"] if each["name"] == "v1beta2"]
    schema = strict(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
    jsonschema.validate(APPLICATION, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**APPLICATION, "restarts": "always"}, schema)
