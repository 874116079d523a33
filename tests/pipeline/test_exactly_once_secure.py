"""A query from a topic into a topic, exactly once, over TLS with access tokens: each row once, also after a restart.

Tokens are short-lived: a session ends with its token, and a client that goes on needs another one (KIP-368).
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the pipeline's environment (make pipeline)")

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from joserfc import jwt
from joserfc.jwk import RSAKey
from pyspark.sql import SparkSession

from barnabas_cli.local.certificates import create_authority, issue, write_authority
from barnabas_cli.local.layout import HOST
from tests.integration.etcd_process import needs_etcd
from tests.integration.running_cluster import RunningCluster
from tests.pipeline.spark_world import Topics, spark_session

pytestmark = [needs_etcd, pytest.mark.timeout(600)]

ISSUER = "https://issuer.example"
TOKEN_SECONDS = 8
RECORDS = 300
PARTITIONS = 2
SECONDS_MAX = 60.0


class Site:
    """The authority of the listener, and the issuer of tokens, of which the newest is in a file."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.first_port = 0
        now = datetime.fromtimestamp(time.time(), UTC)
        authority = create_authority("test", now)
        write_authority(directory, authority)
        (directory / "gateway.pem").write_bytes(issue(authority, "gateway", (HOST, "localhost"), now))
        self._key = RSAKey.generate_key(2048, {"kid": "rsa-1"})
        keys = {"keys": [self._key.as_dict(private=False)]}
        (directory / "keys.json").write_text(json.dumps(keys))
        self.tokens = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._renew)

    def __enter__(self) -> Site:
        self._write_token()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def properties(self, first_port: int) -> dict[str, str]:
        self.first_port = first_port
        return {
            "listeners": f"PLAINTEXT://{HOST}:{first_port - 80},SASL_SSL://{HOST}:{first_port}",
            "ssl.keystore.location": str(self.directory / "gateway.pem"),
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.sasl_ssl.sasl.oauthbearer.jwks.endpoint.url": (self.directory / "keys.json").as_uri(),
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": "kafka",
        }

    @property
    def options(self) -> dict[str, str]:
        """Of the pipeline's source and sink."""
        return {
            "kafka.bootstrap.servers": f"{HOST}:{self.first_port}",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.ca.location": str(self.directory / "ca.crt"),
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.oauthbearer.token.endpoint.url": (self.directory / "token.jwt").as_uri(),
        }

    def _renew(self) -> None:
        while not self._is_over.wait(TOKEN_SECONDS / 4):
            self._write_token()

    def _write_token(self) -> None:
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": "kafka", "sub": "frieda", "iat": now, "exp": now + TOKEN_SECONDS}
        (self.directory / "new.jwt").write_text(jwt.encode({"alg": "RS256", "kid": "rsa-1"}, claims, self._key))
        (self.directory / "new.jwt").replace(self.directory / "token.jwt")
        self.tokens += 1


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, RunningCluster]]:
    directory = tmp_path_factory.mktemp("cluster")
    with Site(tmp_path_factory.mktemp("issuer")) as made, RunningCluster(directory, 1, made.properties) as running:
        yield made, running


def copy(spark: SparkSession, options: dict[str, str], checkpoint: Path) -> None:
    """Run the query to the end of its source, in batches of a third of it."""
    rows = (
        spark.readStream.format("barnabas")
        .options(**options, subscribe="source", startingOffsets="earliest", maxOffsetsPerTrigger=str(RECORDS // 3))
        .load()
        .select("key", "value")
    )
    writer = rows.writeStream.format("barnabas").options(**options, topic="target")
    writer = writer.option("kafka.transactional.id", "copies").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination(240)
        assert not query.isActive
    finally:
        query.stop()


def committed(bootstrap: str) -> Counter[bytes]:
    """How often each value of the target is there, for a read_committed consumer."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition("target", each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
    found: Counter[bytes] = Counter()
    at_end: set[int] = set()
    while len(at_end) < PARTITIONS:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None
        if message.error() is None:
            found[message.value()] += 1
        else:
            at_end.add(message.partition())
    consumer.close()
    return found


def test_rows_are_written_once_over_tls_with_tokens_that_end(site: tuple[Site, RunningCluster], tmp_path: Path) -> None:
    at, running = site
    topics = Topics(f"{HOST}:{at.first_port - 80}")
    for name in ("source", "target"):
        topics.create(name, PARTITIONS)
    spark = spark_session(tmp_path)
    for lap in range(2):
        for partition in range(PARTITIONS):
            values = [b"%d/%d/%d" % (lap, partition, number) for number in range(RECORDS // PARTITIONS)]
            topics.fill("source", values, partition=partition)
        copy(spark, at.options, tmp_path / "checkpoint")
        expected = (lap + 1) * RECORDS
        found = committed(topics.bootstrap)
        assert (len(found), sum(found.values())) == (expected, expected)
    assert at.tokens >= 3
    lines = running.directory.log_path("gateway").read_text().splitlines()
    assert len([line for line in lines if "authenticated" in line and "User:frieda" in line]) >= 4
