"""A client that asks for everything that gateways serve, so that exceptions find the way there.

What its requests come to is no matter; each is answered once, or its connection is lost.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages import MESSAGES, Response
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.sim.clients.client import Client, ClientEnvironment
from tests.sim.exceptions.questions import RETAINED, TOPIC, Question, questions
from tests.sim.exceptions.surroundings import AUDIT_TOPIC
from tests.sim.scheduler import MS

IMPATIENT_SHARE = 0.1
"""Of the questions: so many are left before they are answered."""


class Inquirer(Client):
    def __init__(self, name: str, environment: ClientEnvironment, interval_us: int) -> None:
        super().__init__(name, environment)
        self._interval_us = interval_us
        self._questions = questions()
        self.is_stopping = False
        self._has_topic = False
        self.answers = 0

    def work(self) -> None:
        if self.is_stopping:
            return
        if not self._has_topic:
            self._has_topic = True
            topics = [CreatableTopic(topic, 1, 2, configs=RETAINED) for topic in (TOPIC, AUDIT_TOPIC)]
            self._ask(Question(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics, 5_000)))
        else:
            self.meanwhile(self.scheduler.below(2 * self._interval_us) + 1, "inquires", self._inquire)

    def _inquire(self) -> None:
        self._ask(self.scheduler.random.choice(self._questions))
        if self.scheduler.random.random() < IMPATIENT_SHARE:
            self.meanwhile(self.scheduler.below(2 * MS), "waits no longer", lambda: self.disconnect("it is impatient"))

    def _ask(self, question: Question) -> None:
        response_type: type[Response] = MESSAGES[question.api_key][1]

        def answered(response: Response | None) -> None:
            if response is None:
                return
            self.answers += 1
            self.work()

        self.ask(question.api_key, question.request, question.version, response_type, answered)
