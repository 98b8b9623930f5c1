"""Driver of the eventsourcing library: how fast its repository gives aggregates by replaying their events, on SQLite.

    python -m tests.benchmarks.rival_replay FOLDER

The same history, an aggregate a stream, an event of the library's for each event. Saved once into a file, which is found
again by the next run. It is asked {"events": …, "replayed": …, "unread": …} a line. Unread: the payload is kept as one
text that the aggregate never looks into, which is the least that the library can do; else it is read as it was written,
and the aggregate counts types and verdicts, which is less than any rule does.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections import Counter
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from eventsourcing.application import Application  # type: ignore[import-not-found]  # in an environment of its own
from eventsourcing.domain import Aggregate, event  # type: ignore[import-not-found]

from tests.benchmarks.histories import history, version

SAVED_TOGETHER = 2_000
NAMESPACE = uuid.NAMESPACE_URL


class Stream(Aggregate):  # type: ignore[misc]  # the base is not typed here
    """What one stream says."""

    @event("Begun")  # type: ignore[untyped-decorator]
    def __init__(self, id: uuid.UUID) -> None:  # noqa: A002  # the library takes the id by this name
        self._id = id
        self.types: Counter[str] = Counter()
        self.verdicts: Counter[str] = Counter()

    @event("Recorded")  # type: ignore[untyped-decorator]
    def record(self, name: str, type: str, payload: dict[str, Any]) -> None:  # noqa: A002
        self.types[type] += 1
        if "verdict" in payload:
            self.verdicts[payload["verdict"]] += 1


class UnreadStream(Aggregate):  # type: ignore[misc]
    """The same, kept and not read."""

    @event("Begun")  # type: ignore[untyped-decorator]
    def __init__(self, id: uuid.UUID) -> None:  # noqa: A002
        self._id = id
        self.types: Counter[str] = Counter()

    @event("Recorded")  # type: ignore[untyped-decorator]
    def record(self, name: str, type: str, payload: str) -> None:  # noqa: A002
        self.types[type] += 1


def main(folder: str) -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(measure(Path(folder), **asked)), flush=True)


def measure(folder: Path, *, events: int, replayed: int, unread: bool) -> dict[str, float]:
    """Replays aggregates until so many events were, and says how many in how many seconds, and seconds of CPU."""
    app, names = saved(folder, events, unread=unread)
    count, started, cpu = 0, time.perf_counter(), time.process_time()
    for name in cycle(names):
        count += app.repository.get(name).version
        if count >= replayed:
            break
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu
    app.close()
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "events": count}


def saved(folder: Path, events: int, *, unread: bool) -> tuple[Application, list[uuid.UUID]]:
    """The application, and its aggregates of sources in an order that has nothing to do with their age."""
    file = folder / f"eventsourcing-{events}-{version()[:12]}{'-unread' if unread else ''}.db"
    done = file.with_suffix(".json")
    if not done.exists():
        for leftover in folder.glob(f"{file.name}*"):
            leftover.unlink()
    app = Application(env={"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(file)})
    if not done.exists():
        started = time.perf_counter()
        done.write_text(json.dumps(save(app, events, unread=unread)))
        print(f"wrote {events:,} events into {file} in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    return app, sorted(map(uuid.UUID, json.loads(done.read_text())))


def save(app: Application, events: int, *, unread: bool) -> list[str]:
    streams: dict[str, Aggregate] = {}
    told = history(events)
    while some := list(islice(told, SAVED_TOGETHER)):
        touched = set()
        for said in some:
            if said.stream not in streams:
                name = uuid.uuid5(NAMESPACE, said.stream)
                streams[said.stream] = (UnreadStream if unread else Stream)(id=name)
            payload = said.body.decode() if unread else said.payload
            streams[said.stream].record(name=said.id, type=said.type, payload=payload)
            touched.add(said.stream)
        app.save(*(streams[name] for name in sorted(touched)))
    return [str(stream.id) for name, stream in streams.items() if name.startswith("source/")]


if __name__ == "__main__":
    main(*sys.argv[1:])
