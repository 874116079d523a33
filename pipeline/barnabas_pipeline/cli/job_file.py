"""A job's file (YAML or TOML) under its flags."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from barnabas_pipeline.core.errors import WrongOption


def read_job_file(path: str | None) -> dict[str, Any]:
    """What the file says; nothing without a file. Raises WrongOption."""
    if path is None:
        return {}
    try:
        content = Path(path).read_text("utf-8")
        document = tomllib.loads(content) if path.endswith(".toml") else yaml.safe_load(content)
    except OSError as error:
        raise WrongOption(f"the job file {path} can't be read: {error.strerror}") from None
    except (ValueError, RecursionError, yaml.YAMLError) as error:  # ValueError: no UTF-8, or a date that is none
        raise WrongOption(f"the job file {path} is neither YAML nor TOML: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise WrongOption(f"the job file {path} has to be a table of options")
    return document


def spark_settings(file: dict[str, Any], flags: Mapping[str, str]) -> dict[str, str]:
    """Takes `spark` out of what a job file says, as Spark writes its values; flags win. Raises WrongOption."""
    given = file.pop("spark", {})
    if not isinstance(given, dict):
        shown = "nothing" if given is None else repr(given)
        raise WrongOption(f"spark in a job file is a table of Spark's settings (spark.master: local[2]), not {shown}")
    return {str(name): _as_spark_has_it(str(name), value) for name, value in {**given, **flags}.items()}


def _as_spark_has_it(name: str, value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
        case _:
            raise WrongOption(f"spark's {name} in a job file is a text, a number, true or false, not {value!r}")


def with_flags(file: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags that were given win over the file; those not given are None or empty."""
    return {**file, **{name: value for name, value in flags.items() if value not in (None, (), {})}}


def pairs(name: str, given: tuple[str, ...]) -> dict[str, str]:
    """`--name key=value`, any number of times, once for each key. Raises WrongOption."""
    parsed: dict[str, str] = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise WrongOption(f"--{name} is given as KEY=VALUE, not {text!r}")
        if key.strip() in parsed:
            raise WrongOption(
                f"--{name} {key.strip()} is given twice, as {parsed[key.strip()]!r} and {value.strip()!r}"
            )
        parsed[key.strip()] = value.strip()
    return parsed
