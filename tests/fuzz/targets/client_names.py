"""What a client is called before rules make a user of it: the subject of its certificate, and its Kerberos principal.

A name is mapped, or refused by None or ValueError, and nothing else is raised; whatever its parts have in them, no name
is that of another one: what separates parts is escaped within them.

The input is pieces (`tests.fuzz.pieces`): the first byte of the first picks what it is, then come the subject's
attributes, the name of each before its value, or the principal.
"""

from __future__ import annotations

from random import Random
from typing import Final

from barnabas_gateway.core.model.kerberos_names import parse_short_name_rules, short_name
from barnabas_gateway.core.model.principal_mapping import distinguished_name, parse_mapping_rules, principal_of
from tests.fuzz.pieces import join_pieces, split_pieces
from tests.fuzz.target import Target

_REALM: Final = "EXAMPLE.COM"
_ATTRIBUTES_MAX: Final = 20
_ATTRIBUTES: Final = ("commonName", "organizationName", "organizationalUnitName", "domainComponent", "emailAddress")
_VALUES: Final = ("alice", "a,b", "a+b", 'a"b', "#a", " a ", "a\\", "CN=bob", "", "é", "a\nb")
_MAPPINGS: Final = (
    parse_mapping_rules(""),
    parse_mapping_rules("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),(.*)$/$1@$2/L,DEFAULT"),
    parse_mapping_rules("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U"),
)
_SHORT_NAMES: Final = (
    parse_short_name_rules(["DEFAULT"]),
    parse_short_name_rules([r"RULE:[1:$1@$0](.*@EXAMPLE\.COM)s/@.*//", "RULE:[2:$1/$2]s/-/_/g/L", "DEFAULT"]),
)
_PRINCIPALS: Final = ("alice@EXAMPLE.COM", "kafka/host-1@EXAMPLE.COM", "alice@OTHER", "alice", "a/b/c@R", "@", "/@")


def check(data: bytes) -> None:
    pieces = split_pieces(data)
    if not pieces or not pieces[0]:
        return
    choice, texts = pieces[0][0], [piece.decode("utf-8", "replace") for piece in pieces[1 : 2 * _ATTRIBUTES_MAX + 1]]
    if choice % 2:
        _check_subject(choice // 2, texts)
    else:
        _check_principal(choice // 2, "".join(texts))


def _check_subject(choice: int, texts: list[str]) -> None:
    attributes = list(zip(texts[::2], texts[1::2], strict=False))
    # One attribute in a part, or all in one.
    subject = [[attribute] for attribute in attributes] if choice & 1 else [attributes]
    assert attributes or distinguished_name(subject) == ""
    for _, value in attributes:
        alone = distinguished_name([[("commonName", value)]])
        assert _parts_of(alone) == 1, "a value passes for another part"
    principal = principal_of({"subject": subject}, _MAPPINGS[choice // 2 % len(_MAPPINGS)])
    assert principal is None or str(principal).startswith("User:")


def _parts_of(name: str) -> int:
    count = 1
    is_escaped = False
    for character in name:
        count += character in ",+" and not is_escaped
        is_escaped = character == "\\" and not is_escaped
    return count


def _check_principal(choice: int, principal: str) -> None:
    try:
        user = short_name(_SHORT_NAMES[choice % len(_SHORT_NAMES)], principal, _REALM)
    except ValueError:
        return
    assert user
    assert "@" not in principal or principal.count("@") == 1, "one realm"


def build(random: Random) -> bytes:
    choice = random.randrange(12)
    if not choice % 2:
        return join_pieces([bytes([choice]), random.choice(_PRINCIPALS).encode()])
    texts = []
    for _ in range(random.randint(1, 4)):
        texts += [random.choice(_ATTRIBUTES), random.choice(_VALUES)]
    return join_pieces([bytes([choice]), *(text.encode() for text in texts)])


TARGET = Target("client_names", check, build, input_bytes_max=1024)
