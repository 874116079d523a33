"""The codecs that the build writes out do what those do that are made when they are first used."""

from __future__ import annotations

import inspect
import random
import sys
from types import ModuleType
from typing import Any

import pytest

from barnabas.cores import COMPILED, running
from barnabas.wire import frequent_codecs
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.decoding import compile_decoder
from barnabas.wire.encoding import compile_encoder
from barnabas.wire.frequent_codecs import codec_name
from barnabas.wire.messages import MESSAGES
from barnabas.wire.primitives import MalformedFrame, TooManyElements
from tests.releases import ROOT
from tests.unit.wire.samples import Sample, samples

if running() == COMPILED:
    pytest.skip("the build reads plain messages; tests of all codecs run those that it made", allow_module_level=True)

from scripts.compiled.codecs import FREQUENT, codecs_text
from scripts.compiled.constructors import open_to_subclasses, write_out

SAMPLES = [sample for sample in samples() if sample.key in FREQUENT]
REQUESTS = [sample for sample in SAMPLES if type(sample.message) is MESSAGES[sample.key][0]]
RESPONSES = [sample for sample in SAMPLES if type(sample.message) is MESSAGES[sample.key][1]]


@pytest.fixture(scope="module")
def written() -> Any:
    """Execute what is compiled: its types are only said."""
    module = ModuleType("written_codecs")
    exec(inspect.getsource(frequent_codecs) + codecs_text(), module.__dict__)
    return module


def test_every_version_of_a_frequent_message_is_written(written: Any) -> None:
    assert (
        len(written.DECODERS)
        == len(written.ENCODERS)
        == sum(key.schema_versions.last - key.schema_versions.first + 1 for key in FREQUENT)
    )
    assert not frequent_codecs.DECODERS, "plain modules have none"
    assert codec_name(MESSAGES[ApiKey.FETCH][0], 17) in written.DECODERS


def encoded(sample: Sample) -> bytes:
    is_flexible = sample.key.is_flexible(sample.version)
    return b"".join(compile_encoder(type(sample.message), sample.version, is_flexible)(sample.message))


@pytest.mark.parametrize("sample", REQUESTS, ids=lambda sample: sample.name)
def test_requests_are_decoded(written: Any, sample: Sample) -> None:
    decode = written.DECODERS[codec_name(type(sample.message), sample.version)]
    assert decode(memoryview(encoded(sample)), 0) == sample.message


@pytest.mark.parametrize("sample", RESPONSES, ids=lambda sample: sample.name)
def test_responses_are_encoded(written: Any, sample: Sample) -> None:
    encode = written.ENCODERS[codec_name(type(sample.message), sample.version)]
    assert b"".join(encode(sample.message)) == encoded(sample)


@pytest.mark.parametrize("sample", REQUESTS, ids=lambda sample: sample.name)
def test_damaged_requests_have_the_same_outcome(written: Any, sample: Sample) -> None:
    plain = compile_decoder(type(sample.message), sample.version, sample.key.is_flexible(sample.version))
    decode = written.DECODERS[codec_name(type(sample.message), sample.version)]
    frame = encoded(sample)
    chance = random.Random(sample.name)
    for _ in range(200):
        damaged = bytearray(frame[: chance.randint(0, len(frame))])
        for _ in range(chance.randint(0, 3) if damaged else 0):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        elements_max = chance.choice([2, 1 << 17])
        assert outcome(decode, damaged, elements_max) == outcome(plain, damaged, elements_max)


def outcome(decode: Any, frame: bytearray, elements_max: int) -> object:
    try:
        return decode(memoryview(frame), 0, elements_max)
    except TooManyElements as excess:
        return f"too many: {excess}"
    except MalformedFrame as error:
        return f"malformed: {error}"


@pytest.mark.parametrize("key", FREQUENT, ids=lambda key: key.name)
def test_messages_have_the_defaults_of_their_fields(key: ApiKey, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"barnabas/wire/messages/{key.name.lower()}.py"
    module = ModuleType("written_messages")
    monkeypatch.setitem(sys.modules, "written_messages", module)
    exec(write_out((ROOT / path).read_text(), path), module.__dict__)
    plain = sys.modules[MESSAGES[key][0].__module__]
    names = [
        name for name, value in vars(plain).items() if isinstance(value, type) and value.__module__ == plain.__name__
    ]
    assert names
    for name in names:
        assert repr(getattr(module, name)()) == repr(getattr(plain, name)())


def test_null_is_a_value_of_an_array_that_may_be_null(monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "from dataclasses import dataclass\nfrom barnabas.wire.schema import wire\n"
        "@dataclass(slots=True)\nclass Topics:\n    names: list[str] | None = wire(['string'], nullable='0+')\n\n\n"
    )
    module = ModuleType("written_messages")
    monkeypatch.setitem(sys.modules, "written_messages", module)
    exec(write_out(source, "test"), module.__dict__)
    topics = module.__dict__["Topics"]
    assert (topics().names, topics(None).names, topics(["t"]).names) == ([], None, ["t"])
    assert topics().names is not topics().names


def test_interpreted_messages_may_have_compiled_bases() -> None:
    source = "from typing import Any\n\n\nclass Request:\n    pass\n\n\nclass Other:\n    pass\n"
    opened = open_to_subclasses(source, ("Request",)).split("\n")
    assert opened[0] == "from typing import TYPE_CHECKING, Any"
    assert opened[2] == "@mypyc_attr(allow_interpreted_subclasses=True)"
    assert opened[3:] == source.split("\n")[3:]
