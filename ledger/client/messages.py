"""Messages of the wire as the JSON that the command and the pages show: one shape, generic by descriptor.

- What is absent is null: an optional field, a message, the other members of a oneof.
- Bytes are lower-case hex. An enum value is its own word in lower case.
- A time `x_us`, in microseconds, is `x`, in RFC 3339. A time of 0 in a field that cannot be absent means that there is
  none: null.
- A number that is not finite is its name, since JSON has no number for it. A Struct is the object that it stands for,
  its whole numbers integers.
"""

from __future__ import annotations

import math
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue, Struct, Value

from ledger.core import clock
from ledger.wire import audit_pb2

_Field = Any
"""A field's descriptor: its class is another one in each implementation of protobuf."""
COORDINATE_FIELDS = ("size", "recorded_at", "final", "rules", "rules_digest", "redactions_through", "policy_size")
"""What an answer about a source says of where it stands."""


def to_dict(message: Message) -> dict[str, Any]:
    """The message as JSON values, every field there."""
    return {_name(field): _value(message, field) for field in message.DESCRIPTOR.fields}


def source_dict(source: audit_pb2.Source, coordinates: audit_pb2.AnswerCoordinates) -> dict[str, Any]:
    """A source as one JSON object: its fields, then the coordinates of the answer."""
    return {**to_dict(source), **coordinates_dict(coordinates)}


def coordinates_dict(coordinates: audit_pb2.AnswerCoordinates) -> dict[str, Any]:
    """Where an answer stands; rules are null while none were in force."""
    whole = to_dict(coordinates)
    none_in_force = {"rules": coordinates.rules or None, "rules_digest": coordinates.rules_digest or None}
    return {name: whole[name] for name in COORDINATE_FIELDS} | none_in_force


def _is_time(field: _Field) -> bool:
    return bool(field.type == FieldDescriptor.TYPE_INT64 and field.name.endswith("_us"))


def _name(field: _Field) -> str:
    name = str(field.name)
    return name.removesuffix("_us") if _is_time(field) else name


def _value(message: Message, field: _Field) -> Any:
    held = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        values = field.message_type.fields_by_name["value"]
        return {str(key): _single(held[key], values) for key in sorted(held)}
    if field.is_repeated:
        return [_single(item, field) for item in held]
    if field.has_presence and not message.HasField(field.name):
        return None
    if _is_time(field) and held == 0 and not field.has_presence:
        return None
    return _single(held, field)


def _single(value: Any, field: _Field) -> Any:
    if isinstance(value, Struct):
        return _plain(value)
    if isinstance(value, Message):
        return to_dict(value)
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, bytes):
        return value.hex()
    if field.enum_type is not None:
        return _word(field.enum_type, value)
    return _moment(value) if _is_time(field) else value


def finite(value: float) -> float | str:
    """The number, or its name where it is none that JSON can say."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _plain(value: Struct | ListValue | Value) -> Any:
    """What a Struct, or a part of one, stands for."""
    if isinstance(value, Struct):
        return {key: _plain(value.fields[key]) for key in sorted(value.fields)}
    if isinstance(value, ListValue):
        return [_plain(item) for item in value.values]
    kind = value.WhichOneof("kind")
    if kind in {"struct_value", "list_value"}:
        return _plain(getattr(value, kind))
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else finite(number)
    return None if kind in {None, "null_value"} else getattr(value, kind)


def _word(kind: Any, number: int) -> str | int:
    """ACTOR_KIND_HUMAN of ActorKind is "human"; a number that this release does not know stays one."""
    known = kind.values_by_number.get(number)
    if known is None:
        return number
    prefix = "".join(f"_{c}" if c.isupper() else c for c in kind.name).upper().removeprefix("_") + "_"
    return str(known.name).removeprefix(prefix).lower()


def _moment(us: int) -> str | None:
    """RFC 3339, or null for a number beyond the years 1 to 9999, which no text can say."""
    return clock.to_text(us) if clock.MIN_US <= us <= clock.MAX_US else None
