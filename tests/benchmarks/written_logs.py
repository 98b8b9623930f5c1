"""Histories written into logs, in bulk: the home of a server, begun as a server begins it, with one history in it.

In a folder that is kept, a home is written once and found again by the next run, as long as history, rules and fold are
the same: then nothing of an earlier release can be in it.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from ledger.client.drafts import Draft, actor
from ledger.log.log import Log
from ledger.projections.generations import Identity
from ledger.projections.projector import Projector
from services.server.app import release_identities
from services.server.first_start import create_log, introduce
from services.server.opening import open_store
from services.server.settings import Settings
from tests.benchmarks.histories import Event, history, version

BATCH: Final = 4_000
AHEAD: Final = 3
"""Requests that wait for the writer while the next one is made."""
_ACTOR: Final = actor("bench", "model")
_STAMP: Final = "history.json"


@dataclass(frozen=True)
class Home:
    """A log with a history in it."""

    settings: Settings
    rules: str
    events: int
    """Of the history; the log's first start comes before them."""

    @property
    def identity(self) -> Identity:
        return release_identities()[self.rules]

    @contextmanager
    def opened(self) -> Iterator[tuple[Log, Projector]]:
        """The log and its projector, which moves only when it is told to."""
        log = Log(open_store(self.settings))
        log.start()
        projector = Projector(log, release_identities())
        try:
            projector.open(self.rules)
            yield log, projector
        finally:
            projector.close()
            log.close()


def written(folder: Path, rules: str, events: int, database: str | None = None) -> Home:
    """A home with so many events in its log; one in a file that is there already is taken as it is."""
    place = folder / f"{rules}-{events}{'' if database is None else '-postgres'}"
    home = Home(Settings(home=place, db=database, first_rules=rules), rules, events)
    stamp = _stamp(home)
    marker = place / _STAMP
    if database is None and marker.exists() and json.loads(marker.read_text()) == stamp:
        return home
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    started = time.perf_counter()
    _write(home)
    seconds = time.perf_counter() - started
    print(f"wrote {events:,} events into {place} in {seconds:.0f} s", file=sys.stderr)
    marker.write_text(json.dumps(stamp))
    return home


def _stamp(home: Home) -> dict[str, Any]:
    return {"history": version(), "events": home.events, "identity": asdict(home.identity)}


def _write(home: Home) -> None:
    store = open_store(home.settings)
    create_log(store)
    log = Log(store)
    log.start()
    try:
        introduce(log, home.settings.keys_folder, home.identity)
        _append(log, history(home.events))
    finally:
        log.close()


def _append(log: Log, events: Iterator[Event]) -> None:
    waiting: deque[Future[Any]] = deque()
    while batch := list(islice(events, BATCH)):
        waiting.append(log.append([_draft(event) for event in batch]))
        while len(waiting) > AHEAD:
            waiting.popleft().result()  # raises if anything was refused
    while waiting:
        waiting.popleft().result()


def _draft(event: Event) -> Draft:
    return Draft(
        id=event.id,
        type=event.type,
        type_version=1,
        stream=event.stream,
        actor=_ACTOR,
        tags=event.tags,
        payload=event.body,
    )
