"""A tables job's requests to the cluster: its topics, and the group that shows its progress."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from barnabas_pipeline.core.cluster import Extents
from barnabas_pipeline.core.errors import PipelineError, TopicMissing
from barnabas_pipeline.core.positions import Positions, TopicPartition
from barnabas_pipeline.core.tables_job import TablesJob
from barnabas_pipeline.kafka.cluster_client import ClusterClient
from barnabas_pipeline.kafka.progress import commit_progress, committed_progress

log = logging.getLogger(__name__)


class Cluster(Protocol):
    def extents(self) -> Extents:
        """Return the job's topics as the cluster has them now. Raises TopicMissing and ClusterUnreachable."""

    def committed(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the group's committed offsets, as far as they are available."""

    def commit(self, positions: Positions) -> None:
        """Commit to the group, for lag tools: the job continues if that fails."""


@dataclass(frozen=True, slots=True)
class JobCluster:
    job: TablesJob
    client: ClusterClient

    def extents(self) -> Extents:
        job = self.job
        if job.topic_pattern:
            pattern = re.compile(job.topic_pattern)
            found = self.client.topics().items()
            topics = {name: topic for name, topic in found if pattern.fullmatch(name) and not topic.is_internal}
        else:
            topics = self.client.topics(job.topics)
            for name in job.topics:
                if name not in topics:
                    raise TopicMissing(f"the cluster at {job.bootstrap_servers} has no topic {name}")
        return self.client.extents(topics)

    def committed(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        try:
            return committed_progress(self.client, self.job.group_id, partitions)
        except PipelineError as error:
            log.warning("the group's offsets are unknown: %s", error)
            return {}

    def commit(self, positions: Positions) -> None:
        try:
            commit_progress(self.client, self.job.group_id, positions)
        except PipelineError as error:
            log.warning("the group's offsets are not committed, lag tools see old ones: %s", error)
