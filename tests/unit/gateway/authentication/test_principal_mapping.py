"""Principals of certificates: the examples of KIP-371, and the names of RFC 2253."""

from __future__ import annotations

import pytest

from barnabas_gateway.core.model.principal_mapping import (
    distinguished_name,
    mapped_name,
    parse_mapping_rules,
    principal_of,
)
from barnabas_gateway.core.model.request_context import ANONYMOUS

KIPS = (
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, "
    r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    r"RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L, "
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "mapped"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("O=Org,CN=Duke.X", "duke.x"),
        ("OU=Another", "OU=Another"),
    ],
)
def test_the_first_rule_that_matches_counts(name: str, mapped: str) -> None:
    assert mapped_name(parse_mapping_rules(KIPS), name) == mapped


def test_without_a_rule_that_matches_a_client_is_refused() -> None:
    rules = parse_mapping_rules("RULE:^CN=admin$/root/")
    assert mapped_name(rules, "CN=other") is None
    assert principal_of({"subject": ((("commonName", "other"),),)}, rules) is None
    assert str(principal_of({"subject": ((("commonName", "admin"),),)}, rules)) == "User:root"


def test_without_a_certificate_a_client_is_anonymous() -> None:
    rules = parse_mapping_rules("RULE:^CN=admin$/root/")
    assert principal_of(None, rules) == principal_of({}, rules) == ANONYMOUS


@pytest.mark.parametrize("text", ["RULE:abc", "DEFAULT,x", "RULE:(/$1/", "default", "RULE:a/b/X"])
def test_rules_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"ssl\.principal\.mapping\.rules"):
        parse_mapping_rules(text)


def test_a_missing_group_stays_as_it_is() -> None:
    assert mapped_name(parse_mapping_rules(r"RULE:CN=(.*)/$1\/$2\$/"), "CN=a") == "a/$2$"


def test_names_are_written_as_java_does() -> None:
    subject = (
        (("countryName", "US"),),
        (("organizationName", 'Sue, Grabbit "and" Runn'),),
        (("organizationalUnitName", "A"), ("commonName", " #x ")),
    )
    assert distinguished_name(subject) == 'OU=A+CN=\\ #x\\ ,O=Sue\\, Grabbit \\"and\\" Runn,C=US'
