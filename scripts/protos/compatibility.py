"""Whether two versions of the contracts can talk to each other: the present ones, and those of every release.

    scripts/proto-compat                 compares; exit code 1 and a line for each break
    scripts/proto-compat release         writes down the contracts of the releases that `protos/released` lacks

The rules are those of buf's category WIRE: what was sent by the one is understood by the other, and nothing that was
sent in one meaning is read in another. Names of fields may change, for they are not on the wire. What a scanner of
the data channel makes of fields that it does not know is tested beside it (tests/unit/channel).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from google.protobuf import descriptor_pb2 as pb

from tests.releases import ROOT, releases

RELEASED = ROOT / "protos" / "released"

_Field = pb.FieldDescriptorProto

# Types whose bytes are read as each other's: https://protobuf.dev/programming-guides/proto3/#updating
_SAME_ON_THE_WIRE = [
    {_Field.TYPE_INT32, _Field.TYPE_INT64, _Field.TYPE_UINT32, _Field.TYPE_UINT64, _Field.TYPE_BOOL, _Field.TYPE_ENUM},
    {_Field.TYPE_SINT32, _Field.TYPE_SINT64},
    {_Field.TYPE_FIXED32, _Field.TYPE_SFIXED32},
    {_Field.TYPE_FIXED64, _Field.TYPE_SFIXED64},
    {_Field.TYPE_STRING, _Field.TYPE_BYTES},
]


def breaks(before: pb.FileDescriptorSet, after: pb.FileDescriptorSet) -> list[str]:
    """What a peer of `before` would misunderstand, a line each."""
    found: list[str] = []
    messages_after = dict(_messages(after))
    for name, message in _messages(before):
        found += (
            _message_breaks(name, message, messages_after[name])
            if name in messages_after
            else [f"message {name} is gone"]
        )
    enums_after = dict(_enums(after))
    for name, enum in _enums(before):
        found += _enum_breaks(name, enum, enums_after[name]) if name in enums_after else [f"enum {name} is gone"]
    services_after = dict(_services(after))
    for name, service in _services(before):
        found += (
            _service_breaks(name, service, services_after[name])
            if name in services_after
            else [f"service {name} is gone"]
        )
    return found


def _message_breaks(name: str, before: pb.DescriptorProto, after: pb.DescriptorProto) -> Iterator[str]:
    fields_after = {field.number: field for field in after.field}
    for old in before.field:
        new = fields_after.get(old.number)
        if new is None:
            if not _is_reserved(after, old.number):
                yield f"{name}.{old.name}: field {old.number} is gone, and its number is not reserved"
            continue
        what = f"{name}.{new.name}: field {old.number}"
        if not _are_same_on_the_wire(old, new):
            yield f"{what} was {_type_name(old)}, and is {_type_name(new)}"
        if (old.label == _Field.LABEL_REPEATED) != (new.label == _Field.LABEL_REPEATED):
            yield f"{what} was {_label_name(old)}, and is {_label_name(new)}"
        if _oneof(before, old) != _oneof(after, new):
            yield f"{what} has moved into a oneof, or out of one"
    for span in before.reserved_range:
        for number in range(span.start, min(span.end, span.start + 1000)):
            if not _is_reserved(after, number):
                yield f"{name}: number {number} was reserved, and is not any more"


def _enum_breaks(name: str, before: pb.EnumDescriptorProto, after: pb.EnumDescriptorProto) -> Iterator[str]:
    names_after: dict[int, set[str]] = {}
    for value in after.value:
        names_after.setdefault(value.number, set()).add(value.name)
    for value in before.value:
        names = names_after.get(value.number)
        if names is None:
            if not any(span.start <= value.number <= span.end for span in after.reserved_range):
                yield f"{name}.{value.name}: {value.number} is gone, and is not reserved"
        elif value.name not in names:
            yield f"{name}: {value.number} was {value.name}, and is {' and '.join(sorted(names))}"


def _service_breaks(name: str, before: pb.ServiceDescriptorProto, after: pb.ServiceDescriptorProto) -> Iterator[str]:
    methods_after = {method.name: method for method in after.method}
    for old in before.method:
        new = methods_after.get(old.name)
        if new is None:
            yield f"rpc {name}.{old.name} is gone"
        elif _signature(old) != _signature(new):
            yield f"rpc {name}.{old.name} was {_signature(old)}, and is {_signature(new)}"


def _signature(method: pb.MethodDescriptorProto) -> str:
    asked = f"{'stream ' if method.client_streaming else ''}{method.input_type.lstrip('.')}"
    answered = f"{'stream ' if method.server_streaming else ''}{method.output_type.lstrip('.')}"
    return f"({asked}) returns ({answered})"


def _is_reserved(message: pb.DescriptorProto, number: int) -> bool:
    return any(span.start <= number < span.end for span in message.reserved_range)


def _are_same_on_the_wire(old: pb.FieldDescriptorProto, new: pb.FieldDescriptorProto) -> bool:
    if old.type == new.type:
        return old.type_name == new.type_name
    return any(old.type in types and new.type in types for types in _SAME_ON_THE_WIRE)


def _oneof(message: pb.DescriptorProto, field: pb.FieldDescriptorProto) -> bool:
    """Whether it is one of several; `optional` makes a oneof of one, which is none on the wire."""
    return field.HasField("oneof_index") and not field.proto3_optional


def _type_name(field: pb.FieldDescriptorProto) -> str:
    return field.type_name.lstrip(".") or _Field.Type.Name(field.type).removeprefix("TYPE_").lower()


def _label_name(field: pb.FieldDescriptorProto) -> str:
    return "repeated" if field.label == _Field.LABEL_REPEATED else "single"


def _messages(files: pb.FileDescriptorSet) -> Iterator[tuple[str, pb.DescriptorProto]]:
    for file in files.file:
        yield from _nested(file.package, file.message_type)


def _nested(parent: str, messages: Sequence[pb.DescriptorProto]) -> Iterator[tuple[str, pb.DescriptorProto]]:
    for message in messages:
        name = f"{parent}.{message.name}"
        yield name, message
        yield from _nested(name, message.nested_type)


def _enums(files: pb.FileDescriptorSet) -> Iterator[tuple[str, pb.EnumDescriptorProto]]:
    for file in files.file:
        for enum in file.enum_type:
            yield f"{file.package}.{enum.name}", enum
    for name, message in _messages(files):
        for enum in message.enum_type:
            yield f"{name}.{enum.name}", enum


def _services(files: pb.FileDescriptorSet) -> Iterator[tuple[str, pb.ServiceDescriptorProto]]:
    for file in files.file:
        for service in file.service:
            yield f"{file.package}.{service.name}", service


def compiled(root: Path) -> pb.FileDescriptorSet:
    """Of all .proto files below `root`/protos, except for etcd's, whose peer is etcd."""
    from grpc_tools import protoc

    folder = root / "protos"
    paths = sorted(folder.rglob("*.proto"))
    if not (folder / "barnabas_protos").exists():  # version 0.1.0: its files import each other as protos/…
        folder = root
    protos = [str(path.relative_to(folder)) for path in paths if path.parts[-3] != "etcd"]
    with tempfile.NamedTemporaryFile(suffix=".binpb") as out:
        failed = protoc.main(["protoc", f"--proto_path={folder}", f"--descriptor_set_out={out.name}", *protos])
        if failed:
            raise SystemExit("proto-compat: the .proto files do not compile")
        return pb.FileDescriptorSet.FromString(Path(out.name).read_bytes())


def readable(files: pb.FileDescriptorSet) -> str:
    """Every field, value and call by its number or name, a line each."""
    lines = []
    for name, message in _messages(files):
        for field in sorted(message.field, key=lambda each: each.number):
            label = "repeated " if field.label == _Field.LABEL_REPEATED else ""
            lines.append(f"{name} {field.number} {label}{_type_name(field)} {field.name}")
        lines += [f"{name} reserved {span.start}–{span.end - 1}" for span in message.reserved_range]
        if not message.field:
            lines.append(f"{name} empty")
    for name, enum in _enums(files):
        lines += [f"{name} {value.number} {value.name}" for value in enum.value]
    for name, service in _services(files):
        lines += [f"{name}.{method.name} {_signature(method)}" for method in service.method]
    return "".join(f"{line}\n" for line in sorted(lines))


def released() -> dict[str, pb.FileDescriptorSet]:
    """By version."""
    paths = sorted(RELEASED.glob("*.binpb"))
    return {path.stem: pb.FileDescriptorSet.FromString(path.read_bytes()) for path in paths}


def write_down_releases() -> None:
    RELEASED.mkdir(exist_ok=True)
    for release in releases():
        if (RELEASED / f"{release.version}.binpb").exists():
            continue
        with tempfile.TemporaryDirectory() as directory:
            release.extract(Path(directory), "protos")
            files = compiled(Path(directory))
        (RELEASED / f"{release.version}.binpb").write_bytes(files.SerializeToString(deterministic=True))
        (RELEASED / f"{release.version}.txt").write_text(readable(files))
        print(f"proto-compat: wrote down version {release.version}")


def main() -> int:
    if sys.argv[1:] == ["release"]:
        write_down_releases()
        return 0
    present = compiled(ROOT)
    found = [f"{line} (version {version})" for version, files in released().items() for line in breaks(files, present)]
    for line in found:
        print(f"proto-compat: {line}", file=sys.stderr)
    if found:
        print("proto-compat: peers of that version would misread it; give it a number of its own", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
