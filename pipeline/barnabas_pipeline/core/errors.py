# ruff: noqa: N818 - their names say what is wrong
"""What ends a job: one sentence each, of what is wrong and what can be done about it."""

from __future__ import annotations


class PipelineError(Exception):
    """The base of all of them: whoever wants one line instead of a traceback catches this."""

    def __reduce__(self) -> tuple[type[PipelineError], tuple[str, ...]]:
        # Spark carries errors of workers to the driver pickled.
        return type(self), tuple(map(str, self.args))


class WrongOption(PipelineError):
    """An option that nobody knows, or a value that it can't have."""


class ClusterUnreachable(PipelineError):
    """No broker answered in time."""


class TopicMissing(PipelineError):
    """A topic that was asked for by name, or was being read, is not there."""


class DataLost(PipelineError):
    """Records that were to be read are gone: by retention, or with their topic."""


class CorruptBatch(PipelineError):
    """A record batch that is not what its checksum or its lengths say."""


class RequestRefused(PipelineError):
    """The cluster's answer is an error that no retry will mend."""
