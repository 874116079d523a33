"""New commits keep the rules of CONTRIBUTING.md: a short subject that names a component, and a body that says why."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LAST_UNJUDGED = "ee859dcdaa42aec5fd37d4a16b8e7bc89440f951"
"""The commits after this one are judged; it and what came before it are older than the rules."""
SUBJECT_CHARACTERS_MAX = 72

_COMPONENT = re.compile(r"`([a-z0-9-]+)`")
_FIELDS = ("%h", "%s", "%b", "%(trailers:only)")
"""`%s` is all text before the first empty line, as git shows a subject."""


@dataclass(slots=True, frozen=True)
class Commit:
    abbreviation: str
    subject: str
    body: str
    trailers: str
    """The end of the body, if it consists of lines such as `Signed-off-by: …`."""


@cache
def components() -> frozenset[str]:
    """Return the names of the table below the heading "Commits"."""
    section = (
        (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("\n## Commits\n")[2].partition("\n## ")[0]
    )
    rows = [line.split("|") for line in section.splitlines() if line.startswith("|")]
    return frozenset(name for row in rows for name in _COMPONENT.findall(row[2]))


def git(root: Path, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run git on the repository of this directory, whatever repository a hook has put into the environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(
        ["git", "-C", str(root), *arguments],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        input=given,
        env=environment,
        check=False,
    )


def why_not_judged(root: Path, base: str) -> str | None:
    """Return why the commits after `base` can't be had; None if they can."""
    try:
        top = git(root, "rev-parse", "--show-toplevel")
    except FileNotFoundError:
        return "there is no git here"
    if top.returncode != 0 or not root.samefile(top.stdout.rstrip("\n")):
        return "this tree is no checkout of git"
    if git(root, "merge-base", "--is-ancestor", base, "HEAD").returncode != 0:
        return f"this history lacks the commit {base[:8]}, as a shallow clone does"
    return None


def commits_after(root: Path, base: str) -> list[Commit]:
    """Return the commits from `base`, without it, to HEAD, the oldest first; merges have no text of their own."""
    options = ("-z", "--reverse", "--no-merges", "--no-show-signature", "--encoding=UTF-8")
    done = git(root, "log", *options, f"--format={'%x00'.join(_FIELDS)}", f"{base}..HEAD")
    assert done.returncode == 0, done.stderr
    fields = done.stdout.removesuffix("\0").split("\0") if done.stdout else []
    return [Commit(*each) for each in zip(*[iter(fields)] * len(_FIELDS), strict=True)]


def faults_of(commit: Commit) -> list[str]:
    found = []
    if len(commit.subject) > SUBJECT_CHARACTERS_MAX:
        found.append(f"the subject has {len(commit.subject)} characters, {SUBJECT_CHARACTERS_MAX} are allowed")
    names, _, rest = commit.subject.partition(": ")
    unknown = set(names.split(", ")) - components()
    if not rest.strip():
        found.append("the subject names no component")
    elif unknown:
        found.append(f"CONTRIBUTING.md has no component {', '.join(sorted(unknown))}")
    if commit.body.strip() == commit.trailers.strip():
        found.append("no body says why")
    return found


def judged(root: Path, base: str) -> list[str]:
    return [
        f"{commit.abbreviation} {commit.subject}: {fault}"
        for commit in commits_after(root, base)
        for fault in faults_of(commit)
    ]


def test_new_commits_keep_the_rules() -> None:
    reason = why_not_judged(ROOT, LAST_UNJUDGED)
    if reason is not None:
        pytest.skip(reason)
    found = judged(ROOT, LAST_UNJUDGED)
    assert not found, "\n".join(found)


def test_the_components_of_the_table_are_read() -> None:
    assert {"controller", "gateway", "logstore", "purgatory", "tests", "docs"} <= components()


LONGEST = f"gateway: {'x' * (SUBJECT_CHARACTERS_MAX - 9)}"
GOOD = (
    "gateway: close a connection\n\nIts request had no end.",
    "gateway, logstore: close a connection: twice\n\nIts request had no end.\n\nSigned-off-by: A <a@example.com>",
    f"{LONGEST}\n\nIt fits.",
    f"docs: {'…' * (SUBJECT_CHARACTERS_MAX - 6)}\n\nCharacters are counted, not bytes.",
)
BAD = {
    f"{LONGEST}y\n\nIt does not fit.": ["the subject has 73 characters, 72 are allowed"],
    "close a connection\n\nNo component.": ["the subject names no component"],
    "gateway:\n\nNothing is said.": ["the subject names no component"],
    "gateways: close a connection\n\nA wrong name.": ["CONTRIBUTING.md has no component gateways"],
    "gateway, door: close a connection\n\nOne of two is wrong.": ["CONTRIBUTING.md has no component door"],
    "Gateway: close a connection\n\nA capital.": ["CONTRIBUTING.md has no component Gateway"],
    "gateway: close a connection": ["no body says why"],
    "gateway: close a connection\n\nSigned-off-by: A <a@example.com>": ["no body says why"],
    "gateway: close a connection\nA body needs an empty line before it.": ["no body says why"],
    f"close {'x' * SUBJECT_CHARACTERS_MAX}": [
        "the subject has 78 characters, 72 are allowed",
        "the subject names no component",
        "no body says why",
    ],
}


def commit(root: Path, message: str) -> None:
    """Make a commit without a change."""
    author = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgSign=false")
    made = git(root, *author, "commit", "--allow-empty", "--no-verify", "--cleanup=verbatim", "-F", "-", given=message)
    assert made.returncode == 0, made.stderr


def head(root: Path) -> str:
    return git(root, "rev-parse", "HEAD").stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    try:
        assert git(root, "init", "--quiet").returncode == 0
    except FileNotFoundError:
        pytest.skip("there is no git here")
    return root


def test_each_fault_is_found_and_what_is_right_passes(repository: Path, tmp_path: Path) -> None:
    commit(repository, "An older subject, which is longer than all that the rules allow and names nothing at all")
    commit(repository, "The last one that is not judged")
    base = head(repository)
    for message in (*GOOD, *BAD):
        commit(repository, message)
    subjects = {message: " ".join(message.partition("\n\n")[0].splitlines()) for message in BAD}
    expected = [f"{subjects[message]}: {fault}" for message, faults in BAD.items() for fault in faults]
    assert [line.partition(" ")[2] for line in judged(repository, base)] == expected
    worktree = tmp_path / "worktree"
    assert git(repository, "worktree", "add", "--detach", str(worktree)).returncode == 0
    assert why_not_judged(worktree, base) is None
    assert judged(worktree, base) == judged(repository, base)


def test_a_tree_without_its_history_is_not_judged(repository: Path, tmp_path: Path) -> None:
    commit(repository, "The last one that is not judged")
    base = head(repository)
    commit(repository, "A bad one")
    assert why_not_judged(repository, base) is None
    unpacked = repository / "unpacked"
    unpacked.mkdir()
    assert why_not_judged(unpacked, base) == "this tree is no checkout of git"
    shallow = tmp_path / "shallow"
    assert git(tmp_path, "clone", "--quiet", "--depth=1", repository.as_uri(), str(shallow)).returncode == 0
    reason = why_not_judged(shallow, base)
    assert reason is not None
    assert base[:8] in reason
