"""Of the small states of runs, exports and campaigns, what lists and graphs ask for.

The rules write these states with every event, so they hold no series: what else is asked of a run is folded from its
stream (`ledger.audit.run_facts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from ledger.projections.runs import RunStates


class _Part(msgspec.Struct, frozen=True, gc=False):
    """Part of a state."""


class Taken(_Part, frozen=True):
    """A source as a run takes it, as it was last declared with these revisions."""

    dataset_id: str
    pos: int
    """Of the first declaration that names the source, at whatever revision: from there on it counts as taken."""
    atlas_id: str | None = None
    dataset_revision: str | None = None
    verifier_revision: str | None = None
    role: str = "train"
    withdrawn: bool = False
    """Whether only an earlier declaration of the run says so."""


class Model(_Part, frozen=True):
    """A model that a run began with, or that one descends from."""

    name: str
    repository: str | None = None
    commit: str | None = None

    @property
    def key(self) -> str:
        """Its repository; where that is unknown, its name."""
        return self.repository or self.name


class Begun(_Part, frozen=True):
    """Another run's checkpoint that an attempt began with."""

    run_id: str
    step: int
    pos: int
    digest: str | None = None


class Saved(_Part, frozen=True):
    """A checkpoint of the run."""

    step: int
    status: str
    pos: int
    attempt: int | None = None
    digest: str | None = None
    basis: str = "recorded"


class Named(_Part, frozen=True):
    """A checkpoint, as an export names it."""

    run_id: str
    step: int
    attempt: int | None = None
    digest: str | None = None


class Published(_Part, frozen=True):
    """A repository in which something was published."""

    repository: str
    pos: int
    commit: str | None = None
    basis: str = "recorded"


class RunBrief(_Part, frozen=True):
    """One run."""

    summary: dict[str, Any]
    sources: tuple[Taken, ...] = ()
    rl_start: Model | None = None
    root_architecture: Model | None = None
    resumed_from_runs: tuple[Begun, ...] = ()
    checkpoints: tuple[Saved, ...] = ()
    traces: tuple[Published, ...] = ()
    logs: tuple[Published, ...] = ()
    first_declared_pos: int | None = None

    @property
    def id(self) -> str:
        return str(self.summary["id"])

    @property
    def basis(self) -> str:
        """How its declaration is known."""
        return str(self.summary["basis"])

    @property
    def sample(self) -> bool:
        return bool(self.summary.get("sample"))

    @property
    def first_pos(self) -> int:
        return int(self.summary["first_pos"])

    @property
    def declared_pos(self) -> int:
        """Where it was first declared; where it never was, its first event."""
        return self.first_pos if self.first_declared_pos is None else self.first_declared_pos

    @property
    def trained_on(self) -> set[str]:
        """The Atlas ids of its training sources, as they were last declared."""
        return {
            taken.atlas_id
            for taken in self.sources
            if taken.atlas_id is not None and taken.role == "train" and not taken.withdrawn
        }

    def with_checkpoints(self, checkpoints: Iterable[Mapping[str, Any]]) -> RunBrief:
        """With these checkpoints, as a dossier has them, in place of its own."""
        return replace(self, checkpoints=tuple(map(_saved, checkpoints)))

    def takes(self, source: str) -> bool:
        """Whether it takes a source, for whatever, as any of its declarations says."""
        return any(taken.atlas_id == source for taken in self.sources)


class ExportBrief(_Part, frozen=True):
    """One export."""

    id: str
    status: str
    basis: str
    first_pos: int
    started_pos: int | None = None
    checkpoint: Named | None = None
    models: tuple[Published, ...] = ()
    sample: bool = False

    @property
    def pos(self) -> int:
        """Of the event by which it is known."""
        return self.first_pos if self.started_pos is None else self.started_pos


class Consumption(_Part, frozen=True):
    """That a run takes a source, and where it first says so."""

    run: str
    source: str
    pos: int


class Briefs:
    """The small states at a size. Safe to use from many threads."""

    def __init__(self, states: RunStates) -> None:
        self._states = states

    def runs(self, size: int) -> list[RunBrief]:
        """Every run, by id."""
        return [_run(state) for _, state in self._states.at(size, kind="run")]

    def exports(self, size: int) -> list[ExportBrief]:
        """Every export, by id."""
        return [_export(state) for _, state in self._states.at(size, kind="export")]

    def consumed(self, size: int) -> list[Consumption]:
        """Which runs take which sources, for whatever, as any of their declarations says."""
        return [
            Consumption(run.id, taken.atlas_id, taken.pos)
            for run in self.runs(size)
            for taken in run.sources
            if taken.atlas_id is not None
        ]

    def consumers(self, size: int) -> dict[str, list[str]]:
        """Of each source the runs that take it, by id."""
        found: dict[str, list[str]] = {}
        for one in self.consumed(size):
            takers = found.setdefault(one.source, [])
            if one.run not in takers:
                takers.append(one.run)
        return found


def _saved(checkpoint: Mapping[str, Any]) -> Saved:
    return Saved(
        step=checkpoint["step"],
        status=checkpoint["status"],
        pos=checkpoint["committed_pos"],
        attempt=checkpoint.get("attempt"),
        digest=checkpoint.get("digest"),
        basis=checkpoint["basis"],
    )


_run = msgspec.json.Decoder(RunBrief).decode
_export = msgspec.json.Decoder(ExportBrief).decode
