"""kafka-python's codecs and its readers and builders of the old message formats: what ours is held against."""

from __future__ import annotations

import importlib
import warnings

with warnings.catch_warnings():
    # Importing the package reads its JSON by a function that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    kafka_codec = importlib.import_module("kafka.codec")
    legacy_records = importlib.import_module("kafka.record.legacy_records")
    memory_records = importlib.import_module("kafka.record.memory_records")
