"""Driver of the eventsourcing library's application recorders, one insert_events call a message.

    python -m tests.benchmarks.rival_eventsourcing sqlite   FILE       EVENT_TYPE
    python -m tests.benchmarks.rival_eventsourcing postgres SOCKET_DIR EVENT_TYPE

Its recorders know no tags: what they store is the id of a stream, a version, a topic and the payload.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections import Counter

from eventsourcing.persistence import ApplicationRecorder, StoredEvent  # type: ignore[import-not-found]  # own venv
from eventsourcing.postgres import (  # type: ignore[import-not-found]
    PostgresApplicationRecorder,
    PostgresDatastore,
)
from eventsourcing.sqlite import (  # type: ignore[import-not-found]
    SQLiteApplicationRecorder,
    SQLiteDatastore,
)

from tests.benchmarks.contestants import Cell
from tests.benchmarks.workload import Workload

DATABASE = "eventsourcing"
NAMESPACE = uuid.NAMESPACE_URL


def main(store: str, place: str, event_type: str) -> None:
    recorder = open_recorder(store, place)
    workload = Workload(event_type)
    versions: Counter[str] = Counter()
    for line in sys.stdin:
        print(json.dumps({"seconds": measure(recorder, workload, versions, Cell(**json.loads(line)))}), flush=True)


def open_recorder(store: str, place: str) -> ApplicationRecorder:
    recorder: SQLiteApplicationRecorder | PostgresApplicationRecorder
    if store == "sqlite":
        recorder = SQLiteApplicationRecorder(SQLiteDatastore(place))
    else:
        recorder = PostgresApplicationRecorder(PostgresDatastore(DATABASE, place, 5432, "postgres", ""))
    recorder.create_table()
    return recorder


def measure(recorder: ApplicationRecorder, workload: Workload, versions: Counter[str], cell: Cell) -> float:
    assert cell.clients == 1
    calls = [
        [stored(workload.event_type, event.stream, event.payload, versions) for event in events_of_one_call]
        for events_of_one_call in workload.batches(cell.events, cell.batch)
    ]
    started = time.perf_counter()
    for call in calls:
        recorder.insert_events(call)
    return time.perf_counter() - started


def stored(event_type: str, stream: str, payload: bytes, versions: Counter[str]) -> StoredEvent:
    versions[stream] += 1
    return StoredEvent(uuid.uuid5(NAMESPACE, stream), versions[stream], event_type, payload)


if __name__ == "__main__":
    main(*sys.argv[1:])
