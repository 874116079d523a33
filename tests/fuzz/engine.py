"""One target in a process of its own, until its time is over: `python -m tests.fuzz.engine NAME --seconds 60 …`.

Under Atheris (libFuzzer) the branches of `barnabas` and the services are instrumented, generated decoders included.
Where there is no Atheris the same inputs are made and checked without: less is found, but what is broken is broken
here too. Both end by themselves and print lines of libFuzzer's form; a finding ends the process with a status that
is not 0.
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import sys
import time
import traceback
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, Final

from tests.fuzz.corpus import kept_inputs
from tests.fuzz.meter import TooMuchMemory, measured
from tests.fuzz.mutations import fresh_input, mutate
from tests.fuzz.target import Target
from tests.fuzz.targets import load

_MEASURED_EVERY: Final = 500
"""Counting lines makes an input several times slower: of so many, one is measured."""
_RESIDENT_CHECKED_EVERY: Final = 5_000
_RESIDENT_GROWTH_BYTES_MAX: Final = 64 << 20
_INPUT_SECONDS_MAX: Final = 20
"""A hang that the line count does not see, in a library's C code say. Generous: the machine may be busy."""
_SEEDS: Final = 300
_OURS: Final = ["barnabas", "barnabas_controller", "barnabas_gateway", "barnabas_logstore", "barnabas_purgatory"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.fuzz.engine")
    parser.add_argument("name")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, required=True, help="for the growing corpus and the findings")
    arguments = parser.parse_args()
    corpus, findings = arguments.directory / "corpus", arguments.directory / "findings"
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    atheris = _atheris()
    target = load_instrumented(atheris, arguments.name) if atheris is not None else load(arguments.name)
    _write_seeds(target, corpus)
    if atheris is None:
        _run_without_coverage(target, corpus, findings, arguments.seconds, arguments.seed)
        return
    options = (
        f"-max_total_time={arguments.seconds} -seed={arguments.seed} -max_len={target.input_bytes_max} "
        f"-timeout={_INPUT_SECONDS_MAX} -rss_limit_mb=2048 -artifact_prefix={findings}/ -reload=0 -len_control=0"
    )
    atheris.Setup(
        [sys.argv[0], *options.split(), str(corpus)], _checking(target), custom_mutator=_mutator(target, atheris)
    )
    atheris.Fuzz()


def _atheris() -> ModuleType | None:
    try:
        import atheris
    except ImportError:
        return None
    module: ModuleType = atheris
    return module


def load_instrumented(atheris: Any, name: str) -> Target:
    """The target, in a process that has imported nothing of `barnabas` yet."""
    with atheris.instrument_imports(include=_OURS):
        target = load(name)
        from barnabas.wire.source import Source
    compiled = Source.function

    def instrumented(source: Source, name: str, origin: str) -> Callable[..., Any]:
        function: Callable[..., Any] = atheris.instrument_func(compiled(source, name, origin))
        return function

    Source.function = instrumented  # type: ignore[method-assign,assignment]
    return target


def _write_seeds(target: Target, corpus: Path) -> None:
    """Write the kept inputs, and newly generated valid ones."""
    random = Random(target.name)
    for data in [*kept_inputs(target.name), *(target.build(random) for _ in range(_SEEDS))]:
        if len(data) <= target.input_bytes_max:
            (corpus / hashlib.sha1(data).hexdigest()).write_bytes(data)


def _checking(target: Target) -> Callable[[bytes], None]:
    """The target's check; now and then measured, and the process held to its memory."""
    numbers = count(1)
    resident_bytes_at_first = 0

    def check(data: bytes) -> None:
        nonlocal resident_bytes_at_first
        number = next(numbers)
        if number % _MEASURED_EVERY:
            target.check(data)
            return
        measured(target, data)
        if number % _RESIDENT_CHECKED_EVERY == 0:
            resident_bytes = _resident_bytes_max()
            resident_bytes_at_first = resident_bytes_at_first or resident_bytes
            growth_bytes = resident_bytes - resident_bytes_at_first
            if growth_bytes > _RESIDENT_GROWTH_BYTES_MAX:
                raise TooMuchMemory(f"the process grew by {growth_bytes} bytes in {number} inputs")

    return check


def _resident_bytes_max() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _mutator(target: Target, atheris: Any) -> Callable[[bytes, int, int], bytes]:
    def custom_mutator(data: bytes, size_max: int, seed: int) -> bytes:
        random = Random(seed)
        choice = random.random()
        if choice < 0.1:
            return fresh_input(random, target)[:size_max]
        if choice < 0.6:
            return mutate(data, random, target)[:size_max]
        mutated: bytes = atheris.Mutate(data, size_max)
        return target.repair(bytes(mutated))[:size_max] if choice < 0.7 else mutated

    return custom_mutator


def _run_without_coverage(target: Target, corpus: Path, findings: Path, seconds: int, seed: int) -> None:
    print("no Atheris for this Python: mutations without coverage", file=sys.stderr)
    check = _checking(target)
    random = Random(seed)
    inputs = [path.read_bytes() for path in sorted(corpus.iterdir())]
    began = time.monotonic()
    executions = 0
    while time.monotonic() - began < seconds:
        if executions < len(inputs):
            data = inputs[executions]
        elif random.random() < 0.3:
            data = fresh_input(random, target)
        else:
            data = mutate(random.choice(inputs), random, target)
        try:
            check(data)
        except Exception:
            (findings / f"crash-{hashlib.sha1(data).hexdigest()}").write_bytes(data)
            traceback.print_exc()
            sys.exit(1)
        executions += 1
    per_second = round(executions / (time.monotonic() - began))
    resident_mebibytes = _resident_bytes_max() >> 20
    line = f"#{executions} DONE cov: 0 corp: {len(inputs)}/0b exec/s: {per_second} rss: {resident_mebibytes}Mb"
    print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
