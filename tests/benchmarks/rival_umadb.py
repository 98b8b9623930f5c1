"""Driver of umadb: its server from the pip wheel, its own client, one append call a message.

    python -m tests.benchmarks.rival_umadb FOLDER PORT EVENT_TYPE

Its events bear the same two tags; it knows no streams.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import umadb  # type: ignore[import-not-found]  # in an environment of its own

from tests.benchmarks.contestants import Cell
from tests.benchmarks.workload import Workload

START_TIMEOUT = 20.0

Batches = list[list[umadb.Event]]


def main(folder: str, port: str, event_type: str) -> None:
    url = f"http://127.0.0.1:{port}"
    binary = Path(sys.executable).parent / "umadb"
    command = [str(binary), "--listen", f"127.0.0.1:{port}", "--db-path", str(Path(folder) / "uma.db")]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(url)
        workload = Workload(event_type)
        for line in sys.stdin:
            print(json.dumps({"seconds": measure(url, workload, Cell(**json.loads(line)))}), flush=True)
    finally:
        server.terminate()
        server.wait()


def wait_for(url: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        try:
            umadb.Client(url).head()
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def measure(url: str, workload: Workload, cell: Cell) -> float:
    connections = [umadb.Client(url) for _ in range(cell.clients)]
    shares = [prepare(workload, cell.events // cell.clients, cell.batch) for _ in connections]
    before = connections[0].head() or 0
    started = time.perf_counter()
    if cell.clients == 1:
        append(connections[0], shares[0])
    else:
        together(connections, shares)
    seconds = time.perf_counter() - started
    stored = (connections[0].head() or 0) - before
    if stored != cell.events:
        raise RuntimeError(f"umadb stored {stored} of {cell.events} events")
    return seconds


def prepare(workload: Workload, events: int, batch: int) -> Batches:
    return [
        [
            umadb.Event(workload.event_type, e.payload, tags=list(e.tags), uuid=uuid.UUID(e.id))
            for e in events_of_one_call
        ]
        for events_of_one_call in workload.batches(events, batch)
    ]


def append(client: umadb.Client, batches: Batches) -> None:
    for events in batches:
        client.append(events)


def together(connections: Sequence[umadb.Client], shares: Sequence[Batches]) -> None:
    threads = [
        threading.Thread(target=append, args=(client, share)) for client, share in zip(connections, shares, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
