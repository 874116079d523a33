"""`sasl.kerberos.principal.to.local.rules`: what users principals are. The cases of Kafka's own classes are in
kerberos_names.tsv; `tests/compat/java/ShortNames.java` wrote what came of them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from barnabas_gateway.core.model.kerberos_names import DEFAULT_RULES, parse_short_name_rules, short_name

REALM = "REALM.COM"
RULES = ("RULE:[1:$1](App\\..*)s/App\\.(.*)/$1/g", "RULE:[2:$1](App\\..*)s/App\\.(.*)/$1/g", "DEFAULT")
SAVED = Path(__file__).with_name("kerberos_names.tsv")


def cases() -> list[tuple[str, str, str]]:
    """Rules separated by commas, a principal, and the user that Kafka makes of it, or "!" and its exception."""
    lines = [line.split("\t") for line in SAVED.read_text().splitlines() if not line.startswith("#")]
    return [(rules, principal, user) for rules, principal, user in lines]


@pytest.mark.parametrize(
    ("principal", "user"),
    [
        ("App.service-name/example.com@REALM.COM", "service-name"),
        ("App.service-name@REALM.COM", "service-name"),
        ("user/host@REALM.COM", "user"),
        ("alice@REALM.COM", "alice"),
        ("alice", "alice"),
    ],
)
def test_rules_of_kafkas_documentation(principal: str, user: str) -> None:
    assert short_name(parse_short_name_rules(RULES), principal, REALM) == user


@pytest.mark.parametrize(
    ("principal", "why"),
    [
        ("alice@OTHER.COM", "no rule"),
        ("a/b/c@REALM.COM", "more than two components"),
        ("alice@REALM.COM@OTHER.COM", "malformed"),
        ("@REALM.COM", "empty"),
        ("a" * 2000 + "@REALM.COM", "too long"),
    ],
)
def test_who_is_no_user(principal: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        short_name(DEFAULT_RULES, principal, REALM)


def test_a_user_has_neither_a_slash_nor_an_at() -> None:
    rules = parse_short_name_rules(["RULE:[1:$1@$0]", "DEFAULT"])
    with pytest.raises(ValueError, match="has / or @"):
        short_name(rules, "alice@REALM.COM", REALM)


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "default",
        "DEFAULT ",
        "RULE:[1:$1](x)s/a/b/gLx",
        "RULE:[:$1]",
        "RULE:[3:$1]",
        "RULE:[1:$2]",
        "RULE:[1:$]",
        "RULE:[1:$1](a[)",
        "RULE:[1:$1]s/a[/b/",
        "RULE:[1:$1",
        "RULE:[1:$1]s/a/b",
    ],
)
def test_a_malformed_rule_is_named(rule: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(rule))):
        parse_short_name_rules([rule])


def test_kafkas_own_classes_say_the_same() -> None:
    read = cases()
    assert len(read) > 200
    for texts, principal, expected in read:
        try:
            user = short_name(parse_short_name_rules(texts.split(",")), principal, REALM)
        except ValueError:
            user = "!"
        is_refused = expected.startswith("!") or not expected  # An empty user is one for Kafka alone.
        assert user == ("!" if is_refused else expected), (texts, principal)
