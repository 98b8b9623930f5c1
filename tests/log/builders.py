"""One-line builders of drafts, and a log that is started and stopped around a test."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from ledger.core.errors import LedgerError
from ledger.core.ids import new_id
from ledger.core.strictjson import dumps
from ledger.events.examples import example
from ledger.log.conditions import Condition
from ledger.log.log import Log
from ledger.log.model import Outcome, Receipt
from ledger.log.ports import Store
from ledger.wire import log_pb2

ORIGIN = "log-under-test"
SOURCE = "source/Example:word-problems"
ALIAS = example("alias.mapped", 1)
Draft = log_pb2.Draft

_numbers = itertools.count()


def alias(name: str = "svamp", *, note: str | None = None, **fields: Any) -> Draft:
    """A small fact without a collection: any name, any note."""
    payload: dict[str, Any] = {
        "alias": name,
        "source_ids": [],
        "status": "unresolved",
        "applicability": "unknown",
        "note": note,
    }
    return draft("alias.mapped", fields.pop("stream", f"alias/{name}"), dumps(payload), **fields)


def draft(type_: str, stream: str, payload: bytes, **fields: Any) -> Draft:
    return Draft(id=fields.pop("id", new_id()), type=type_, type_version=1, stream=stream, payload=payload, **fields)


def part(collection: str, **fields: Any) -> Draft:
    """A part of a collection, tagged with it."""
    payload: dict[str, Any] = {
        "collection": collection,
        "assignment_id": f"assignment-{next(_numbers)}",
        "target": {"kind": "review", "id": "r"},
        "namespace": "failure",
        "value": "x",
        "origin": "curated",
        "assigned_by": {"id": "c", "label": "", "kind": "human"},
        "assigned_at": "2026-10-01T00:00:00Z",
        "evidence_review_ids": [],
        "note": None,
        "supersedes_assignment_id": None,
    }
    tags = [f"collection:{collection}", *fields.pop("tags", [])]
    return draft("tag.assigned", fields.pop("stream", SOURCE), dumps(payload), tags=tags, **fields)


@contextmanager
def running(store: Store) -> Iterator[Log]:
    """A started log; stopped, with its store, at the end."""
    log = Log(store)
    log.start()
    try:
        yield log
    finally:
        log.close()


def append(log: Log, *drafts: Draft, conditions: Sequence[Condition] = (), **how: Any) -> list[Receipt]:
    """The receipts of one request, all of them recorded."""
    outcome = log.append(drafts, conditions=conditions, **how).result(60)
    return receipts(outcome)


def receipts(outcome: Outcome) -> list[Receipt]:
    assert all(isinstance(r, Receipt) for r in outcome.receipts)
    return [r for r in outcome.receipts if isinstance(r, Receipt)]


def refusal(future: Future[Outcome]) -> LedgerError:
    """Why the request was refused."""
    error = future.exception(60)
    assert isinstance(error, LedgerError), error
    return error


def positions(found: Iterable[Receipt]) -> list[int]:
    return [r.pos for r in found]
