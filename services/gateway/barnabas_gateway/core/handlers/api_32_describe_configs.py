"""DescribeConfigs, API key 32, versions 1 to 4 (KIP-133, KIP-226, KIP-569).

- A topic is described by a logstore, since its defaults are the logstores' own; if one does not answer the next one is
  asked, independent of the topic's leaders. A broker is described by itself, with the keys that gateways read from this
  one. Without a name: the dynamic defaults of all brokers, from this gateway's image. A broker's loggers (KIP-412) are
  those of the logstore with this id.
- Keys that do not exist are left out; no keys, or null, are all keys. Passwords are null.
- UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION; INVALID_REQUEST for a broker that is not live or not a number,
  and for types of resources that are not served; REQUEST_TIMED_OUT when no logstore answers in 30 s, or when none of
  those that may be asked can be reached for 5 s.

Deviations: a resource that is requested twice is INVALID_REQUEST the second time. Any broker is described on any
connection, since a gateway serves all of them. Only keys that some service reads are returned. A topic's default in
another unit names its source: see `barnabas.cluster.config_description`.
"""

from __future__ import annotations

from collections import deque

from barnabas.cluster import administration as contract
from barnabas.cluster.acls import Operation
from barnabas.cluster.administration import AdministrationResponse, DescribedConfig, DescribedResource
from barnabas.cluster.broker_config_keys import BROKER_KEYS
from barnabas.cluster.config_description import BrokerValues, Wanted, describe_broker, describe_broker_defaults
from barnabas.cluster.keys import Role
from barnabas.cluster.messages import ALL_BROKERS
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import describe_configs as wire
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from barnabas.wire.primitives import SHORT_ELEMENTS_MAX, Steps
from barnabas.wire.topic_names import is_legal_topic_name
from barnabas_gateway.core.connections.connection import BaseRequest, Connection
from barnabas_gateway.core.model.config_resources import (
    BROKER,
    BROKER_LOGGER,
    NOT_SERVED,
    TOPIC,
    acl_resource,
    authorization_error,
    node_id_of,
)
from barnabas_gateway.core.model.error_messages import client_message
from barnabas_gateway.core.model.outputs import LogstoreCall
from barnabas_gateway.core.requests.admin_request import AdminHandler

_LOGSTORE_WAIT_MS = 5_000
"""Timeout for one logstore, before the next one is asked."""
_REACH_MS_MAX = 5_000
"""A logstore that is live but not connected, such as one that has just started, is waited for this long."""
_REACH_AGAIN_MS = 50
_TOPICS_PER_CALL = 20
"""A topic's description is some 10 KiB, and takes a processor half a millisecond."""
_CALLS_AT_ONCE = 2


class _Question:
    """Resources that one logstore is asked for; `others` may be asked instead.

    `was_sent`: some logstore was reached. Until then all of them may be asked.
    """

    __slots__ = ("others", "resources", "results", "was_sent")

    def __init__(self, others: list[int]) -> None:
        self.others = others
        self.was_sent = False
        self.resources: list[contract.ConfigResource] = []
        self.results: list[DescribeConfigsResult] = []

    def add_resource(self, asked: DescribeConfigsResource, result: DescribeConfigsResult) -> None:
        # There are no more keys than that.
        keys = list(dict.fromkeys(asked.configuration_keys or []))[:SHORT_ELEMENTS_MAX]
        self.resources.append(contract.ConfigResource(asked.resource_type, asked.resource_name, not keys, keys))
        self.results.append(result)


class PendingDescribeConfigs(BaseRequest[AdminHandler]):
    __slots__ = ("_brokers", "_calls", "_deadline_ms", "_questions", "_request", "_response", "_unreached", "_until_ms")

    def __init__(self, handler: AdminHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self._request = DescribeConfigsRequest()
        self._response = wire.DescribeConfigsResponse()
        self._calls: dict[int, tuple[LogstoreCall, _Question]] = {}
        """Unanswered queries, by call id."""
        self._brokers: dict[str, DescribeConfigsResource] = {}
        """What is asked of each, by name."""
        self._questions: deque[_Question] = deque()
        """Queries that are not sent yet."""
        self._unreached: list[_Question] = []
        """Queries that could not be sent to any logstore so far."""
        self._until_ms = 0
        """When the unreached ones are given up."""
        self._deadline_ms = 0

    def send_calls(
        self, request: DescribeConfigsRequest, response: wire.DescribeConfigsResponse, questions: list[_Question]
    ) -> None:
        handler = self.handler
        self._request, self._response = request, response
        self._questions.extend(questions)
        now_ms = handler.clock.now_ms
        self._deadline_ms = now_ms + handler.config.read_wait_ms_max
        self._until_ms = min(now_ms + _REACH_MS_MAX, self._deadline_ms)
        handler.deadlines.schedule(self, self._deadline_ms)
        self._ask_next()

    def _ask_next(self) -> None:
        """Send some queries at a time; respond when all are answered."""
        while self._questions and len(self._calls) < _CALLS_AT_ONCE:
            self._put(self._questions.popleft())
        if self._unreached:
            self.handler.deadlines.schedule(self, min(self._deadline_ms, self.handler.clock.now_ms + _REACH_AGAIN_MS))
        elif not self._calls:
            self._complete()

    def _put(self, question: _Question) -> None:
        """Send to the next logstore that can be asked.

        If none can be reached the query waits for one; if one was asked and none is left, it has timed out.
        """
        request = contract.DescribeConfigsRequest(
            question.resources, self._request.include_synonyms, self._request.include_documentation
        )
        for index, node_id in enumerate(question.others):
            call = self.handler.logstore_admin.call_logstore(self, node_id, request, _LOGSTORE_WAIT_MS)
            if call is not None:
                del question.others[: index + 1]
                question.was_sent = True
                self._calls[call.call_id] = (call, question)
                return
        if not question.was_sent and self.handler.clock.now_ms < self._until_ms:
            self._unreached.append(question)

    def logstore_answered(self, call: LogstoreCall, answer: AdministrationResponse | None) -> None:
        called = self._calls.pop(call.call_id, None)
        if called is None:
            return
        _, question = called
        if isinstance(answer, contract.DescribeConfigsResponse):
            for result, reported in zip(question.results, answer.results, strict=False):
                self._fill(result, reported)
        else:
            self._put(question)
        self._ask_next()

    def _fill(self, result: DescribeConfigsResult, reported: DescribedResource) -> None:
        _set_error(result, reported.error_code, reported.error_message)
        described = {config.name: config for config in reported.configs}
        if result.resource_type == BROKER and not reported.error_code:
            described |= {config.name: config for config in self._own(result)}
        result.configs = [_wire_config(described[name]) for name in sorted(described)]

    def _own(self, result: DescribeConfigsResult) -> list[DescribedConfig]:
        """Return the keys that gateways read first, or alone."""
        handler = self.handler
        settings = {
            name: setting
            for name, setting in handler.config.settings.items()
            if name in BROKER_KEYS
            and (BROKER_KEYS[name].services[0] is Role.GATEWAY or Role.LOGSTORE not in BROKER_KEYS[name].services)
        }
        values = BrokerValues({}, handler.image.broker_configs.get(ALL_BROKERS, {}), settings)
        return describe_broker(values, _wanted(self._request, self._brokers[result.resource_name]))

    def _complete(self) -> None:
        self.handler.responder.respond(self, self._response)

    def expire(self, now_ms: int) -> None:
        if self._unreached and now_ms < self._deadline_ms:
            self._questions.extend(self._unreached)
            self._unreached.clear()
            self.handler.deadlines.schedule(self, self._deadline_ms)
            self._ask_next()
            return
        self.cancel()
        self._complete()

    def cancel(self) -> None:
        for call, _ in self._calls.values():
            self.handler.logstore_admin.forget_call(call)
        self._calls.clear()
        self._questions.clear()
        self._unreached.clear()

    def add_broker(self, asked: DescribeConfigsResource) -> None:
        self._brokers[asked.resource_name] = asked


class DescribeConfigsHandler(AdminHandler):
    api_key = ApiKey.DESCRIBE_CONFIGS
    request_class = PendingDescribeConfigs

    def start(self, pending: PendingDescribeConfigs, request: DescribeConfigsRequest) -> Steps[None]:
        image = self.image
        response = wire.DescribeConfigsResponse()
        # Connections begin with different logstores, so that not all clients ask the same one first.
        live = sorted(image.brokers)
        first = pending.connection.context.connection_id % len(live) if live else 0
        order = live[first:] + live[:first]
        questions: list[_Question] = []
        topics: _Question | None = None
        named: set[tuple[int, str]] = set()
        for asked in request.resources:
            result = DescribeConfigsResult(resource_type=asked.resource_type, resource_name=asked.resource_name)
            response.results.append(result)
            error, message = _refusal(pending, asked)
            if (asked.resource_type, asked.resource_name) in named:
                error, message = ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
            named.add((asked.resource_type, asked.resource_name))
            if error:
                _set_error(result, error, message)
            elif asked.resource_type == BROKER and not asked.resource_name:
                given = image.broker_configs.get(ALL_BROKERS, {})
                result.configs = [
                    _wire_config(each) for each in describe_broker_defaults(given, _wanted(request, asked))
                ]
            else:
                _set_error(result, ErrorCode.REQUEST_TIMED_OUT, "")
                if asked.resource_type in (BROKER, BROKER_LOGGER):
                    if asked.resource_type == BROKER:
                        pending.add_broker(asked)
                    question = _Question([int(asked.resource_name)])
                    questions.append(question)
                else:
                    if topics is None or len(topics.resources) == _TOPICS_PER_CALL:
                        topics = _Question(list(order))
                        questions.append(topics)
                    question = topics
                question.add_resource(asked, result)
            yield 1
        pending.send_calls(request, response, questions)


def _refusal(pending: PendingDescribeConfigs, asked: DescribeConfigsResource) -> tuple[ErrorCode, str]:
    resource = acl_resource(asked.resource_type, asked.resource_name)
    if resource is None:
        return ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {asked.resource_type}"
    if not pending.handler.authorizer.authorize(pending, Operation.DESCRIBE_CONFIGS, resource):
        return authorization_error(asked.resource_type), ""
    image = pending.handler.image
    name = asked.resource_name
    if asked.resource_type in NOT_SERVED:
        return ErrorCode.INVALID_REQUEST, NOT_SERVED[asked.resource_type]
    if asked.resource_type == TOPIC:
        if name in image.topics_by_name:
            return ErrorCode.NONE, ""
        is_legal = is_legal_topic_name(name)
        return (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal else ErrorCode.INVALID_TOPIC_EXCEPTION), ""
    if not name:
        is_every_broker = asked.resource_type == BROKER
        return (ErrorCode.NONE, "") if is_every_broker else (ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    node_id = node_id_of(name)
    if node_id is None:
        return ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name[:100]}"
    if node_id not in image.brokers:
        live = ", ".join(map(str, image.brokers))
        return ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected one of {live}, but received {name}"
    return ErrorCode.NONE, ""


def _wanted(request: DescribeConfigsRequest, asked: DescribeConfigsResource) -> Wanted:
    keys = frozenset(asked.configuration_keys) if asked.configuration_keys else None
    return Wanted(keys, request.include_synonyms, request.include_documentation)


def _set_error(result: DescribeConfigsResult, error_code: int, message: str) -> None:
    result.error_code = error_code
    result.error_message = client_message(error_code, message)


def _wire_config(config: DescribedConfig) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=config.name,
        value=None if config.is_null else config.value,
        read_only=config.read_only,
        config_source=config.source,
        is_sensitive=config.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(each.name, None if each.is_null else each.value, each.source)
            for each in config.synonyms
        ],
        config_type=config.config_type,
        documentation=config.documentation or None,
    )
