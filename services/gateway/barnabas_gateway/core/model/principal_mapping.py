"""The principal of a client that authenticates by a certificate (`ssl.principal.mapping.rules`, KIP-371)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from barnabas_gateway.core.model.request_context import ANONYMOUS, USER, Principal

_SHORT_NAMES: Final = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_RULE: Final = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|\n|$)")
_GROUP: Final = re.compile(r"\\(.)|\$(\d)")


@dataclass(slots=True, frozen=True)
class MappingRule:
    """One rule: DEFAULT (no pattern), or a pattern that has to match the whole name, and what it becomes."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""
    """"L" for lower case, "U" for upper case."""

    def apply(self, name: str) -> str | None:
        """Return what the rule makes of a distinguished name; None if it does not match."""
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        mapped = expand_replacement(match, self.replacement)
        return mapped.lower() if self.case == "L" else mapped.upper() if self.case == "U" else mapped


DEFAULT_RULES: Final = (MappingRule(None),)


def expand_replacement(found: re.Match[str], replacement: str) -> str:
    """Return a replacement of Java's, in which $1 to $9 are groups and a backslash escapes, for what was found."""

    def value_of(part: re.Match[str]) -> str:
        escaped, group = part.groups()
        if escaped is not None:
            return str(escaped)
        return (found[int(group)] or "") if int(group) <= found.re.groups else part[0]

    return _GROUP.sub(value_of, replacement)


def parse_mapping_rules(text: str) -> tuple[MappingRule, ...]:
    """Return the rules of a list like `RULE:^CN=(.*?),.*$/$1/L,DEFAULT`. Raises ValueError."""
    if not text.strip():
        return DEFAULT_RULES
    rules: list[MappingRule] = []
    position = 0
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None or match.end() == position:
            raise ValueError(f"ssl.principal.mapping.rules: {text[position:][:100]!r} is not DEFAULT or RULE:…/…/[LU]")
        is_default, pattern, replacement, case = match.groups()
        try:
            rules.append(MappingRule(None) if is_default else MappingRule(re.compile(pattern), replacement, case))
        except (re.error, OverflowError) as error:
            raise ValueError(f"ssl.principal.mapping.rules: {pattern!r}: {error}") from None
        position = match.end()
    return tuple(rules)


def mapped_name(rules: Iterable[MappingRule], distinguished_name: str) -> str | None:
    """Return the name by the first rule that matches; None if none does: the client is refused then, as in Kafka."""
    return next((mapped for rule in rules if (mapped := rule.apply(distinguished_name)) is not None), None)


def principal_of(certificate: Mapping[str, Any] | None, rules: Iterable[MappingRule]) -> Principal | None:
    """Return the principal of a client with this certificate, as `ssl.SSLObject.getpeercert()` has it, or without one;
    None: it is to be refused.
    """
    if not certificate:
        return ANONYMOUS
    name = mapped_name(rules, distinguished_name(certificate["subject"]))
    return None if name is None else Principal(USER, name)


def distinguished_name(subject: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Return a certificate's subject as Java's `X500Principal.getName()` does (RFC 2253): the last part first.

    `subject` is that of `ssl.SSLObject.getpeercert()`. Deviation: attributes that RFC 2253 has no short name for have
    OpenSSL's long one; Java has their object id and the value in hex.
    """
    parts = [
        "+".join(f"{_SHORT_NAMES.get(name, name)}={_escaped(value)}" for name, value in part)
        for part in reversed(subject)
    ]
    return ",".join(parts)


def _escaped(value: str) -> str:
    escaped = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    if escaped[:1] in ("#", " "):
        escaped = "\\" + escaped
    return escaped[:-1] + "\\ " if len(value) > 1 and value.endswith(" ") else escaped
