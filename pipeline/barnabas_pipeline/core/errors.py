# ruff: noqa: N818 - their names say what is wrong
"""Errors that end a job: one sentence each, of what is wrong and what can be done about it."""

from __future__ import annotations


class PipelineError(Exception):
    """The base of all of them: catch this to show one line instead of a traceback."""

    def __reduce__(self) -> tuple[type[PipelineError], tuple[str, ...]]:
        # Spark pickles errors of workers to send them to the driver.
        return type(self), tuple(map(str, self.args))


class WrongOption(PipelineError):
    """An unknown option, or an invalid value."""


class ClusterUnreachable(PipelineError):
    """No broker answered in time."""


class TopicMissing(PipelineError):
    """A topic that was requested by name, or was being read, does not exist."""


class DataLost(PipelineError):
    """Records to be read are gone: by retention, or with their topic."""


class CorruptBatch(PipelineError):
    """A record batch does not match its checksum or its lengths."""


class RequestRefused(PipelineError):
    """The cluster's answer is an error that a retry can't fix."""
