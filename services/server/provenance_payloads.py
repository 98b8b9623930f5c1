"""From a typed message to the payload of its event: the same JSON, field by field, that the type's model would write.

- A field that is absent is left out where the model has a default for it, and null where the model asks for a value.
- What equals its default is left out, members stand in the model's order, and names within a map or a Struct are
  sorted: equal messages have equal bytes, and they are those of `ledger.client.drafts.draft`.
- A double that is not finite is written by name; a whole number in a Struct is written as an integer.
- A message with a field that is not known here is not written at all. It was made for a newer contract, and without
  the field it would say something else.

Whether the payload is right is for its model to say: nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from math import isfinite
from operator import itemgetter
from typing import Any, Final, NamedTuple, cast, get_args

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_json

from ledger.core.errors import Problem
from ledger.core.strictjson import MAX_INT, MAX_PLACE_PART, MAX_PROBLEMS

_STRUCT: Final = "google.protobuf.Struct"
_VALUE: Final = "google.protobuf.Value"
_LEFT_OUT: Final = object()
_NOTHING: Final = object()
"""The default of a field that has none: no value equals it."""

_by_name = itemgetter(0)


class NewerContract(Exception):  # noqa: N818  # says what the message is; `strangers` says where
    """The message holds what this release's contract does not have."""


class _Member(NamedTuple):
    """One field of a payload, and how it is written."""

    name: str
    write: Callable[[Any], Any] | None
    """None: the value is JSON as it is."""
    default: Any
    absent: Any
    """What stands there when the message does not have the field."""


def payload_of(model: type[BaseModel], message: Message) -> bytes:
    """The payload that a message says, as JSON.

    Raises:
        NewerContract: if the message holds what this release does not know.
    """
    return to_json(_writer(model, message.DESCRIPTOR)(message))


def holds_strangers(message: Message) -> bool:
    """Whether the message itself, not what is in it, has a field that is not known here."""
    return len(UnknownFieldSet(message)) > 0


def strangers(message: Message, place: str) -> list[Problem]:
    """Everything in a message that a newer contract has and this one has not, the first so many."""
    problems: list[Problem] = []
    for problem in _strangers(message, place):
        problems.append(problem)
        if len(problems) == MAX_PROBLEMS:
            break
    return problems


@cache
def _writer(model: type[BaseModel], descriptor: Descriptor) -> Callable[[Message], dict[str, Any]]:
    """How messages of a kind are written, made once."""
    members = tuple(_member(name, info, descriptor.fields_by_name[name]) for name, info in model.model_fields.items())

    def write(message: Message) -> dict[str, Any]:
        if holds_strangers(message):
            raise NewerContract
        given = {field.name: value for field, value in message.ListFields()}
        written: dict[str, Any] = {}
        for name, write_value, default, absent in members:
            if name in given:
                value = given[name] if write_value is None else write_value(given[name])
                if value != default:
                    written[name] = value
            elif absent is not _LEFT_OUT:
                written[name] = absent
        return written

    return write


def _member(name: str, info: FieldInfo, field: FieldDescriptor) -> _Member:
    write = _converter(field, _record_in(info.annotation))
    if info.is_required():
        return _Member(name, write, _NOTHING, _empty(field))
    return _Member(name, write, info.default, _LEFT_OUT)


def _empty(field: FieldDescriptor) -> Any:
    """What a field that must be there holds when the message says nothing of it."""
    if is_map(field):
        return {}
    if field.is_repeated:
        return []
    return None if field.has_presence else field.default_value


def _converter(field: FieldDescriptor, inner: type[BaseModel] | None) -> Callable[[Any], Any] | None:
    if is_map(field):
        return _numbers
    one = _converter_of_one(field, inner)
    if not field.is_repeated:
        return one
    return list if one is None else lambda values: [one(value) for value in values]


def _converter_of_one(field: FieldDescriptor, inner: type[BaseModel] | None) -> Callable[[Any], Any] | None:
    if field.message_type is not None:
        if field.message_type.full_name == _STRUCT:
            return _object
        assert inner is not None, f"{field.full_name} is a message, and the model has no record there"
        return _writer(inner, field.message_type)
    return _number if field.type == FieldDescriptor.TYPE_DOUBLE else None


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _number(value: float) -> float | str:
    if isfinite(value):
        return value
    if value != value:  # noqa: PLR0124  # only NaN differs from itself
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _numbers(values: Mapping[str, float]) -> dict[str, float | str]:
    return {name: value if isfinite(value) else _number(value) for name, value in sorted(values.items())}


def _object(struct: Any) -> dict[str, Any]:
    if holds_strangers(struct):
        raise NewerContract
    return {name: _value(value) for name, value in sorted(struct.fields.items(), key=_by_name)}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    if kind is None or holds_strangers(value):
        raise NewerContract
    match kind:
        case "null_value":
            return None
        case "number_value":
            return _whole(value.number_value)
        case "struct_value":
            return _object(value.struct_value)
        case "list_value":
            return _list(value.list_value)
        case _:
            return getattr(value, kind)


def _list(values: Any) -> list[Any]:
    if holds_strangers(values):
        raise NewerContract
    return [_value(value) for value in values.values]


def _whole(value: float) -> float | int | str:
    """A number of a Struct, which has no integers of its own; beyond what a double holds exactly it stays as it is."""
    return int(value) if value.is_integer() and abs(value) <= MAX_INT else _number(value)


def _record_in(annotation: Any) -> type[BaseModel] | None:
    """The record within an annotation such as `list[Arm]` or `Basis | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _record_in(part)) is not None), None)


def _strangers(message: Message, place: str) -> Iterator[Problem]:
    unknown = UnknownFieldSet(message)
    for number in range(len(unknown)):
        yield Problem(place, f"field {unknown[number].field_number} is not known here")
    if message.DESCRIPTOR.full_name == _VALUE and not message.ListFields():
        yield Problem(place, "the value is of no kind that is known here")
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part, inner in _messages_in(field, value, f"{place}.{field.name}"):
                yield from _strangers(inner, part)


def _messages_in(field: FieldDescriptor, value: Any, place: str) -> Iterator[tuple[str, Message]]:
    """The messages that a field holds, each with its place."""
    if is_map(field):
        for key in sorted(value):
            if isinstance(value[key], Message):
                yield f"{place}[{key[:MAX_PLACE_PART]!r}]", value[key]
    elif field.is_repeated:
        for number, one in enumerate(value):
            yield f"{place}[{number}]", one
    else:
        yield place, cast("Message", value)
