"""Facts as a trainer sends them, and payloads of every kind that can be made up."""

from __future__ import annotations

import json
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le, MaxLen, MinLen
from google.protobuf import json_format
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, JsonValue
from pydantic.fields import FieldInfo

from ledger.core.ids import new_id
from ledger.core.strictjson import MAX_INT
from ledger.events import REGISTRY, EventType
from ledger.events.examples import example
from ledger.wire import log_pb2, provenance_pb2, provenance_pb2_grpc
from services.server.provenance_drafts import TYPES
from tests.server.doors import BY, Doors

KINDS = [kind for kind in REGISTRY if kind.family in {"training", "export"}]
RUN = "word-problems-arm-0"
"""The run of the stored examples."""
EXPORT = "word-problems-arm-0-step-15"
_FIELDS = {kind.type: name for name, kind in TYPES.items()}


def fact(type_: str, payload: dict[str, Any], **fields: Any) -> provenance_pb2.Fact:
    """A fact of a payload as JSON has it."""
    made = provenance_pb2.Fact(**{"id": new_id(), "actor": BY, **fields})
    json_format.ParseDict(payload, getattr(made, _FIELDS[type_]))
    getattr(made, _FIELDS[type_]).SetInParent()
    return made


def told(kind: EventType, **fields: Any) -> provenance_pb2.Fact:
    """The stored example of a type, as a fact."""
    return fact(kind.type, json.loads(example(kind.type, kind.version)), **fields)


def step(number: int = 1, run: str = "r1", **fields: Any) -> provenance_pb2.Fact:
    logged = {"step": number, "metrics": {"reward/avg_raw_reward": 0.5, "policy/policy_entropy": "NaN"}}
    return fact("steps.logged", {"run_id": run, "attempt": 1, "steps": [logged]}, **fields)


def asked(*facts: provenance_pb2.Fact, atomic: bool = True, **fields: Any) -> provenance_pb2.RecordRequest:
    return provenance_pb2.RecordRequest(facts=facts, atomic=atomic, **fields)


def door(doors: Doors) -> provenance_pb2_grpc.ProvenanceStub:
    return provenance_pb2_grpc.ProvenanceStub(doors.channel)


def record(doors: Doors, *facts: provenance_pb2.Fact, **fields: Any) -> log_pb2.AppendResponse:
    return door(doors).Record(asked(*facts, **fields), timeout=30)


def payloads(model: type[BaseModel]) -> st.SearchStrategy[BaseModel]:
    """Every payload of a model that a message can say: names in their order, no list that is empty in place of null."""
    return _dicts(model).map(model.model_validate)


def _dicts(model: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    needed, free = {}, {}
    for name, info in model.model_fields.items():
        values = _values(Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation)
        (needed if info.is_required() else free)[name] = values
    return st.fixed_dictionaries(needed, optional=free)


def _values(annotation: Any) -> st.SearchStrategy[Any]:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _limited(args[0], args[1:])
    if origin in (Union, UnionType):
        shortest = 1 if NoneType in args else 0
        return st.one_of([_lists(a, shortest) if get_origin(a) is list else _values(a) for a in args])
    if origin is Literal:
        return st.sampled_from(args)
    if origin is list:
        return _lists(annotation, 0)
    if origin is dict:
        return _objects() if args == (str, JsonValue) else _sorted(_values(args[0]), _values(args[1]))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _dicts(annotation)
    return {NoneType: st.none(), bool: st.booleans(), str: _texts(0, 20), float: _numbers(), int: st.integers()}[
        annotation
    ]


def _limited(base: Any, given: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    limits = [limit for one in given for limit in (one.metadata if isinstance(one, FieldInfo) else [one])]
    if any(isinstance(limit, AfterValidator) and limit.func.__name__ == "_check_time" for limit in limits):
        return st.sampled_from(["2026-07-29T09:00:00Z", "2026-07-29T09:00:00.5+02:00"])
    pattern = next((limit.pattern for limit in limits if getattr(limit, "pattern", None)), None)
    if pattern:
        return st.from_regex(pattern.replace("$", r"\Z"))
    least = next((limit.min_length for limit in limits if isinstance(limit, MinLen)), 0)
    most = next((limit.max_length for limit in limits if isinstance(limit, MaxLen)), least + 20)
    if base is str:
        return _texts(least, min(most, 20))
    if base is int:
        low = next((limit.ge for limit in limits if isinstance(limit, Ge)), 0)
        return st.integers(low, next((limit.le for limit in limits if isinstance(limit, Le)), MAX_INT))
    return _lists(base, least) if get_origin(base) is list else _values(base)


def _texts(least: int, most: int) -> st.SearchStrategy[str]:
    characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
    return st.text(characters, min_size=least, max_size=most)


def _numbers() -> st.SearchStrategy[float]:
    return st.floats(allow_nan=False, allow_infinity=False)


def _lists(annotation: Any, shortest: int) -> st.SearchStrategy[Any]:
    return st.lists(_values(get_args(annotation)[0]), min_size=shortest, max_size=3)


def _sorted(names: st.SearchStrategy[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(names, values, max_size=4).map(lambda made: dict(sorted(made.items())))


def _objects() -> st.SearchStrategy[Any]:
    """Free-form objects; a number that is whole is an integer, since a Struct cannot tell the two apart."""
    numbers = _numbers().filter(lambda n: not n.is_integer()) | st.integers(-MAX_INT, MAX_INT)
    leaves = st.none() | st.booleans() | numbers | _texts(0, 5)
    inner = st.recursive(leaves, lambda one: st.lists(one, max_size=2) | _sorted(_texts(0, 5), one), max_leaves=4)
    return _sorted(_texts(0, 5), inner)
