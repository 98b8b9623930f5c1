"""Which event types there are, in which versions, and how a payload of each is read.

Adding an optional field keeps a type's version. Anything else is a new version with an upcaster and a stored example of
the old one: old bytes are never re-written, they are read through the upcasters. A registry never changes once the
vocabulary is loaded.

    registry.check("judgment.recorded", 1, payload)     # raises InvalidInput with pointers
    registry.read("judgment.recorded", 1, payload)      # the newest model, upcast if need be
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ledger.core import strictjson
from ledger.core.errors import InvalidInput, Problem
from ledger.core.ids import sha256_hex
from ledger.events.quick import QuickCheck, quick_check
from ledger.events.wording import words

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
PayloadModel = type[BaseModel]
Model = TypeVar("Model", bound=PayloadModel)


@dataclass(frozen=True)
class EventType:
    """One version of one type."""

    type: str
    version: int
    family: str
    streams: tuple[str, ...]
    """The kinds of stream (before the first "/") that hold it."""
    decision: bool
    """Judged by the rules before it is recorded; a fact is recorded whatever it says."""
    model: PayloadModel
    quick: QuickCheck | None

    def proves(self, payload: bytes) -> bool:
        """Whether the quick check says that the payload is certainly right."""
        return self.quick is not None and self.quick(payload)


@dataclass
class Registry:
    """The types that a program knows. Filled while modules load, read-only after."""

    _types: dict[tuple[str, int], EventType] = field(default_factory=dict)
    _upcasters: dict[tuple[str, int], Upcaster] = field(default_factory=dict)

    def event(
        self, type_: str, *, family: str, streams: tuple[str, ...], decision: bool = False, version: int = 1
    ) -> Callable[[Model], Model]:
        """Registers a payload model as a version of a type."""

        def register(model: Model) -> Model:
            key = (type_, version)
            if key in self._types:
                raise ValueError(f"{type_} version {version} is registered twice")
            self._types[key] = EventType(type_, version, family, streams, decision, model, quick_check(model))
            return model

        return register

    def upcaster(self, type_: str, from_version: int) -> Callable[[Upcaster], Upcaster]:
        """Registers the step from one version's payload to the next one's."""

        def register(step: Upcaster) -> Upcaster:
            if (type_, from_version) in self._upcasters:
                raise ValueError(f"the step from {type_} version {from_version} is registered twice")
            self._upcasters[type_, from_version] = step
            return step

        return register

    def __iter__(self) -> Iterator[EventType]:
        return iter(sorted(self._types.values(), key=lambda t: (t.type, t.version)))

    def versions(self, type_: str) -> list[int]:
        return sorted(v for t, v in self._types if t == type_)

    def latest(self, type_: str) -> EventType:
        """The newest version of a type."""
        versions = self.versions(type_)
        return self.get(type_, versions[-1] if versions else 1)

    def get(self, type_: str, version: int) -> EventType:
        """One version of a type.

        Raises:
            InvalidInput: reason UNKNOWN_EVENT_TYPE.
        """
        found = self._types.get((type_, version))
        if found is None:
            known = self.versions(type_)
            what = f"version {version} of it" if known else "it"
            raise InvalidInput(
                f"the event type {type_!r}: this server does not know {what}",
                reason="UNKNOWN_EVENT_TYPE",
                remedy=f"Send version {known[-1]}." if known else "GetInfo and `ledger schema list` name the types.",
                details={"type": type_, "type_version": str(version), "known_versions": ",".join(map(str, known))},
            )
        return found

    def check(self, type_: str, version: int, payload: bytes) -> None:
        """Accepts strict JSON of the type's schema, in whatever form it is written.

        Raises:
            InvalidInput: reason INVALID_PAYLOAD, the faults with their JSON pointers.
        """
        kind = self.get(type_, version)
        if not kind.proves(payload):
            _validate(kind, payload)

    def read(self, type_: str, version: int, payload: bytes) -> BaseModel:
        """The payload as the newest version's model, through the upcasters.

        Raises:
            InvalidInput: reason INVALID_PAYLOAD.
        """
        kind = self.get(type_, version)
        last = self.latest(type_)
        # As its own version first: an upcaster is given nothing else.
        model = kind.model.model_validate_json(payload) if kind.proves(payload) else _validate(kind, payload)
        if kind.version == last.version:
            return model
        value = strictjson.parse(payload)
        for step in range(kind.version, last.version):
            value = self._upcasters[type_, step](value)
        return _validate(last, strictjson.dumps(value))

    def newest_body(self, type_: str, version: int, payload: bytes) -> bytes:
        """The payload as JSON in its newest version: the same bytes where it is recorded in that.

        Raises:
            InvalidInput: reason UNKNOWN_EVENT_TYPE or INVALID_PAYLOAD.
        """
        if version == self.latest(type_).version:
            return payload
        return self.read(type_, version, payload).model_dump_json().encode()

    def upcaster_digest(self) -> str:
        """SHA-256 over the upcasters' definitions, not their comments or layout: part of a projection's identity."""
        steps = sorted((t, v, _definition(step)) for (t, v), step in self._upcasters.items())
        return sha256_hex(strictjson.dumps(steps))


def _validate(kind: EventType, payload: bytes) -> BaseModel:
    value = strictjson.parse(payload)
    try:
        return kind.model.model_validate_json(payload)
    except ValidationError as error:
        problems = _problems(error, value)
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    raise InvalidInput(
        f"the payload is not a {kind.type} of version {kind.version}: "
        f"{first.place or 'the whole'}: {first.message}{more}",
        reason="INVALID_PAYLOAD",
        remedy=f"`ledger schema show {kind.type}` prints the schema and an example.",
        problems=problems,
    )


def _problems(error: ValidationError, value: Any) -> list[Problem]:
    """One problem a place; where a union was meant, pydantic has an error for each of its members."""
    found: dict[str, list[str]] = {}
    for fault in error.errors(include_url=False, include_input=False)[: strictjson.MAX_PROBLEMS]:
        messages = found.setdefault(_place(fault["loc"], value, missing=fault["type"] == "missing"), [])
        message = words(fault)
        messages.append(message.removeprefix("Input should be ") if messages else message)
    return [Problem(place, " or ".join(messages)) for place, messages in found.items()]


def _place(loc: tuple[int | str, ...], value: Any, *, missing: bool) -> str:
    """The JSON pointer to a fault: pydantic's path, less the names of union members, which are no places."""
    parts: list[int | str] = []
    for part in loc:
        within = part in value if isinstance(value, dict) else isinstance(value, list) and isinstance(part, int)
        if within:
            value = value[part]
            parts.append(part)
    return strictjson.place(*parts, *loc[-1:] if missing else ())


def _definition(function: Upcaster) -> str:
    return ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(function))))


REGISTRY = Registry()
event = REGISTRY.event
