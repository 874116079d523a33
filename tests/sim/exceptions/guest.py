"""A client that authenticates, by every mechanism in turn and not always rightly, and asks what others may not.

It is an administrator or a guest without rights. Sessions end within seconds: it authenticates again, or is refused.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from barnabas.client.sasl import OAuthBearerClient, PlainClient, SaslClient, SaslRefusal, ScramClient
from barnabas.cluster.scram import ScramMechanism, salted_password
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages import MESSAGES, Response
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from barnabas.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.sim.clients.client import REQUEST_TIMEOUT_US, Client, ClientEnvironment
from tests.sim.exceptions.questions import OTHERS, Question
from tests.sim.exceptions.surroundings import ADMINISTRATOR, MECHANISMS, PASSWORDS
from tests.sim.nodes.identities import GUEST, TICKET, TOKEN, SimulatedContext
from tests.sim.scheduler import MS, SECOND
from tests.unit.gateway.request_rights import ROWS

REST_US: Final = 4 * SECOND
"""Longer than a client may take to authenticate, and than a session lasts."""
QUESTIONS_MAX: Final = 6
FRAME_BYTES: Final = 12 << 10
_SALT: Final = b"0123456789"
_SCRAM: Final = {"SCRAM-SHA-256": ScramMechanism.SHA_256, "SCRAM-SHA-512": ScramMechanism.SHA_512}
_WRONG_SHARE: Final = 0.15
_DENY: Final = 2
_ANY: Final = 1
_DAY_MS: Final = 86_400_000
_ROWS: Final = [row for row in ROWS if row.api_key not in OTHERS]
"""A guest is refused nearly all of them, but between two changes of its ACLs nothing is certain."""


class _GssapiClient:
    """Of the realm of `identities`."""

    def __init__(self, ticket: bytes) -> None:
        self._tokens = [ticket, b"", SimulatedContext().wrap(b"\x01\0\0\0")]

    def first_token(self) -> bytes:
        return self._tokens.pop(0)

    def next_token(self, answer: bytes) -> bytes | None:
        return self._tokens.pop(0) if self._tokens else None


@dataclass(slots=True, frozen=True)
class _Token:
    token_id: str
    hmac: bytes


class Guest(Client):
    def __init__(self, name: str, environment: ClientEnvironment, interval_us: int) -> None:
        super().__init__(name, environment)
        self._interval_us = interval_us
        self.is_stopping = False
        self._tokens: list[_Token] = []
        """Delegation tokens that it was given."""
        self._mechanism = ""
        self._raw: Callable[[bytes], None] | None = None
        """Takes the answer to a token without a header."""
        self._left = 0
        self._is_administrator = False
        self.further: tuple[Question, ...] = ()
        """What else a guest asks that is no administrator."""

    # --- authentication ----------------------------------------------------------------------------------------------

    def work(self) -> None:
        if self.is_stopping:
            return
        self._raw = None
        self._mechanism = self.scheduler.random.choice(MECHANISMS)
        match self.scheduler.below(24):
            case 0:
                return  # Its connection is closed some time.
            case 1:
                self._ask(Question(ApiKey.METADATA, 12, MetadataRequest([])))
            case 5:
                # The length of a frame, and never all of it.
                self._send(FRAME_BYTES.to_bytes(4, "big") + bytes(FRAME_BYTES // 2))
            case 2 | 3 | 4 | 6 | 7 | 8:
                self.ask(
                    ApiKey.API_VERSIONS, ApiVersionsRequest("guest", "1"), 3, ApiVersionsResponse, self._versions_known
                )
            case _:
                self._begin()

    def _versions_known(self, response: ApiVersionsResponse | None) -> None:
        if response is not None:
            self._begin()

    def _begin(self) -> None:
        version = self.scheduler.below(2)
        mechanism = "NONE" if self.scheduler.below(20) == 0 else self._mechanism

        def answered(response: SaslHandshakeResponse | None) -> None:
            if response is not None and not response.error_code:
                sasl = self._sasl_client()
                self._send_token(sasl, sasl.first_token(), version)

        self.ask(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest(mechanism), version, SaslHandshakeResponse, answered)

    def _sasl_client(self) -> SaslClient:
        random = self.scheduler.random
        is_wrong = random.random() < _WRONG_SHARE
        nonce = random.randbytes(12).hex()
        self._is_administrator = False
        match self._mechanism:
            case "PLAIN":
                user = random.choice((ADMINISTRATOR, ADMINISTRATOR, GUEST))
                self._is_administrator = user == ADMINISTRATOR
                return PlainClient(user, "wrong" if is_wrong else PASSWORDS[user])
            case "OAUTHBEARER":
                return OAuthBearerClient("forged" if is_wrong else TOKEN)
            case "GSSAPI":
                return _GssapiClient(b"forged" if is_wrong else TICKET)
            case _ if self._tokens and random.random() < 0.5:
                token = random.choice(self._tokens)
                hmac = b64encode(b"wrong" if is_wrong else token.hmac).decode()
                return ScramClient(_SCRAM[self._mechanism], token.token_id, hmac, nonce, is_token=True)
            case _:
                password = "wrong" if is_wrong else PASSWORDS[GUEST]
                return ScramClient(_SCRAM[self._mechanism], GUEST, password, nonce)

    def _send_token(self, sasl: SaslClient, token: bytes, version: int) -> None:
        def answered(answer: bytes) -> None:
            try:
                following = sasl.next_token(answer)
            except SaslRefusal:
                self.disconnect("the gateway is not the one that it says")
                return
            if following is not None:
                self._send_token(sasl, following, version)
            else:
                self._is_known()

        def responded(response: SaslAuthenticateResponse | None) -> None:
            if response is not None and not response.error_code:
                answered(bytes(response.auth_bytes))

        if version:
            request = SaslAuthenticateRequest(token)
            self.ask(ApiKey.SASL_AUTHENTICATE, request, 2, SaslAuthenticateResponse, responded)
            return
        self._raw = answered
        self._send(len(token).to_bytes(4, "big") + token)
        self.meanwhile(REQUEST_TIMEOUT_US, "gives up a token", partial(self._give_up, answered))

    def _give_up(self, answered: Callable[[bytes], None]) -> None:
        if self._raw is answered:
            self.disconnect("no answer to a token")

    def on_message(self, message: bytes) -> None:
        raw = self._raw
        if raw is None:
            super().on_message(message)
            return
        for frame in self._splitter.feed(message):
            self._raw = None
            raw(bytes(frame))

    # --- what it asks ------------------------------------------------------------------------------------------------

    def _is_known(self) -> None:
        self._left = self.scheduler.below(QUESTIONS_MAX) + 1
        self._go_on()

    def _go_on(self) -> None:
        if self.is_stopping:
            return
        self._left -= 1
        if self._left > 0:
            delay_us = self.scheduler.below(2 * self._interval_us) + 1
            self.meanwhile(delay_us, "asks", lambda: self._ask(self._question()))
            return
        match self.scheduler.below(10):
            case 0:
                self._left = 2
                self.meanwhile(REST_US, "asks when its session is over", self._go_on)
            case 1 | 2:
                self.meanwhile(1_100 * MS, "authenticates again", self._begin)
            case _:
                self.disconnect("it has what it wants")

    def _question(self) -> Question:
        random = self.scheduler.random
        if not self._is_administrator:
            row = random.choice(_ROWS)
            mine = Question(row.api_key, row.version, row.request)
            return random.choice((mine, *_token_questions(self._tokens), *self.further))
        return random.choice((*_ADMINISTRATION, *_token_questions(self._tokens)))

    def _ask(self, question: Question) -> None:
        response_type: type[Response] = MESSAGES[question.api_key][1]
        self.ask(question.api_key, question.request, question.version, response_type, self._answered)

    def _answered(self, response: Response | None) -> None:
        if response is None:
            return
        if isinstance(response, CreateDelegationTokenResponse) and not response.error_code:
            self._tokens = [*self._tokens[-3:], _Token(response.token_id, bytes(response.hmac))]
        self._go_on()


def _token_questions(tokens: list[_Token]) -> list[Question]:
    mine = CreateDelegationTokenRequest(None, None, [CreatableRenewers("User", GUEST)], _DAY_MS)
    questions = [
        Question(ApiKey.CREATE_DELEGATION_TOKEN, 3, mine),
        Question(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, DescribeDelegationTokenRequest(None)),
        Question(
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
            3,
            DescribeDelegationTokenRequest([DescribeDelegationTokenOwner("User", ADMINISTRATOR)]),
        ),
    ]
    for token in tokens[:2]:
        questions += [
            Question(ApiKey.RENEW_DELEGATION_TOKEN, 2, RenewDelegationTokenRequest(token.hmac, _DAY_MS)),
            Question(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, ExpireDelegationTokenRequest(token.hmac, 5_000)),
        ]
    return questions


def _upsertion(number: int, mechanism: ScramMechanism) -> ScramCredentialUpsertion:
    salted = salted_password(mechanism, PASSWORDS[GUEST], _SALT, 4096)
    return ScramCredentialUpsertion(GUEST, number, 4096, _SALT, salted)


_ADMINISTRATION: Final = (
    Question(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        AlterUserScramCredentialsRequest([], [_upsertion(1, ScramMechanism.SHA_256)]),
    ),
    Question(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        AlterUserScramCredentialsRequest([], [_upsertion(2, ScramMechanism.SHA_512)]),
    ),
    *[
        Question(
            ApiKey.CREATE_ACLS, 3, CreateAclsRequest([AclCreation(2, name, kind, f"User:{GUEST}", "*", 3, permission)])
        )
        for name, kind, permission in (("t", 3, 3), ("t", 3, _DENY), ("absent", 4, 3))
    ],
    *[
        Question(
            ApiKey.DELETE_ACLS,
            3,
            DeleteAclsRequest([DeleteAclsFilter(2, name, _ANY, f"User:{GUEST}", None, _ANY, _ANY)]),
        )
        for name in ("t", "absent")
    ],
    Question(ApiKey.METADATA, 10, MetadataRequest(None, False, True, True)),
)
