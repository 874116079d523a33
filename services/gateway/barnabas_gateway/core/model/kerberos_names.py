"""The user that a Kerberos principal is, by `sasl.kerberos.principal.to.local.rules` (Kafka's KerberosShortNamer).

    DEFAULT                                     alice@REALM and alice/host@REALM of the default realm are alice
    RULE:[1:$1@$0](.*@OTHER)s/@.*//             alice@OTHER is alice
    RULE:[2:$1;$2](^.*;admin$)s/;admin$//L      Alice/admin@ANY is alice

A rule is for principals of one component (`alice@REALM`) or of two (`alice/host@REALM`). It writes their parts as the
format says ($0 is the realm), has to match that whole if it has a pattern, and replaces in it what it says. The first
rule that applies decides; if none does the client is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas_gateway.core.model.principal_mapping import expand_replacement

NAME_CHARACTERS_MAX: Final = 1024
"""Of a principal: a rule's pattern may take longer than its length."""

_RULE: Final = re.compile(
    r"(DEFAULT)|RULE:\[([0-9]*):([^]]*)](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?([LU])?", re.DOTALL
)
_PRINCIPAL: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)", re.DOTALL)
_PARAMETER: Final = re.compile(r"\$([0-9]*)")
_COMPONENTS_MAX: Final = 2


@dataclass(slots=True, frozen=True)
class ShortNameRule:
    """One rule; without a format it is DEFAULT."""

    components: int = 0
    name_format: str | None = None
    pattern: re.Pattern[str] | None = None
    """What the formatted name has to match whole."""
    replaced: re.Pattern[str] | None = None
    replacement: str = ""
    is_global: bool = False
    """Whether all that matches is replaced; else the first."""
    case: str = ""
    """"L" for lower case, "U" for upper case."""

    def apply(self, parts: Sequence[str], default_realm: str) -> str | None:
        """Return what the rule makes of a realm and the components; None if it does not apply. Raises ValueError."""
        if self.name_format is None:
            name = parts[1] if parts[0] == default_realm else None
        elif len(parts) - 1 == self.components:
            name = self._applied(_PARAMETER.sub(lambda found: parts[int(found[1])], self.name_format))
        else:
            name = None
        if name is None:
            return None
        if "/" in name or "@" in name:
            raise ValueError(f"a rule makes {name!r} of it, which has / or @ in it")
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name

    def _applied(self, base: str) -> str | None:
        if self.pattern is not None and self.pattern.fullmatch(base) is None:
            return None
        if self.replaced is None:
            return base
        return self.replaced.sub(
            lambda found: expand_replacement(found, self.replacement), base, count=0 if self.is_global else 1
        )


DEFAULT_RULES: Final = (ShortNameRule(),)


def parse_short_name_rules(texts: Iterable[str]) -> tuple[ShortNameRule, ...]:
    """Return the rules, in order. Raises ValueError that names the one that is malformed."""
    return tuple(_parse_rule(text) for text in texts)


def _parse_rule(text: str) -> ShortNameRule:
    found = _RULE.match(text)
    if found is None or found.end() != len(text):
        rest = "" if found is None else f": {text[found.end() :]!r} is left over"
        raise ValueError(f"{text!r} is not DEFAULT or RULE:[n:format](pattern)s/pattern/replacement/gL{rest}")
    is_default, components, name_format, pattern, replaced, replacement, is_global, case = found.groups()
    if is_default:
        return ShortNameRule()
    if components not in ("1", "2"):
        raise ValueError(f"{text!r}: a principal has 1 or {_COMPONENTS_MAX} components")
    for number in _PARAMETER.findall(name_format):
        if not number or len(number) > 2 or int(number) > int(components):
            raise ValueError(f"{text!r}: ${number} is not one of $0 to ${components}")
    try:
        compiled = None if pattern is None else re.compile(pattern)
        searched = None if replaced is None else re.compile(replaced)
    except (re.error, OverflowError) as error:
        raise ValueError(f"{text!r}: {error}") from None
    return ShortNameRule(
        int(components), name_format, compiled, searched, replacement or "", is_global is not None, case or ""
    )


def short_name(rules: Iterable[ShortNameRule], principal: str, default_realm: str) -> str:
    """Return the user that `principal` is, as Kerberos writes it. Raises ValueError: it is none."""
    if len(principal) > NAME_CHARACTERS_MAX:
        raise ValueError("its name is too long")
    found = _PRINCIPAL.fullmatch(principal)
    if found is None:
        if "@" in principal:
            raise ValueError("its name has more than two components, or is malformed")
        if not principal:
            raise ValueError("its name is empty")
        return principal
    name, host, realm = found.groups()
    parts = (realm, name) if host is None else (realm, name, host)
    for rule in rules:
        user = rule.apply(parts, default_realm)
        if user == "":
            raise ValueError("a rule makes an empty name of it")
        if user is not None:
            return user
    raise ValueError("no rule of sasl.kerberos.principal.to.local.rules applies to it")
