"""Whether arms of a campaign may be compared: they are alike in everything but what the campaign compares.

Each thing that must be alike has a name and a value an arm. What nobody recorded is unknown, and unknown is equal to
nothing: where one arm's value is unknown, nobody can say that it is alike. Some things must be known in any case; of
all others it is asked as soon as one arm records them.

A revision belongs to a source. Where arms differ in their sources their revisions are not compared, but each must be
known: a rate on data that nobody can name says nothing of the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ledger.audit.run_facts import Dossier

SOURCES: Final = "sources"
SETTING: Final = "setting"
OF_ITS_OWN: Final = "known, of a source that no other arm takes"

REQUIRED: Final = (
    "base",
    "dataset_revision",
    "verifier_revision",
    "advantage_estimator",
    "loss_reduction",
    "train_batch_size",
    "policy_mini_batch_size",
    "micro_train_batch_size_per_gpu",
    "n_samples_per_prompt",
    "max_input_length",
    "max_generate_length",
    "trainer_commit",
    "budget",
)
"""Without these nobody can say that two arms are alike."""

_TRAINER: Final = "trainer"
_MAY_DIFFER: Final = frozenset({"other", "seed"})
"""Arms that differ in their seed are repetitions; further settings stand beside the others."""

Values = Mapping[str, str]
"""What is known of an arm, by name."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What a campaign compares: arms differ in it, and it need not be alike."""

    what: str | None
    """`sources`, `setting` or `other`; None: nobody said."""
    setting: str | None = None

    @property
    def name(self) -> str | None:
        """The setting as it is called among the values: the last part of its path."""
        return self.setting.rpartition(".")[2] if self.what == SETTING and self.setting else None


@dataclass(frozen=True, slots=True)
class Value:
    """One thing that must be alike, as one arm has it."""

    name: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Alike:
    """Arms of one group: the same values, and the same unknowns."""

    arms: tuple[str, ...]
    unknown: tuple[str, ...]
    differs_in: tuple[str, ...]
    """From the first group."""


def values_of(dossier: Dossier) -> dict[str, Value]:
    """Everything that is known of an arm and would have to be alike, by name."""
    declared: Mapping[str, Any] = dossier.get("declared") or {}
    found = {name: Value(name, value, "declared") for name, value in _declared(declared) if value is not None}
    for part in (dossier.get("objective") or {}).get("identity", ()):
        # The trainer's code stands among the declared ones, which tell a tree with changes from its commit.
        if part["name"] != _TRAINER:
            found[part["name"]] = Value(part["name"], part["value"], part["origin"])
    return found


def _declared(declared: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    yield "base", _model(declared.get("rl_start"))
    yield from _data(declared)
    yield from ((name, as_text(value)) for name, value in _settings(declared.get("algorithm") or {}))
    yield from ((f"{code['role']}_commit", _commit(code)) for code in declared.get("code") or ())
    yield "rollout_engine", _engine(declared)
    parallelism = declared.get("parallelism") or {}
    yield "strategy", parallelism.get("strategy")
    yield "data_parallel", as_text(parallelism.get("data"))
    yield "sandbox_provider", declared.get("sandbox_provider")
    yield "agent_harness", declared.get("agent_harness")
    yield "budget", _budget(declared)


def _model(model: Mapping[str, Any] | None) -> str | None:
    """A model by what identifies it: a name alone is a label."""
    pinned = model and (model.get("commit") or model.get("digest"))
    return f"{model.get('repository') or model['name']}@{pinned}" if model and pinned else None


def _data(declared: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    sources = sorted(training_sources(declared), key=source_name)
    yield "sources", ", ".join(map(source_name, sources)) or None
    for field in ("dataset_revision", "verifier_revision"):
        pinned = [source.get(field) for source in sources]
        known = bool(pinned) and None not in pinned
        yield field, ", ".join(f"{source_name(s)}@{s[field]}" for s in sources) if known else None


def training_sources(declared: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What the run was declared to train on."""
    return [source for source in declared.get("sources") or () if source.get("role", "train") == "train"]


def source_name(source: Mapping[str, Any]) -> str:
    """The Atlas id; where it is unknown, the dataset's."""
    return str(source.get("atlas_id") or source["dataset_id"])


def _settings(algorithm: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from ((name, value) for name, value in algorithm.items() if name not in _MAY_DIFFER)
    yield from (algorithm.get("other") or {}).items()


def _commit(code: Mapping[str, Any]) -> str | None:
    """What ran; two trees that differ from one commit need not be alike."""
    return None if code.get("dirty") else code.get("commit") or code.get("version")


def _engine(declared: Mapping[str, Any]) -> str | None:
    """The program that rolled out: a version alone may be that of another one."""
    names = sorted({code["name"] for code in declared.get("code") or () if code["role"] == "rollout_engine"})
    return ", ".join(names) or None


def _budget(declared: Mapping[str, Any]) -> str | None:
    steps, seconds = declared.get("planned_steps"), declared.get("time_budget_seconds")
    parts = [f"{steps} steps"] if steps is not None else []
    parts += [f"{seconds} s"] if seconds is not None else []
    return ", ".join(parts) or None


def as_text(value: Any) -> str | None:
    """A setting as text, the same however it was written: 1 and 1.0 are one number."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def must_be_alike(arms: Sequence[Values], compared: Compared) -> list[str]:
    """The names that are asked of every arm: what is required, then what any arm records."""
    recorded = sorted({name for arm in arms for name in arm} - set(REQUIRED))
    left_out = {compared.name, "sources" if compared.what == SOURCES else None}
    return [name for name in (*REQUIRED, *recorded) if name not in left_out]


def unshared(arms: Mapping[str, Values], sources: Mapping[str, frozenset[str]]) -> dict[str, Values]:
    """The arms' values as they are compared where arms differ in their sources.

    Revisions of sources that only one arm takes are the same thing to all: known.
    """
    alone = {
        arm
        for arm, taken in sources.items()
        if not any(taken & others for other, others in sources.items() if other != arm)
    }
    return {arm: _masked(values) if arm in alone else values for arm, values in arms.items()}


def _masked(values: Values) -> Values:
    revisions = {"dataset_revision", "verifier_revision"}
    return {name: OF_ITS_OWN if name in revisions else value for name, value in values.items()}


def groups(arms: Mapping[str, Values], names: Sequence[str]) -> list[Alike]:
    """The arms by what they have in common, in the order of the arms; the first group is that of the first arm."""
    found: dict[tuple[str | None, ...], list[str]] = {}
    for arm, values in arms.items():
        found.setdefault(tuple(values.get(name) for name in names), []).append(arm)
    if not found:
        return []
    first = next(iter(found))
    return [
        Alike(
            arms=tuple(members),
            unknown=tuple(name for name, value in zip(names, key, strict=True) if value is None),
            differs_in=differing(names, first, key),
        )
        for key, members in found.items()
    ]


def differing(names: Sequence[str], one: Sequence[str | None], other: Sequence[str | None]) -> tuple[str, ...]:
    """In what two arms differ. What is unknown of one alone is a difference that nobody can rule out."""
    return tuple(name for name, a, b in zip(names, one, other, strict=True) if a != b)


def all_together(arms: Mapping[str, Values], names: Sequence[str]) -> Alike:
    """All arms as one group, with everything in which they differ or are unknown."""
    columns = {name: {values.get(name) for values in arms.values()} for name in names}
    return Alike(
        arms=tuple(arms),
        unknown=tuple(name for name in names if None in columns[name]),
        differs_in=tuple(name for name in names if len(columns[name] - {None}) > 1),
    )
