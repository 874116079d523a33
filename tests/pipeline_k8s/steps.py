"""The steps of the trial, in their order. Each says what it has seen, or raises AssertionError with what is wrong."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.k8s import images as broker
from tests.k8s.cluster import CommandFailed, wait_until
from tests.pipeline_k8s import images
from tests.pipeline_k8s.trial import BROKER_TAG, KUBERNETES, NAMESPACE, Trial, version

RECORDS = 200_000
BATCH_RECORDS_MAX = 10_000
RATE = 500.0
EXECUTORS = "spark-role=executor"
APPLICATION = images.PIPELINE / "spark-application.yaml"
CONFINED = ("--network", "none", "--hostname", "localhost", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL")
LOCAL_SPARK = "from pyspark.sql import SparkSession; print(SparkSession.builder.getOrCreate().range(5).count())"


def build(trial: Trial) -> list[str]:
    """The image: confined, it runs the command and a local Spark. The broker's, if they are not there."""
    named = [f"{trial.cluster.registry}/barnabas-{role}:{BROKER_TAG}" for role in broker.ROLES]
    if not all(images.is_there(trial.cluster, image) for image in named):
        broker.build(trial.cluster, BROKER_TAG)
    megabytes = images.build(trial.cluster, trial.image)
    run = ("docker", "run", "--rm", *CONFINED)
    user = trial.cluster.run(*run, "--entrypoint", "id", trial.image, "-u").strip()
    assert user == "10001", user
    command_help = trial.cluster.run(*run, trial.image)
    assert "tables" in command_help, command_help
    java = trial.cluster.run(*run, trial.image, "java", "--version").splitlines()[0]
    counted = trial.cluster.run(*run, trial.image, "python", "-c", LOCAL_SPARK).split()
    assert counted[-1] == "5", counted
    return [f"{megabytes:.0f} MB on top of its base; {java}; user {user}", "no network, root file system read-only"]


def install(trial: Trial) -> list[str]:
    """A broker by the chart, a volume for the tables, and the driver's rights."""
    trial.clean_up()
    trial.install()
    return [f"one of everything in {NAMESPACE}, which enforces the restricted Pod Security Standard"]


def submitted(trial: Trial) -> list[str]:
    """`spark-submit --deploy-mode cluster`: an executor and the driver killed in the middle; submitted again."""
    trial.produce("submitted", RECORDS)
    options = {"maxOffsetsPerTrigger": str(BATCH_RECORDS_MAX)}
    job = trial.job("submitted", "submitted", until="now", options=options)
    configmap = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "orders-tables", "namespace": NAMESPACE}}
    trial.cluster.apply({**configmap, "data": {"job.yaml": job}})
    trial.submit("submitted-1", trial.properties())
    lines = [_executor_killed(trial, "submitted"), _driver_killed(trial, "submitted", "submitted-1")]
    assert trial.rows("submitted") < RECORDS, "the job had ended before its driver was killed"
    trial.submit("submitted-2", trial.properties())
    assert trial.wait_for_end("submitted-2") == "Succeeded", trial.log_of("submitted-2")
    return [*lines, "submitted again, it ended by itself: Succeeded", trial.judge("submitted")]


def deployed(trial: Trial) -> list[str]:
    """The driver as a Deployment, tailing: executor and driver killed, then a rollout; nothing is started by hand."""
    trial.produce("deployed", 1)
    with _kustomized(trial, "deployed"), _steady_records(trial, "deployed"):
        seconds = trial.wait_for_rows("deployed", 1)
        lines = [f"the first rows {seconds:.0f} s after `kubectl apply --kustomize`"]
        lines.append(_executor_killed(trial, "deployed"))
        (driver,) = trial.running("app=orders-tables")
        lines.append(_driver_killed(trial, "deployed", driver))
        lines.append(_goes_on(trial, "deployed"))
        trial.kubectl("rollout", "restart", "deployment/orders-tables")
        trial.kubectl("rollout", "status", "deployment/orders-tables", "--timeout=300s")
        lines.append(f"a rollout, by SIGTERM: {_goes_on(trial, 'deployed')}")
    metrics = trial.metrics("deployed")
    return [*lines, f"the metrics file: {json.dumps(metrics)}", trial.judge("deployed")]


def operator(trial: Trial) -> list[str]:
    """The SparkApplication by the Spark operator: valid, started, and started again when its driver is killed."""
    try:
        trial.cluster.run("kubectl", "get", "crd", "sparkapplications.sparkoperator.k8s.io")
    except CommandFailed:
        return ["not done: no Spark operator in this cluster"]
    text = _application(trial, "operated")
    trial.kubectl("apply", "--dry-run=server", "--validate=strict", "--filename", "-", text=text)
    trial.produce("operated", 1)
    trial.kubectl("apply", "--validate=strict", "--filename", "-", text=text)
    with _steady_records(trial, "operated"):
        seconds = trial.wait_for_rows("operated", 1)
        lines = [f"strictly valid; the first rows {seconds:.0f} s after `kubectl apply`"]
        lines.append(_executor_killed(trial, "operated"))
        lines.append(_driver_killed(trial, "operated", "orders-tables-driver"))
        lines.append(_goes_on(trial, "operated"))
    trial.wait_for_rows("operated", trial.produced["operated"])
    state = trial.kubectl(
        "get", "sparkapplication", "orders-tables", "--output", "jsonpath={.status.applicationState.state}"
    )
    trial.kubectl("delete", "--filename", "-", text=text)
    return [*lines, f"the application is {state}", trial.judge("operated")]


def uninstall(trial: Trial) -> list[str]:
    """Nothing is left."""
    trial.clean_up()
    return [f"{NAMESPACE} and its volumes are gone"]


# --- what steps share ---


def _executor_killed(trial: Trial, table: str) -> str:
    wait_until("two executors", lambda: len(trial.running(EXECUTORS)) == 2, timeout_s=240)
    before = trial.rows(table)
    trial.wait_for_rows(table, before + 1)
    killed = trial.running(EXECUTORS)[0]
    trial.kill(killed)
    at_the_kill = trial.rows(table)
    trial.wait_for_rows(table, at_the_kill + 2 * BATCH_RECORDS_MAX if table == "submitted" else at_the_kill + 1)
    return f"an executor killed at {at_the_kill:,} rows; the job went on with another"


def _driver_killed(trial: Trial, table: str, driver: str) -> str:
    executors = set(trial.running(EXECUTORS))
    trial.kill(driver)
    at_the_kill = trial.rows(table)
    seconds = wait_until("the end of its executors", lambda: not executors & set(trial.running(EXECUTORS)), 240)
    return f"the driver killed at {at_the_kill:,} rows; its executors ended within {seconds:.0f} s"


def _goes_on(trial: Trial, table: str) -> str:
    before = trial.rows(table)
    return f"new rows {trial.wait_for_rows(table, before + 1):.0f} s later, without anybody's help"


@contextmanager
def _steady_records(trial: Trial, topic: str) -> Generator[None]:
    """Records come for as long as the block runs."""
    over = threading.Event()
    failures: list[BaseException] = []

    def go_on() -> None:
        try:
            while not over.is_set():
                trial.produce(topic, int(RATE) * 5, RATE)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not failures, failures


@contextmanager
def _kustomized(trial: Trial, name: str) -> Generator[None]:
    """The directory with this trial's image and topic, applied; taken away when its table has everything."""
    directory = trial.volumes / "kubernetes"
    shutil.copytree(KUBERNETES, directory)
    (directory / "job.yaml").write_text(trial.job(name, name))
    (directory / "spark.properties").write_text(trial.properties())
    driver = Path(directory, "driver.yaml")
    driver.write_text(driver.read_text().replace(f"barnabas-pipeline:{version()}", trial.image))
    trial.kubectl("apply", "--kustomize", str(directory))
    yield
    trial.wait_for_rows(name, trial.produced[name])
    trial.kubectl("delete", "deployment", "orders-tables")


def _application(trial: Trial, name: str) -> str:
    """spark-application.yaml with this trial's image and topic; its checkpoint dies with each driver."""
    configmap, application = yaml.safe_load_all(APPLICATION.read_text())
    configmap["data"]["job.yaml"] = trial.job(name, name, checkpoint="/tmp/checkpoint")
    application["spec"]["image"] = trial.image
    for role in ("driver", "executor"):
        application["spec"][role]["coreRequest"] = "200m"
    return str(yaml.safe_dump_all([configmap, application]))


STEPS = {each.__name__: each for each in (build, install, submitted, deployed, operator, uninstall)}
