"""What Postgres itself can do with the ledger's rows: raw COPY as the ceiling, a lock an event as the floor.

Both write into tables that the ledger's own migrations made, in databases of their own.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

import psycopg

from tests.benchmarks.contestants import LOCKERS, PIPELINED_LOCKERS, RAW_COPY, Cell
from tests.benchmarks.throwaway_postgres import BIN, Cluster
from tests.benchmarks.workload import STREAMS, Event, Workload

SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER: Final = b"\xff\xff"
COLUMNS: Final = {
    "event": "id, type, stream, sv, recorded_at, header, leaf, pos",
    "payload": "salt, body, draft_hash, redacted_by, pos",
    "event_tag": "tag, pos",
}
RECORDED_AT: Final = 1_790_000_000_000_000

_NULL: Final = struct.pack(">i", -1)
_count = struct.Struct(">h").pack
_length = struct.Struct(">i").pack
_bigint = struct.Struct(">iq").pack

Buffers = list[tuple[bytes, bytes]]
"""The COPY statement and the bytes for it, a table each."""


class RawCopy:
    """Ready-made binary rows, COPY into each of the three tables, one commit a message."""

    name = RAW_COPY

    def __init__(self, uri: str, workload: Workload) -> None:
        self._connection = psycopg.connect(uri, autocommit=True)
        self._workload = workload
        self._pos = 0
        self._versions: Counter[str] = Counter()

    def takes(self, cell: Cell) -> bool:
        return cell.clients == 1

    def seconds(self, cell: Cell) -> float:
        messages = [self._rows(events) for events in self._workload.batches(cell.events, cell.batch)]
        started = time.perf_counter()
        for message in messages:
            with self._connection.transaction(), self._connection.cursor() as cursor:
                for statement, rows in message:
                    with cursor.copy(statement) as copy:
                        copy.write(rows)
        return time.perf_counter() - started

    def rest(self) -> None:
        """Its last commit was its last act."""

    def close(self) -> None:
        self._connection.close()

    def _rows(self, events: list[Event]) -> Buffers:
        first = self._pos
        self._pos += len(events)
        heads, payloads, tags = [], [], []
        for pos, event in enumerate(events, first):
            self._versions[event.stream] += 1
            header = header_like(self._workload.event_type, event, pos)
            heads.append(
                _row(
                    event.id.encode(),
                    self._workload.event_type.encode(),
                    event.stream.encode(),
                    self._versions[event.stream],
                    RECORDED_AT,
                    header,
                    digest(header),
                    pos,
                )
            )
            payloads.append(_row(digest(event.id.encode()), event.payload, digest(event.payload), None, pos))
            tags += [(tag, pos) for tag in event.tags]
        sorted_tags = [_row(tag.encode(), pos) for tag, pos in sorted(tags)]
        return [
            (f"copy {table} ({COLUMNS[table]}) from stdin (format binary)".encode(), _file(rows))
            for table, rows in (("event", heads), ("payload", payloads), ("event_tag", sorted_tags))
        ]


class Lockers:
    """One event a transaction under LOCK TABLE … EXCLUSIVE, from pgbench, so that no client's Python counts.

    As applications send it, statement after statement; or pipelined, so that the lock is held for one round trip.
    """

    def __init__(self, cluster: Cluster, database: str, workload: Workload, *, pipelined: bool) -> None:
        self.name = PIPELINED_LOCKERS if pipelined else LOCKERS
        self._event = workload.take(1)[0]
        self._script = _write_script(self._event, workload.event_type, pipelined=pipelined)
        tags = [f"--define=tag{n}={tag}" for n, tag in enumerate(self._event.tags)]
        program = [str(BIN / "pgbench"), "--no-vacuum", "--protocol=prepared", f"--file={self._script}", *tags]
        self._command = [*program, f"--host={cluster.socket_dir}", "--username=postgres", f"--dbname={database}"]

    def takes(self, cell: Cell) -> bool:
        return cell.batch == 1

    def seconds(self, cell: Cell) -> float:
        each = cell.events // cell.clients
        command = [*self._command, f"--client={cell.clients}", f"--transactions={each}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rate = re.search(r"^tps = ([\d.]+) \(without initial connection time\)", done.stdout, re.MULTILINE)
        if rate is None:
            raise RuntimeError(f"pgbench printed no rate:\n{done.stdout}{done.stderr}")
        return each * cell.clients / float(rate[1])

    def rest(self) -> None:
        """Its last commit was its last act."""

    def close(self) -> None:
        self._script.unlink()


def make_turns(uri: str) -> None:
    """The sequence that counts the lockers' positions."""
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("create sequence turn")


def _write_script(event: Event, event_type: str, *, pipelined: bool) -> Path:
    header = header_like(event_type, event, 0)
    values = f"nextval('turn'), uuidv7()::text, '{event_type}', 'source/bench-' || :stream, currval('turn')"
    begin, commit = ("\\startpipeline\nbegin", "commit;\n\\endpipeline") if pipelined else ("begin", "commit;")
    script = f"""\\set stream random(0, {STREAMS - 1})
{begin};
lock table event in exclusive mode;
insert into event (pos, id, type, stream, sv, recorded_at, header, leaf)
  values ({values}, {RECORDED_AT}, {_literal(header)}, {_literal(digest(header))});
insert into payload (pos, salt, body, draft_hash)
  values (currval('turn'), {_literal(digest(b"salt"))}, {_literal(event.payload)}, {_literal(digest(b"draft"))});
insert into event_tag (tag, pos) values (:tag0, currval('turn')), (:tag1, currval('turn'));
{commit}
"""
    with tempfile.NamedTemporaryFile("w", suffix=".sql", delete=False) as file:
        file.write(script)
    return Path(file.name)


def header_like(event_type: str, event: Event, pos: int) -> bytes:
    """As many bytes as the ledger's header of the event, and of the same kind."""
    header = {
        "actor": {"id": "bench", "kind": "model"},
        "causes": [],
        "id": event.id,
        "log": f"atlas-ledger/{digest(b'log').hex()[:32]}",
        "occurred_at": "2026-11-30T00:00:00.000000Z",
        "payload": {"commitment": digest(event.payload).hex(), "len": len(event.payload)},
        "pos": pos,
        "prev": digest(event.id.encode()).hex(),
        "principal": None,
        "producer": None,
        "recorded_at": "2026-11-30T00:00:00.000000Z",
        "stream": event.stream,
        "sv": pos // STREAMS,
        "tags": event.tags,
        "tv": 1,
        "type": event_type,
        "v": 1,
    }
    return json.dumps(header, separators=(",", ":")).encode()


def digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _literal(data: bytes) -> str:
    return f"'\\x{data.hex()}'::bytea"


def _row(*fields: bytes | int | None) -> bytes:
    return _count(len(fields)) + b"".join(map(_field, fields))


def _field(value: bytes | int | None) -> bytes:
    if value is None:
        return _NULL
    return _bigint(8, value) if isinstance(value, int) else _length(len(value)) + value


def _file(rows: list[bytes]) -> bytes:
    return SIGNATURE + b"".join(rows) + TRAILER
