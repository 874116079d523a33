"""Put the binary of `make compiled` into a wheel, and its platform into the name of that: `make package COMPILED=1`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILES = ("barnabas_cores.json", "barnabas_cores__mypyc.*.so")


class BinaryHook(BuildHookInterface):  # type: ignore[type-arg]
    """Hatchling calls it for every wheel; an editable install looks for the binary in the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or os.environ.get("BARNABAS_CORES") != "compiled":
            return
        folder = Path(self.root) / "build/compiled"
        files = [file for pattern in FILES for file in folder.glob(pattern)]
        if len(files) != len(FILES):
            raise FileNotFoundError(f"{folder} has no binary of the cores: make compiled")
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for file in files:
            build_data["force_include"][str(file)] = f"barnabas/binaries/{file.name}"
