"""Rows for exports: the messages of the wire as columns, in each form that a file takes.

A message within a row is a column a field in CSV (`review.id`) and a struct in Parquet; a list is JSON text in CSV.
What is absent is empty in CSV and null elsewhere. A number stays a number. Text is recorded by others: a spreadsheet
must not run it, so a cell that it could take for a formula begins with an apostrophe.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from ledger.client.cells import safe
from ledger.client.messages import to_dict

__all__ = ("arrow_fields", "columnar", "columns", "flat", "safe")

_Field = Any
"""A field's descriptor: its class is another one in each implementation of protobuf."""


def columns(descriptor: Any) -> Iterator[str]:
    """The names of the columns of a message in CSV, in order."""
    for field in descriptor.fields:
        if _is_nested(field):
            yield from (f"{_name(field)}.{inner}" for inner in columns(field.message_type))
        else:
            yield _name(field)


def flat(message: Message) -> dict[str, Any]:
    """A row of CSV: text, numbers and None, by column."""
    return dict(_flat(message.DESCRIPTOR, to_dict(message)))


def columnar(message: Message) -> dict[str, Any]:
    """A row of Parquet: as JSON has it, with times as microseconds."""
    row = {}
    for field in message.DESCRIPTOR.fields:
        absent = field.has_presence and not message.HasField(field.name)
        value = getattr(message, field.name)
        # As in JSON, a time of 0 that cannot be absent means that there is none.
        absent = absent or (_is_time(field) and not field.has_presence and value == 0)
        row[_name(field)] = None if absent else _columnar(value, field)
    return row


def arrow_fields(descriptor: Any, arrow: Any) -> list[Any]:
    """The Parquet columns of a message."""
    return [arrow.field(_name(field), _arrow_type(field, arrow)) for field in descriptor.fields]


def _name(field: _Field) -> str:
    return str(field.name).removesuffix("_us")


def _is_time(field: _Field) -> bool:
    return bool(field.type == FieldDescriptor.TYPE_INT64 and field.name.endswith("_us"))


def _is_map(field: _Field) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _is_nested(field: _Field) -> bool:
    return field.message_type is not None and not field.is_repeated


def _flat(descriptor: Any, row: Mapping[str, Any] | None) -> Iterator[tuple[str, Any]]:
    for field in descriptor.fields:
        name = _name(field)
        value = None if row is None else row[name]
        if _is_nested(field):
            yield from ((f"{name}.{inner}", cell) for inner, cell in _flat(field.message_type, value))
        elif isinstance(value, (list, dict)):
            yield name, json.dumps(value) if value else None
        else:
            yield name, {True: "true", False: "false"}[value] if isinstance(value, bool) else value


def _columnar(value: Any, field: _Field) -> Any:
    if _is_map(field):
        return [(str(key), value[key]) for key in sorted(value)]
    if field.is_repeated:
        return [columnar(item) if isinstance(item, Message) else item for item in value]
    return columnar(value) if isinstance(value, Message) else value


def _arrow_type(field: _Field, arrow: Any) -> Any:
    if _is_map(field):
        return arrow.map_(arrow.string(), _single_type(field.message_type.fields_by_name["value"], arrow))
    single = _single_type(field, arrow)
    return arrow.list_(single) if field.is_repeated else single


def _single_type(field: _Field, arrow: Any) -> Any:
    if field.message_type is not None:
        return arrow.struct(arrow_fields(field.message_type, arrow))
    if _is_time(field):
        return arrow.timestamp("us", tz="UTC")
    return {
        FieldDescriptor.CPPTYPE_BOOL: arrow.bool_,
        FieldDescriptor.CPPTYPE_DOUBLE: arrow.float64,
        FieldDescriptor.CPPTYPE_STRING: arrow.string,
    }.get(field.cpp_type, arrow.int64)()
