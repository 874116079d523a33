"""Read a job file (YAML or TOML); command line flags override it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from barnabas_pipeline.core.errors import WrongOption


def read_job_file(path: str | None) -> dict[str, Any]:
    """Return the options of the file; empty without a file. Raises WrongOption."""
    if path is None:
        return {}
    try:
        content = Path(path).read_text("utf-8")
        document = tomllib.loads(content) if path.endswith(".toml") else yaml.safe_load(content)
    except OSError as error:
        raise WrongOption(f"the job file {path} can't be read: {error.strerror}") from None
    except (ValueError, RecursionError, yaml.YAMLError) as error:  # ValueError: invalid UTF-8, or an invalid date
        raise WrongOption(f"the job file {path} is neither YAML nor TOML: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise WrongOption(f"the job file {path} must be a mapping of options")
    return document


def spark_settings(file: dict[str, Any], flags: Mapping[str, str]) -> dict[str, str]:
    """Remove `spark` from the options of a job file and return its settings as strings; flags override them. Raises
    WrongOption.
    """
    given = file.pop("spark", {})
    if not isinstance(given, dict):
        shown = "nothing" if given is None else repr(given)
        raise WrongOption(
            f"spark in a job file must be a mapping of Spark settings (spark.master: local[2]), not {shown}"
        )
    return {str(name): _as_spark_has_it(str(name), value) for name, value in {**given, **flags}.items()}


def _as_spark_has_it(name: str, value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
        case _:
            raise WrongOption(f"spark's {name} in a job file must be a string, a number, true or false, not {value!r}")


def with_flags(file: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Merge flags over the file's options. Flags that were not given are None or empty."""
    return {**file, **{name: value for name, value in flags.items() if value not in (None, (), {})}}


def pairs(name: str, given: tuple[str, ...]) -> dict[str, str]:
    """Parse repeated `--name key=value`, each key at most once. Raises WrongOption."""
    parsed: dict[str, str] = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise WrongOption(f"--{name} must be KEY=VALUE, not {text!r}")
        if key.strip() in parsed:
            raise WrongOption(
                f"--{name} {key.strip()} is given twice, as {parsed[key.strip()]!r} and {value.strip()!r}"
            )
        parsed[key.strip()] = value.strip()
    return parsed
