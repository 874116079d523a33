"""docs/operate/operations.md: every command and every call in it can be made, and every call of the API is in it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from google.protobuf.json_format import Parse
from google.protobuf.message_factory import GetMessageClass

from barnabas_cli.__main__ import main
from barnabas_protos.controller.v1 import operations_pb2 as pb

PAGE = (Path(__file__).parents[3] / "docs/operate/operations.md").read_text()
SERVICE = pb.DESCRIPTOR.services_by_name["Operations"]
BLOCKS = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)
# A call's JSON may go on in the next line.
CALLS = [
    (name, arguments or "{}")
    for block in BLOCKS
    for name, arguments in re.findall(r"(?<![\w.])ops ([A-Z]\w+)(?: '(\{.*?\})')?", block, re.DOTALL)
]
COMMANDS = sorted(
    {
        re.split(r"\s+ops |\s+#", line)[0].strip()
        for block in BLOCKS
        for line in block.splitlines()
        if line.startswith("barnabas ")
    }
)


def test_every_call_of_the_api_has_its_place() -> None:
    assert {name for name, _ in CALLS} == set(SERVICE.methods_by_name)


@pytest.mark.parametrize(("name", "arguments"), CALLS)
def test_a_call_is_one_that_the_api_takes(name: str, arguments: str) -> None:
    Parse(arguments, GetMessageClass(SERVICE.methods_by_name[name].input_type)())


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_is_one_that_barnabas_takes(line: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text("{}")
    words = shlex.split(line.replace("$OPS", "127.0.0.1:9090").replace("plan.json", str(plan)))[1:]
    command: click.Command = main
    context = click.Context(main, info_name="barnabas")
    while isinstance(command, click.Group):
        if words and words[0] in command.commands:
            name = words.pop(0)
        else:
            name = "list"
        command = command.commands[name]
        context = click.Context(command, info_name=name, parent=context)
    command.parse_args(context, words)
