"""Payloads from what a training loop has in its hands: plain JSON, secrets replaced, checked by the type's model.

- A number that is not finite is written by name, also within free-form parts; a scalar of numpy or torch by its value.
- A whole number that JSON's readers do not hold exactly, such as a seed of 64 bits, is written as text; a set in order.
- Text is searched for secrets before it is hashed or written anywhere. Metrics hold no text and are not searched.
"""

from __future__ import annotations

import dataclasses
import math
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from enum import Enum
from pathlib import PurePath
from types import SimpleNamespace
from typing import Any, Final

import orjson
from pydantic import BaseModel, ValidationError

from ledger.core import strictjson
from ledger.core.errors import InvalidInput
from ledger.core.secrets import may_hold_secret, redact
from ledger.core.strictjson import MAX_INT
from ledger.events import REGISTRY
from ledger.events.registry import EventType

MAX_PAYLOAD: Final = 1 << 20
MAX_KEY: Final = 512
_DEPTH: Final = 60
_OF_A_CHECKPOINT: Final = frozenset({"checkpoint.selected", "checkpoint.deleted"})
"""Their attempt is the one that saved the checkpoint, which need not be the one that speaks."""
_PLAIN: Final = frozenset({float, int})
"""Numbers as JSON has them; a truth value is none, though Python says it is an int."""


class Cleaner:
    """Makes plain JSON of a value; `found` counts the secrets that it replaced."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()

    def plain(self, value: Any, name: str = "", depth: int = 0) -> Any:
        """The value as JSON has it.

        Raises:
            InvalidInput: reason INVALID_PAYLOAD, if there is no such thing.
        """
        if depth > _DEPTH:
            raise _unreadable(f"nested deeper than {_DEPTH}")
        # The kinds that nearly everything is, by their very type.
        kind = type(value)
        if kind is str:
            return self._text(value, name)
        if kind is int:
            return value if -MAX_INT <= value <= MAX_INT else str(value)
        if kind is bool or value is None:
            return value
        match value:
            case float():
                return finite_or_name(float(value))
            case Mapping():
                return {self._text(str(k), ""): self.plain(v, str(k), depth + 1) for k, v in value.items()}
            case BaseModel():
                return self.plain(value.model_dump(), name, depth + 1)
            case list() | tuple():
                return [self.plain(item, name, depth + 1) for item in value]
            case set() | frozenset():
                # In an order of its own a digest would differ from one start of the program to the next.
                return sorted((self.plain(item, name, depth + 1) for item in value), key=strictjson.dumps)
        return self._foreign(value, name, depth)

    def _foreign(self, value: Any, name: str, depth: int) -> Any:
        match value:
            case Enum():
                return self.plain(value.value, name, depth + 1)
            case str() | PurePath():
                return self._text(str(value), name)
            case int():
                return self.plain(int(value), name, depth)
            case datetime() | date():
                return value.isoformat()
            case Namespace() | SimpleNamespace():  # what command lines are parsed to
                return self.plain(vars(value), name, depth + 1)
            case Sequence() if not isinstance(value, (bytes, bytearray, memoryview)):  # such as OmegaConf's lists
                return self.plain(list(value), name, depth + 1)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self.plain(dataclasses.asdict(value), name, depth + 1)
        for method in ("tolist", "item"):  # numpy, torch and jax: a scalar's value, an array's nested lists
            if callable(getattr(value, method, None)):
                return self.plain(getattr(value, method)(), name, depth + 1)
        raise _unreadable(f"{name or 'a value'} is a {type(value).__name__}")

    def _text(self, text: str, name: str) -> str:
        if not may_hold_secret(text, name=name):
            return text
        cleaned, found = redact(text, name=name)
        self.found.update(found)
        return cleaned


def finite_or_name(value: float) -> float | str:
    """The number, or its name where JSON has no number for it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def filled(kind: EventType, plain: Any, own: Mapping[str, Any]) -> Any:
    """With the run and the attempt, first, where the type has them."""
    fields = kind.model.model_fields.keys() - ({"attempt"} if kind.type in _OF_A_CHECKPOINT else set())
    known = {name: value for name, value in own.items() if name in fields}
    return {**known, **plain} if isinstance(plain, dict) else plain


def payload(kind: EventType, value: Any) -> bytes:
    """A plain value as the payload of a type: what equals its default is left out.

    Raises:
        InvalidInput: reason INVALID_PAYLOAD, the faults with their JSON pointers; or TOO_LARGE.
    """
    try:
        data = orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER)
    except orjson.JSONEncodeError as error:
        raise _unreadable(str(error)) from None
    try:
        model = kind.model.model_validate_json(data)
    except ValidationError:
        REGISTRY.check(kind.type, kind.version, data)  # makes the error, with its places
        raise
    made = model.model_dump_json(exclude_defaults=True).encode()
    if strictjson.may_hold_nul(made):
        strictjson.parse(made)
    return checked_size(made)


def checked_size(made: bytes) -> bytes:
    if len(made) > MAX_PAYLOAD:
        raise InvalidInput(
            f"a payload of {len(made):,} bytes; the limit is {MAX_PAYLOAD:,}",
            reason="TOO_LARGE",
            remedy="Record it in parts; larger bytes are artifacts.",
        )
    return made


def step_payload(head: Mapping[str, Any], step: Mapping[str, Any], metrics: Mapping[str, Any]) -> bytes | None:
    """The payload of one step, the quick way; None where a value or a name needs a closer look.

    A sum is finite only if every number in it is.
    """
    try:
        if not _PLAIN.issuperset(map(type, metrics.values())) or not math.isfinite(sum(metrics.values())):
            return None
        if "" in metrics or max(map(len, metrics), default=0) > MAX_KEY:
            return None
        made = orjson.dumps({**head, "steps": [{**step, "metrics": metrics}]}, option=orjson.OPT_STRICT_INTEGER)
    except (TypeError, ValueError, OverflowError):  # orjson's own errors among them
        return None
    return None if strictjson.may_hold_nul(made) else made


def numbers(metrics: Mapping[Any, Any]) -> tuple[dict[str, float | str], list[str]]:
    """Each metric as a number or the name of one; and the keys of those that are neither."""
    found: dict[str, float | str] = {}
    left_out: list[str] = []
    for key, value in metrics.items():
        name = _name(key)
        number = None if name is None else _number(value)
        if name is None or number is None:
            left_out.append(str(key)[:MAX_KEY])
        else:
            found[name] = number
    return found, left_out


def _name(key: Any) -> str | None:
    name = str(key)
    try:
        name.encode()
    except UnicodeEncodeError:
        return None
    return name if 0 < len(name) <= MAX_KEY and "\x00" not in name else None


def _number(value: Any) -> float | str | None:
    if value is None or isinstance(value, (str, bytes)):
        return value if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity") else None
    try:
        return finite_or_name(float(value))
    except (TypeError, ValueError, OverflowError, RuntimeError):  # torch raises RuntimeError for a tensor of many
        return None


def metric_steps(type_: str, value: Any) -> Iterable[int]:
    """The steps that a metrics event tells of, to be named if it is dropped."""
    said = value.get("steps" if type_ == "steps.logged" else "samples", []) if isinstance(value, dict) else []
    return [s["step"] for s in said if isinstance(s, dict) and type(s.get("step")) is int]


def _unreadable(what: str) -> InvalidInput:
    return InvalidInput(
        f"the payload is no JSON: {what}",
        reason="INVALID_PAYLOAD",
        remedy="Give text, numbers, true, false, null, and lists and mappings of them.",
    )
