"""Requests about ACLs, quotas, SCRAM credentials and delegation tokens, of a user who may everything and of one who may
nothing, as a processor's core serves them.

Nothing is raised and no request finds a fault of ours. What goes on to the controller survives its encoding, and of the
second user nothing goes on but what concerns its own tokens.

The input is pieces (`tests.fuzz.pieces`): the first byte of each says who sends the rest.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, Final

from barnabas.cluster.acls import Acl
from barnabas.cluster.delegation_tokens import AlterDelegationTokenRequest
from barnabas.cluster.quotas.entities import ENTITY_TYPES
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import encode_request
from barnabas.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from barnabas.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.describe_acls import DescribeAclsRequest
from barnabas.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from barnabas.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from barnabas.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from barnabas.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from barnabas_gateway.core.model.config import AuthorizerConfig, SaslConfig
from barnabas_gateway.shell.processor_ipc import decode_call, encode_call
from tests.fuzz.pieces import join_pieces, split_pieces
from tests.fuzz.structure import random_request
from tests.fuzz.target import Target
from tests.unit.gateway.world import LISTENER, Client, World, topic

_ADMIN: Final = "alice"
_GUEST: Final = "bob"
_PASSWORD: Final = "secret"
_SASL: Final = SaslConfig(("PLAIN",), {_ADMIN: _PASSWORD, _GUEST: _PASSWORD})
_REQUESTS_MAX: Final = 20
_INPUTS_PER_WORLD: Final = 200
_KEYS: Final = (
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
)
_NAMES: Final = (None, "", "t", "team-", "*", "kafka-cluster", "User:bob", "User:*", "bob", "127.0.0.1", "::1", "é")
_QUOTAS: Final = ("producer_byte_rate", "connection_creation_rate", "request_percentage", "x")
_RATES: Final = (0.0, 1.0, 0.5, -1.0, float("nan"), float("inf"), 1e300)


class _LentWorld:
    """A world for some inputs, then another: creating one takes longer than what an input does to it."""

    def __init__(self) -> None:
        self._left = 0

    def lend(self) -> World:
        if not self._left:
            listeners = (replace(LISTENER, sasl=_SASL),)
            authorizer = AuthorizerConfig(True, frozenset({f"User:{_ADMIN}"}))
            self._world = World(listeners=listeners, authorizer=authorizer, delegation_token_secret_key="key")
            acls = [Acl(2, 3, "t", "User:carol", "*", 3, 3), Acl(3, 4, "team-", "User:bob", "*", 2, 2)]
            self._world.update(topic(), acls=acls, knows_acls=True)
            self._left = _INPUTS_PER_WORLD
        self._left -= 1
        world = self._world
        for left in (world.logs, world.calls, world.clients):
            left.clear()
        return world


_LENT: Final = _LentWorld()


def check(data: bytes) -> None:
    world = _LENT.lend()
    clients = [_logged_in(world, user) for user in (_ADMIN, _GUEST)]
    for piece in split_pieces(data)[:_REQUESTS_MAX]:
        if piece:
            _send(world, clients[piece[0] % 2], piece[1:], may_all=not piece[0] % 2)
    for client in clients:
        if not client.is_closed:
            client.close()
    assert world.processor.request_memory.held_bytes == 0


def _logged_in(world: World, user: str) -> Client:
    client = world.client()
    client.ask(SaslHandshakeRequest("PLAIN"), ApiKey.SASL_HANDSHAKE, 1)
    client.ask(SaslAuthenticateRequest(f"\0{user}\0{_PASSWORD}".encode()), ApiKey.SASL_AUTHENTICATE, 2)
    assert client.answers[-1].error_code == 0
    client.take = lambda _buffers: None
    return client


def _send(world: World, client: Client, data: bytes, *, may_all: bool) -> None:
    if not client.is_closed:
        client.send(data)
    while True:
        # Keys of tokens and credentials are derived in turns of their own.
        world.pass_ms(10)
        if not world.calls:
            break
        request = world.calls[0].request
        sent = encode_call(1, request)
        # Not by the request itself: what is not a number is not equal to itself.
        assert encode_call(*decode_call(sent)) == sent
        # A frame in the input may be any other key's, and a guest may own tokens.
        assert may_all or isinstance(request, AlterDelegationTokenRequest)
        world.controller_answers(None)


def build(random: Random) -> bytes:
    pieces = []
    for _ in range(random.randint(1, 4)):
        frames = b""
        for _ in range(random.choice((1, 1, 2))):
            key = random.choice(_KEYS)
            version = random.randint(max(key.version_min, key.advertised_min), key.version_max)
            request = random_request(random, key, version) if random.random() < 0.3 else _request(random, key)
            frames += b"".join(encode_request(request, version, random.randrange(99), "c"))
        pieces.append(bytes([random.randrange(2)]) + frames)
    return join_pieces(pieces)


def _request(random: Random, key: ApiKey) -> Any:
    def name() -> str:
        return random.choice(_NAMES) or ""

    def some() -> range:
        return range(random.randint(0, 3))

    def acl() -> tuple[int, str | None, int, str | None, str | None, int, int]:
        few = (random.randint(0, 8), random.choice(_NAMES), random.randint(0, 5), random.choice(_NAMES))
        return (*few, random.choice(_NAMES), random.randint(0, 16), random.randint(0, 4))

    match key:
        case ApiKey.DESCRIBE_ACLS:
            return DescribeAclsRequest(*acl())
        case ApiKey.CREATE_ACLS:
            return CreateAclsRequest([AclCreation(*("" if part is None else part for part in acl())) for _ in some()])
        case ApiKey.DELETE_ACLS:
            return DeleteAclsRequest([DeleteAclsFilter(*acl()) for _ in some()])
        case ApiKey.CREATE_DELEGATION_TOKEN:
            owner = random.choice(((None, None), ("User", "bob"), ("", ""), ("Group", "x")))
            return CreateDelegationTokenRequest(*owner, [CreatableRenewers("User", name()) for _ in some()], -1)
        case ApiKey.RENEW_DELEGATION_TOKEN:
            return RenewDelegationTokenRequest(random.randbytes(64), random.choice((-1, 0, 1 << 62)))
        case ApiKey.EXPIRE_DELEGATION_TOKEN:
            return ExpireDelegationTokenRequest(random.randbytes(64), random.choice((-1, 0, 1 << 62)))
        case ApiKey.DESCRIBE_DELEGATION_TOKEN:
            owners = [DescribeDelegationTokenOwner("User", name()) for _ in some()]
            return DescribeDelegationTokenRequest(random.choice((None, owners)))
        case ApiKey.DESCRIBE_CLIENT_QUOTAS:
            components = [
                ComponentData(random.choice(ENTITY_TYPES), random.randint(0, 3), random.choice(_NAMES)) for _ in some()
            ]
            return DescribeClientQuotasRequest(components, random.random() < 0.5)
        case ApiKey.ALTER_CLIENT_QUOTAS:
            return AlterClientQuotasRequest([_quotas(random) for _ in some()], random.random() < 0.5)
        case ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS:
            return DescribeUserScramCredentialsRequest(random.choice((None, [UserName(name()) for _ in some()])))
        case _:
            upsertions = [
                ScramCredentialUpsertion(
                    name(), random.randint(0, 3), random.choice((4096, 16384, 1)), b"salt", b"x" * 32
                )
                for _ in some()
            ]
            deletions = [ScramCredentialDeletion(name(), random.randint(0, 3)) for _ in some()]
            return AlterUserScramCredentialsRequest(deletions, upsertions)


def _quotas(random: Random) -> EntryData:
    entity = [EntityData(random.choice(ENTITY_TYPES), random.choice(_NAMES)) for _ in range(random.randint(0, 2))]
    changes = [
        OpData(random.choice(_QUOTAS), random.choice(_RATES), random.random() < 0.2)
        for _ in range(random.randint(0, 2))
    ]
    return EntryData(entity, changes)


TARGET = Target("security_requests", check, build, lines_max=600_000, lines_per_byte=4000, memory_bytes_max=32 << 20)
