"""Ask Kafka's StandardAuthorizer and Barnabas's the same: `python -m tests.authorization --cases 200000 --seed 1`.

One JVM answers all cases. The first difference is printed with everything that leads to it, and the exit status is 1.
`--save` writes the result to docs/verify/authorization.md, between its markers.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from barnabas.cluster.acls import SUPPORTED_OPERATIONS
from barnabas_gateway.core.model.audit import Audit
from barnabas_gateway.core.model.authorizer import Authorizer
from barnabas_gateway.core.model.config import AuthorizerConfig
from barnabas_gateway.core.model.deadlines import Clock
from barnabas_gateway.core.model.log_lines import LogLineBuffer
from barnabas_gateway.core.model.outputs import Turn
from tests.authorization.cases import Question, Scene, scene
from tests.compat.java_programs import ROOT, SHORT_LIVED, class_path
from tests.integration.kafka_tools import kafka_libs
from tests.unit.gateway.test_authorizer import of, update

PAGE = ROOT / "docs/verify/authorization.md"
BEGIN, END = "<!-- compared: begin -->\n", "<!-- compared: end -->\n"


def our_answers(each: Scene) -> list[str]:
    audit = Audit(Clock(), LogLineBuffer(Turn()))
    authorizer = Authorizer(AuthorizerConfig(True, each.super_users, each.allows_without_acls), audit)
    authorizer.metadata_updated(update())
    # One by one, as they are created: the index is not built at once.
    for acl in each.acls:
        authorizer.metadata_updated(update(acl, full=False))
    numbers = {acl: number for number, acl in enumerate(each.acls)}
    answers = [_answer(authorizer, numbers, question) for question in each.questions]
    authorizer.metadata_updated(update(full=False, removed=tuple(each.removed)))
    return answers + [_answer(authorizer, numbers, question) for question in each.questions_after]


def _answer(authorizer: Authorizer, numbers: dict[object, int], question: Question) -> str:
    if question.kind == "filter":
        matching = sorted(numbers[acl] for acl in authorizer.acls if question.acl_filter.matches(acl))
        return ",".join(map(str, matching))
    host = f"[{question.host}]" if ":" in question.host else question.host
    request = of(question.principal, f"{host}:5000")
    if question.kind == "any":
        return str(int(authorizer.authorize_any(request, question.operation, question.resource_type)))
    resource = (question.resource_type, question.name)
    return str(int(authorizer.authorize(request, question.operation, resource, log_denied=False)))


def kafkas_answers(lines: Path) -> list[str]:
    command = ["java", "-Xmx512M", *SHORT_LIVED, "-cp", class_path(kafka_libs()), "Authorizations"]
    with lines.open() as questions:
        done = subprocess.run(command, stdin=questions, capture_output=True, text=True, check=True, cwd="/")
    return done.stdout.split("\n")[:-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    random = Random(given.seed)
    scenes: list[Scene] = []
    cases = 0
    while cases < given.cases:
        scenes.append(scene(random))
        cases += len(scenes[-1].questions) + len(scenes[-1].questions_after)
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        lines = Path(directory) / "lines"
        with lines.open("w") as file:
            for resource_type in SUPPORTED_OPERATIONS:
                file.write(f"operations\t{int(resource_type)}\n")
            for each in scenes:
                file.writelines(each.lines())
        theirs = iter(kafkas_answers(lines))
    for resource_type, operations in SUPPORTED_OPERATIONS.items():
        expected, reported = ",".join(map(str, sorted(map(int, operations)))), next(theirs)
        assert reported == expected, f"operations of {resource_type.name}: Kafka has {reported}, Barnabas {expected}"
    counts: Counter[tuple[str, str]] = Counter()
    different = explained = 0
    for each in scenes:
        for question, ours in zip([*each.questions, *each.questions_after], our_answers(each), strict=True):
            kafkas = next(theirs)
            counts[
                question.kind, kafkas if question.kind != "filter" else "matches" if kafkas else "matches nothing"
            ] += 1
            if ours != kafkas and is_explained(each, question):
                explained += 1
            elif ours != kafkas:
                different += 1
                if different == 1:
                    sys.stdout.writelines(each.lines())
                    print(f"{question}\nBarnabas: {ours}\nKafka:    {kafkas}")
    assert next(theirs, None) is None, "as many answers as questions"
    text = report(given.seed, cases, len(scenes), counts, different, explained)
    print(text + f"{time.monotonic() - began_s:.1f} s")
    if given.save:
        page = PAGE.read_text()
        begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
        PAGE.write_text(page[:begin] + text + page[end:])
    return 1 if different else 0


def is_explained(each: Scene, question: Question) -> bool:
    """Whether it is about a name that begins with "*", and there are ACLs on the literal "*".

    Kafka's search takes the literal "*" for a literal prefix of such a name, and passes over it.
    """
    is_wild = any(acl.resource_name == "*" and acl.resource_type == question.resource_type for acl in each.acls)
    return question.kind == "?" and question.name.startswith("*") and len(question.name) > 1 and is_wild


def report(seed: int, cases: int, scenes: int, counts: Counter[tuple[str, str]], different: int, explained: int) -> str:
    kinds = {"?": "authorize", "any": "authorizeByResourceType", "filter": "acls (a filter)"}
    verdicts = {"1": "allowed", "0": "denied"}
    rows = [
        f"| {kinds[kind]} | {verdicts.get(verdict, verdict)} | {count:,} |"
        for (kind, verdict), count in sorted(counts.items())
    ]
    head = [
        f"`python -m tests.authorization --seed {seed} --cases {cases}`: {cases:,} cases about {scenes:,} sets of up",
        f"to 300 ACLs, **{different} different** but the {explained} that are explained below. Kafka's answers were:",
        "",
        "| question | answer | cases |",
        "|---|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
