"""A job's file (YAML or TOML) under its flags."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from pipeline.core.errors import WrongOption


def read_job_file(path: str | None) -> dict[str, Any]:
    """What the file says; nothing without a file. Raises WrongOption."""
    if path is None:
        return {}
    try:
        content = Path(path).read_text()
        document = tomllib.loads(content) if path.endswith(".toml") else yaml.safe_load(content)
    except OSError as error:
        raise WrongOption(f"the job file {path} can't be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, yaml.YAMLError) as error:
        raise WrongOption(f"the job file {path} is neither YAML nor TOML: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise WrongOption(f"the job file {path} has to be a table of options")
    return document


def with_flags(file: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags that were given win over the file; those not given are None or empty."""
    return {**file, **{name: value for name, value in flags.items() if value not in (None, (), {})}}


def pairs(name: str, given: tuple[str, ...]) -> dict[str, str]:
    """`--name key=value`, any number of times. Raises WrongOption."""
    parsed = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise WrongOption(f"--{name} is given as KEY=VALUE, not {text!r}")
        parsed[key.strip()] = value.strip()
    return parsed
