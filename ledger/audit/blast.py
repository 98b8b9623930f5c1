"""The blast radius of a source, or of an event about it: every run that took it, and what came of those runs.

A run is touched when it declared the source, or began with the weights of a run that trained on it: what was only
evaluated on a source carries nothing of it on. A run that declares itself again without the source, or with another
revision of it, stays touched as it was: no event says under which declaration its steps were made.

Asked of an event, it is told whether the run took the revisions that the event names, and whether the event was known
when the run first declared the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ledger.audit.coordinates import Moment
from ledger.audit.lineage import Graph
from ledger.audit.reading import Events
from ledger.audit.run_briefs import RunBrief, Taken
from ledger.audit.wording import quoted
from ledger.core.errors import InvalidInput, NotFound
from ledger.log.model import StoredEvent

SAME: Final = "same_revision"
OTHER: Final = "other_revision"
UNKNOWN: Final = "unknown_revision"
_NEAREST: Final = ("", SAME, UNKNOWN, OTHER)
"""Of several ways in which one run takes a source, the first of these is told."""

_CONFIRMED: Final = "defect.confirmed"
_TRAIN: Final = "train"


@dataclass(frozen=True, slots=True)
class Concern:
    """What is asked about: a source, and perhaps one event of its stream with the revisions that it names."""

    source: str
    pos: int | None = None
    event_type: str | None = None
    dataset_revision: str | None = None
    verifier_revision: str | None = None


@dataclass(frozen=True, slots=True)
class Affected:
    """One run, how it is touched, and what came of it."""

    run: RunBrief
    match: str
    known_at_start: bool | None
    pos: int | None
    """Where the run first declared the source; None where another run did."""
    role: str | None
    through: str | None
    withdrawn: bool
    """A later declaration of the run leaves the source out."""
    checkpoints: tuple[str, ...]
    exports: tuple[str, ...]
    models: tuple[str, ...]
    traces: tuple[str, ...]


def concern_of(pos: int, moment: Moment, events: Events) -> Concern:
    """What an event concerns.

    Raises:
        NotFound: there is no such event among the first ones.
        InvalidInput: it is of no source's stream.
    """
    event = events.at(pos) if pos < moment.size else None
    if event is None:
        raise NotFound(
            f"there is no event at position {pos} among the first {moment.size}",
            remedy="Positions are those of `ledger audit timeline` and `ledger log tail`.",
            details={"pos": str(pos), "size": str(moment.size)},
        )
    kind, _, source = event.stream.partition("/")
    if kind != "source":
        raise InvalidInput(
            f"the event at position {pos} is a {event.type} of {quoted(event.stream)!r}, not of a source",
            remedy="Name an event of a source's stream, such as the confirmation of a defect.",
        )
    named = _revisions(event, events)
    return Concern(source, pos, event.type, named.get("dataset_revision"), named.get("verifier_revision"))


def _revisions(event: StoredEvent, events: Events) -> Mapping[str, str]:
    """The revisions that an event names; what is said of a defect later concerns those of its confirmation."""
    fields = events.fields(event) or {}
    named = _named(fields)
    if named or event.type == _CONFIRMED or "defect" not in fields:
        return named
    earlier = events.scan(event.pos, streams=(event.stream,), types=(_CONFIRMED,))
    confirmed = [said for e in earlier if (said := events.fields(e)) and said.get("defect") == fields["defect"]]
    return _named(confirmed[-1]) if confirmed else {}


def _named(fields: Mapping[str, Any]) -> dict[str, str]:
    """Where an event itself names them, or the row or subject in it."""
    places = (fields, fields.get("row"), fields.get("subject"), fields.get("source"))
    found: dict[str, str] = {}
    for place in places:
        if isinstance(place, dict):
            for name in ("dataset_revision", "verifier_revision"):
                if isinstance(place.get(name), str):
                    found.setdefault(name, place[name])
    return found


def affected(concern: Concern, runs: Iterable[RunBrief], graph: Graph) -> list[Affected]:
    """Every run that is touched, by where it took the source; those that began with another's weights after them."""
    by_id = {run.id: run for run in runs}
    took = {run.id: _ways(run, concern.source) for run in by_id.values() if run.takes(concern.source)}
    found = [_taken(concern, by_id[name], ways, graph) for name, ways in took.items()]
    found.sort(key=lambda one: (one.pos or 0, one.run.id))
    later: dict[str, Affected] = {}
    for one in found:
        for name in _begun_with(one.run, graph) if one.role == _TRAIN else ():
            if name not in took and name in by_id:
                later.setdefault(name, _through(by_id[name], one, graph))
    return [*found, *sorted(later.values(), key=lambda one: (one.run.first_pos, one.run.id))]


def _ways(run: RunBrief, source: str) -> list[Taken]:
    """How the run takes the source, by each of its declarations: to train on it, if for anything."""
    ways = [taken for taken in run.sources if taken.atlas_id == source]
    return [taken for taken in ways if taken.role == _TRAIN] or ways


def _taken(concern: Concern, run: RunBrief, ways: Sequence[Taken], graph: Graph) -> Affected:
    pos = min(taken.pos for taken in ways)
    return Affected(
        run=run,
        match=min((_match(concern, taken) for taken in ways), key=_NEAREST.index),
        known_at_start=None if concern.pos is None else concern.pos < pos,
        pos=pos,
        role=ways[0].role,
        through=None,
        withdrawn=all(taken.withdrawn for taken in ways),
        **_outcome(run, graph),
    )


def _through(run: RunBrief, other: Affected, graph: Graph) -> Affected:
    return Affected(
        run=run,
        match=other.match,
        known_at_start=other.known_at_start,
        pos=None,
        role=None,
        through=other.run.id,
        withdrawn=False,
        **_outcome(run, graph),
    )


def _match(concern: Concern, taken: Taken) -> str:
    """Whether the run took what the event names; unknown is equal to nothing."""
    if concern.pos is None:
        return ""
    pairs = [
        (named, ours)
        for named, ours in (
            (concern.dataset_revision, taken.dataset_revision),
            (concern.verifier_revision, taken.verifier_revision),
        )
        if named is not None
    ]
    if any(ours is not None and ours != named for named, ours in pairs):
        return OTHER
    return SAME if pairs and all(ours == named for named, ours in pairs) else UNKNOWN


def _begun_with(run: RunBrief, graph: Graph) -> Iterator[str]:
    """The runs whose weights came of this one's."""
    for node in graph.below(f"run/{run.id}"):
        if node.kind == "run":
            yield node.name.partition("/")[2]


def _outcome(run: RunBrief, graph: Graph) -> dict[str, tuple[str, ...]]:
    """What came of a run itself, not of the runs that began with its weights."""
    found: dict[str, list[str]] = {"checkpoint": [], "export": [], "model": [], "traces": []}
    for node in graph.below(f"run/{run.id}", through_runs=False):
        if node.kind in found:
            found[node.kind].append(node.name.partition("/")[2])
    return {
        "checkpoints": tuple(found["checkpoint"]),
        "exports": tuple(found["export"]),
        "models": tuple(found["model"]),
        "traces": tuple(found["traces"]),
    }
