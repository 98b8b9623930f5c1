"""The quick check: a payload is certainly right if decoding and re-encoding it gives the same bytes.

A msgspec Struct is derived from the pydantic model, with the fields in the model's order. Equal bytes prove strict
JSON (unique keys, no NaN, valid UTF-8, no lone surrogate) and the schema at once, more than ten times cheaper than the
slow check. Unequal bytes prove nothing: the slow check decides, and makes the errors. So the quick check may never
accept what the slow one refuses, and may always give up; a model that it cannot express has none. Free-form parts are
kept raw, and each is proved by re-writing it. A validator over a payload's fields together is run on the decoded
struct, so it may read nothing but text, numbers and null.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from datetime import datetime
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec
from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import AfterValidator, BaseModel, JsonValue
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ledger.core import strictjson

QuickCheck = Callable[[bytes], bool]

MODEL_DEPTH: Final = 16
"""No model nests deeper, so a free-form part may use the rest of what strict JSON allows."""

_EDGES: Final = (b"0001-01-01T", b"9999-12-31T")
"""Days on which an offset can carry a time out of the years that the ledger knows: left to the slow check."""

_INT: Final = Annotated[int, msgspec.Meta(ge=-strictjson.MAX_INT, le=strictjson.MAX_INT)]


class _Inexpressible(Exception):  # noqa: N818  # no fault: the model has no quick check, that is all
    """The quick check cannot express this type."""


def quick_check(model: type[BaseModel]) -> QuickCheck | None:
    """The quick check of a model, or None if it has none."""
    try:
        struct, judge = _struct(model)
        holds_together = _validators(model)
    except _Inexpressible:
        return None
    decode = msgspec.json.Decoder(struct).decode
    encode = msgspec.json.Encoder().encode
    first_edge, last_edge = _EDGES

    def check(payload: bytes) -> bool:
        try:
            value = decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        if encode(value) != payload or strictjson.may_hold_nul(payload):
            return False
        if first_edge in payload or last_edge in payload:
            return False
        if judge is not None and not judge(value):
            return False
        return holds_together is None or holds_together(value)

    return check


Judge = Callable[[Any], bool]
"""Says whether a decoded value is certainly right in what its type does not say."""


def _validators(model: type[BaseModel]) -> Judge | None:
    """The model's validators over several fields, to be run on the struct in the model's place."""
    validators = model.__pydantic_decorators__.model_validators.values()
    if any(v.info.mode != "after" for v in validators):
        raise _Inexpressible
    functions = [v.func for v in validators]

    def holds_together(value: Any) -> bool:
        try:
            for function in functions:
                function(value)
        except ValueError:
            return False
        return True

    return holds_together if functions else None


def _struct(model: type[BaseModel]) -> tuple[type[msgspec.Struct], Judge | None]:
    if model.__pydantic_decorators__.field_validators:
        raise _Inexpressible
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    judges: list[tuple[str, Judge]] = []
    for name, info in model.model_fields.items():
        annotation, judge = _annotation(info.annotation)
        fields.append(_field(name, _with_metadata(annotation, info.metadata), info))
        if judge is not None:
            judges.append((name, judge))
    made = msgspec.defstruct(
        model.__name__, fields, forbid_unknown_fields=True, frozen=True, gc=False, kw_only=True, omit_defaults=True
    )
    return made, _all_of(judges)


def _all_of(judges: Iterable[tuple[str, Judge]]) -> Judge | None:
    """One judge over some members of a struct."""
    judge: Judge | None = None
    for name, member in judges:
        judge = _and(judge, attrgetter(name), member)
    return judge


def _and(before: Judge | None, get: Callable[[Any], Any], member: Judge) -> Judge:
    if before is None:
        return lambda value: member(get(value))
    return lambda value: before(value) and member(get(value))


def _field(name: str, annotation: Any, info: FieldInfo) -> tuple[str, Any] | tuple[str, Any, Any]:
    if info.default is PydanticUndefined:
        return (name, annotation)
    if annotation is msgspec.Raw:
        return (name, annotation, msgspec.Raw())
    if isinstance(info.default, list):
        return (name, annotation, msgspec.field(default_factory=list))
    return (name, annotation, info.default)


def _is_free_object(raw: msgspec.Raw) -> bool:
    data = bytes(raw)
    # A member that is absent is an empty Raw.
    if not data or data == b"{}":
        return True
    return data[:1] == b"{" and strictjson.is_canonical_free_form(data, max_depth=strictjson.MAX_DEPTH - MODEL_DEPTH)


def _annotation(annotation: Any) -> tuple[Any, Judge | None]:
    """The msgspec type for a pydantic annotation, and how to judge the free-form parts within."""
    origin = get_origin(annotation)
    if origin is Annotated:
        base, *metadata = get_args(annotation)
        inner, free = _annotation(base)
        return _with_metadata(inner, _flatten(metadata)), free
    if origin in (Union, types.UnionType):
        return _union(annotation)
    if origin is list:
        item, free = _annotation(get_args(annotation)[0])
        return list[item], free and (lambda values: all(map(free, values)))  # type: ignore[valid-type]  # at run time
    if origin is dict:
        if get_args(annotation) == (str, JsonValue):
            return msgspec.Raw, _is_free_object
        return _mapping(*get_args(annotation))
    if origin is Literal or annotation in (str, bool, type(None)):
        return annotation, None
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation.__pydantic_decorators__.model_validators:
            raise _Inexpressible
        return _struct(annotation)
    if annotation is int:
        return _INT, None
    if annotation is float:
        return Union[_INT, float], None  # noqa: UP007  # an integer is written without a point
    raise _Inexpressible


def _mapping(keys: Any, values: Any) -> tuple[Any, Judge | None]:
    """By name, such as metrics. A name that comes twice is found by re-encoding: only one is left."""
    key, _ = _annotation(keys)
    value, free = _annotation(values)
    if free is not None:
        raise _Inexpressible
    return dict[key, value], None  # type: ignore[valid-type]  # at run time


def _union(annotation: Any) -> tuple[Any, Judge | None]:
    members, frees = zip(*(_annotation(a) for a in get_args(annotation)), strict=True)
    free = [f for f in frees if f is not None]
    strings = [m for m in members if _is_stringlike(m)]
    if len(strings) > 1 or len(free) > 1:
        # msgspec takes one kind of string and one of object a union.
        raise _Inexpressible
    judge = free[0] if free else None
    return Union[tuple(members)], judge and (lambda value: value is None or judge(value))  # noqa: UP007  # at run time


def _is_stringlike(member: Any) -> bool:
    base = get_args(member)[0] if get_origin(member) is Annotated else member
    return base is str or base is datetime or get_origin(base) is Literal


def _flatten(metadata: list[Any]) -> list[Any]:
    return [m for item in metadata for m in (item.metadata if isinstance(item, FieldInfo) else [item])]


def _with_metadata(annotation: Any, metadata: list[Any]) -> Any:
    limits: dict[str, Any] = {}
    for item in metadata:
        match item:
            case MinLen():
                limits["min_length"] = item.min_length
            case MaxLen():
                limits["max_length"] = item.max_length
            case Ge():
                limits["ge"] = item.ge
            case Le():
                limits["le"] = item.le
            case AfterValidator():
                annotation, limits = _validated(item, annotation, limits)
            case _ if getattr(item, "pattern", None):
                limits["pattern"] = _python_pattern(item.pattern)
            case _:
                raise _Inexpressible
    if not limits:
        return annotation
    if get_origin(annotation) is Annotated:
        inner, meta = get_args(annotation)
        kept = {k: getattr(meta, k) for k in ("ge", "le", "min_length", "max_length", "pattern", "tz")}
        return Annotated[inner, msgspec.Meta(**{**{k: v for k, v in kept.items() if v is not None}, **limits})]
    return Annotated[annotation, msgspec.Meta(**limits)]


def _validated(item: AfterValidator, annotation: Any, limits: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The two validators of `fields`: a time is proved by decoding it as one; no JSON number is not finite here."""
    match item.func.__name__:
        case "_check_time":
            return datetime, {**limits, "tz": True}
        case "_check_finite":
            return annotation, limits
        case _:
            raise _Inexpressible


def _python_pattern(pattern: str) -> str:
    # In Python "$" also matches before a last line feed; in the slow check it does not.
    return pattern[:-1] + r"\Z" if pattern.endswith("$") else pattern
