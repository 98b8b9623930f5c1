"""The events that every contestant appends: the same ids, streams, tags and payload bytes.

Nothing here but the standard library and uuid_utils, since rivals load it in environments of their own. That a payload
is what the ledger's quick check takes is proved by whoever starts the run, not here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import uuid_utils

ALIAS: Final = "alias.mapped"
STREAMS: Final = 50
TASKS: Final = 5_000
"""As many payloads, and as many values of the second tag; then they come round again under new ids."""


class Event(NamedTuple):
    id: str
    stream: str
    tags: tuple[str, str]
    payload: bytes


class Workload:
    """An endless supply of new events of one type, spread over the streams."""

    def __init__(self, event_type: str) -> None:
        self.event_type = event_type
        make = PAYLOAD_MAKERS[event_type]
        self._parts = event_type != ALIAS
        self._stream = "source/bench" if self._parts else "alias/bench"
        self._payloads = [_compact(make(i)) for i in range(TASKS)]
        self._made = 0

    @property
    def payload_bytes(self) -> int:
        """The median payload's size."""
        return sorted(map(len, self._payloads))[TASKS // 2]

    def payloads(self) -> list[bytes]:
        return self._payloads

    def take(self, count: int) -> list[Event]:
        """The next events, each with an id that no other event has."""
        first = self._made
        self._made += count
        return [self._event(i) for i in range(first, first + count)]

    def batches(self, count: int, size: int) -> list[list[Event]]:
        """The next events, in batches of one size."""
        return [self.take(size) for _ in range(count // size)]

    def _event(self, i: int) -> Event:
        source = i % STREAMS
        return Event(
            id=str(uuid_utils.uuid7()),
            stream=f"{self._stream}:{source:02d}",
            tags=(self._group(source), f"task:{i % TASKS:05d}"),
            payload=self._payloads[i % TASKS],
        )

    def _group(self, source: int) -> str:
        """The first of the two tags: a part of a review must name its collection."""
        return f"collection:{_collection(source)}" if self._parts else f"origin:bench-{source:02d}"


def _compact(payload: dict[str, Any]) -> bytes:
    return json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode()


def _collection(source: int) -> str:
    return f"review-{source:024x}"


def _person(id_: str, label: str, kind: str) -> dict[str, str]:
    return {"id": id_, "label": label, "kind": kind}


def _time(i: int) -> str:
    return f"2026-11-{1 + i % 28:02d}T{i % 24:02d}:{i % 60:02d}:00Z"


def _alias_mapped(i: int) -> dict[str, Any]:
    """A name that a card uses for a source: about 520 bytes, and a fact that no projection folds."""
    name = f"DCAgent/exp_rpt_{i:06d}"
    return {
        "alias": name,
        "source_ids": [f"Task Trove:DCAgent__exp_rpt_{i:06d}", f"Task Trove:DCAgent__exp_rpt_{i:06d}-v2"],
        "status": "ambiguous",
        "applicability": "unknown",
        "evidence": [{"name": "card.md", "sha256": f"{i:064x}", "size": 18_000 + i, "media_type": "text/markdown"}],
        "note": f"The card of checkpoint {i:06d} names the dataset {name} without a revision; two releases bear the "
        "name, and their parquet files differ in 2,603 rows.",
    }


def _tag_assigned(i: int) -> dict[str, Any]:
    """A tag that a curator puts on one review: about 520 bytes."""
    return {
        "collection": _collection(i % STREAMS),
        "assignment_id": f"tag-{i:06d}",
        "target": {"kind": "review", "id": f"task-{i:05d}-judgment-{i % 3}"},
        "namespace": "failure",
        "value": "verifier accepts an empty answer",
        "origin": "curated",
        "assigned_by": _person(f"curator-{i % 16:02d}", f"Curator {i % 16:02d}", "human"),
        "assigned_at": _time(i),
        "evidence_review_ids": [f"task-{i:05d}-native", f"task-{i:05d}-synthesis"],
        "note": f"Row {i:06d}: the saved answer is blank and was given the full score twice in a row today.",
        "supersedes_assignment_id": None,
    }


def _judgment_recorded(i: int) -> dict[str, Any]:
    """One judge's opinion of one task: about 900 bytes."""
    task = f"task-{i:05d}"
    return {
        "collection": _collection(i % STREAMS),
        "review_id": f"{task}-judgment-{i % 3}",
        "subject": {
            "id": task,
            "level": "task",
            "repository": "MarinSkyRL",
            "dataset_revision": f"{i % STREAMS:040x}",
            "source_id": f"bench:{i % STREAMS:02d}",
            "task_id": task,
            "task_path": None,
            "row_index": i,
        },
        "reviewer": _person(f"judge-{i % 16:02d}", f"Judge {i % 16:02d}", "model"),
        "publisher": _person("lab", "The lab", "organization"),
        "reviewed_at": _time(i),
        "imported_at": _time(i),
        "tests_executed": False,
        "coverage": {
            "scope": "single_task",
            "sample_count": 1,
            "population_count": None,
            "sampling_method": None,
            "seed": None,
            "samples": [],
        },
        "summary": "The answer handles the empty case and the bound; the verifier agrees with the reference.",
        "verdict": ("keep", "reject")[i & 1],
        "metrics": [],
        "findings": [],
        "evidence": [],
        "derived_from_review_ids": [],
        "supersedes_review_id": None,
        "attributes": {},
        "method": "model_judgment",
    }


PAYLOAD_MAKERS: Final[dict[str, Callable[[int], dict[str, Any]]]] = {
    ALIAS: _alias_mapped,
    "tag.assigned": _tag_assigned,
    "judgment.recorded": _judgment_recorded,
}
"""The first is the default: about the size at which event stores are commonly compared. The others are parts of reviews,
which the projector folds while they are appended."""
