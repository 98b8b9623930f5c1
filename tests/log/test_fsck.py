"""fsck names the exact position of whatever was changed behind the log's back."""

from __future__ import annotations

import hashlib
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import text

from ledger.artifacts.directory import ArtifactDirectory
from ledger.core.strictjson import dumps
from ledger.events.examples import example
from ledger.log.fsck import FsckReport, fsck
from ledger.log.log import Log
from ledger.log.postgres import PostgresStore
from ledger.log.sqlite import SqliteStore
from tests.log.builders import ALIAS, SOURCE, Draft, alias, append, draft, part, running
from tests.log.conftest import Open

Change = Callable[[sqlite3.Connection], object]
COLUMNS = {
    "event": ["pos", "id", "type", "stream", "sv", "recorded_at", "header", "leaf"],
    "payload": ["pos", "salt", "body", "draft_hash", "redacted_by"],
    "event_tag": ["tag", "pos"],
    "log": ["origin", "size", "peaks", "root", "recorded_at"],
}


def drafts() -> list[Draft]:
    return [
        alias("a", tags=["red"], causes=["c"], occurred_at_us=1),
        part("c-1", tags=["blue"], producer={"id": "p", "epoch": 1, "seq": 2}),
        alias("a", actor={"id": "someone", "kind": 1}),
        alias("b"),
        part("c-1"),
    ]


@pytest.fixture
def unguarded(database_file: Path) -> Path:
    """A log of seven events of three transactions, its guards taken away."""
    with running(SqliteStore(database_file)) as log:
        append(log, *drafts())
        append(log, alias("a"))
        append(log, alias("c"))
    with raw(database_file) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name.decode()}")
    return database_file


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    """The file as SQLite sees it, texts as bytes; what was changed is kept."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.text_factory = bytes
        yield connection


def checked(path: Path, change: Change | None = None, artifacts: ArtifactDirectory | None = None) -> FsckReport:
    """What fsck says of a copy of the database in which something was changed."""
    copy = path.with_name("changed.db")
    copy.unlink(missing_ok=True)
    with raw(path) as source, raw(copy) as target:
        source.backup(target)
        if change is not None:
            change(target)
    store = SqliteStore(copy)
    try:
        return fsck(store, artifacts)
    finally:
        store.close()


def places(report: FsckReport) -> list[str]:
    return [p.place for p in report.problems]


def run(sql: str, *arguments: Any) -> Change:
    return lambda connection: connection.execute(sql, arguments)


def test_an_empty_log_is_clean(open_store: Open) -> None:
    report = fsck(open_store())

    assert report.ok
    assert report.root == hashlib.sha256(b"").hexdigest()


def test_a_log_that_nobody_touched_is_clean_and_counted(log: Log) -> None:
    append(log, *drafts())

    report = fsck(log.store)
    assert report.problems == []
    assert (report.size, report.root) == (5, log.head().root.hex())
    assert report.checked == {"events": 5, "streams": 3, "tags": 4, "artifacts": 0}


# The sweep


def flipped(value: Any, random_: random.Random) -> Any:
    """The value with one bit changed; a number of NULL."""
    match value:
        case None:
            return 1
        case int():
            return value ^ (1 << random_.choice([0, 1, 7, 33, 62]))
        case bytes():
            changed = bytearray(value)
            changed[random_.randrange(len(changed))] ^= 1 << random_.randrange(8)
            return bytes(changed)
    raise AssertionError(value)


def cells(path: Path) -> Iterator[tuple[str, str, int, int, Any]]:
    """Every stored value, with its table, column, row and the position that it belongs to."""
    with raw(path) as connection:
        for table, columns in COLUMNS.items():
            key = ["one"] if table == "log" else ["pos", *(["tag"] if table == "event_tag" else [])]
            for number, row in enumerate(
                connection.execute(f"SELECT {', '.join(columns)}, {key[0]} FROM {table} ORDER BY {', '.join(key)}")
            ):
                for column, value in zip(columns, row, strict=False):
                    yield table, column, number, row[-1], value


def set_cell(table: str, column: str, number: int, value: Any, *, is_text: bool) -> Change:
    new = "CAST(? AS TEXT)" if is_text else "?"
    key = "one" if table == "log" else "pos, tag" if table == "event_tag" else "pos"
    row = f"SELECT {key} FROM {table} ORDER BY {key} LIMIT 1 OFFSET {number}"
    return run(f"UPDATE {table} SET {column} = {new} WHERE ({key}) = ({row})", value)


TEXT_COLUMNS = {"id", "type", "stream", "tag", "origin"}


@pytest.mark.parametrize("seed", range(3))
def test_a_bit_flipped_anywhere_is_found_at_its_position(unguarded: Path, seed: int) -> None:
    random_ = random.Random(seed)
    assert checked(unguarded).ok
    missed = []
    for table, column, number, pos, value in cells(unguarded):
        change = set_cell(table, column, number, flipped(value, random_), is_text=column in TEXT_COLUMNS)
        try:
            report = checked(unguarded, change)
        except sqlite3.IntegrityError:
            continue  # the flipped key is another row's: the table itself refuses it
        wanted = "head" if table == "log" else f"position {pos}"
        if wanted not in places(report):
            missed.append((table, column, pos, places(report)))
    assert missed == []


# Rows that are gone, or of another place


def test_a_deleted_event_is_found_first_at_its_position(unguarded: Path) -> None:
    report = checked(unguarded, run("DELETE FROM event WHERE pos = 3"))

    assert places(report)[0] == "position 3"
    assert report.problems[0].message == "no event is stored"


def test_a_stretch_of_deleted_events_is_one_problem(unguarded: Path) -> None:
    report = checked(unguarded, run("DELETE FROM event WHERE pos IN (1, 2, 3)"))

    assert report.problems[0].place == "position 1"
    assert report.problems[0].message == "no event is stored from here up to position 3"


def test_a_log_without_any_event_left_is_found(unguarded: Path) -> None:
    report = checked(unguarded, run("DELETE FROM event"))

    assert places(report)[0] == "position 0"
    assert "up to position 6" in report.problems[0].message


def test_a_truncated_tail_is_found(unguarded: Path) -> None:
    def cut(connection: sqlite3.Connection) -> None:
        for table in ("event", "payload", "event_tag"):
            connection.execute(f"DELETE FROM {table} WHERE pos >= 5")

    assert {"position 5", "head"} <= set(places(checked(unguarded, cut)))


def test_a_head_row_that_was_set_back_is_found_by_the_events_beyond_it(unguarded: Path) -> None:
    """Every part of the old head is right in itself."""
    with raw(unguarded) as connection:
        log_row = connection.execute("SELECT size, peaks, root, recorded_at FROM log").fetchone()
    with running(SqliteStore(unguarded)) as log:
        append(log, alias("late", tags=["t"]))

    report = checked(unguarded, run("UPDATE log SET size = ?, peaks = ?, root = ?, recorded_at = ?", *log_row))
    assert set(places(report)) == {"position 7"}
    assert {p.message.split(" ")[0] for p in report.problems} == {"an", "tags"}


def test_a_deleted_payload_is_found(unguarded: Path) -> None:
    report = checked(unguarded, run("DELETE FROM payload WHERE pos = 2"))

    assert [(p.place, p.message) for p in report.problems] == [
        ("position 2", "the payload is missing, and no redaction says why")
    ]


def test_payloads_that_changed_places_are_found_both(unguarded: Path) -> None:
    def swap(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE payload SET pos = CASE pos WHEN 0 THEN -1 ELSE -2 END WHERE pos IN (0, 2)")
        connection.execute("UPDATE payload SET pos = CASE pos WHEN -1 THEN 2 ELSE 0 END WHERE pos < 0")

    assert places(checked(unguarded, swap)) == ["position 0", "position 2"]


def test_events_that_changed_places_are_found_both(unguarded: Path) -> None:
    def swap(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE event SET pos = CASE pos WHEN 0 THEN -1 ELSE -2 END WHERE pos IN (0, 3)")
        connection.execute("UPDATE event SET pos = CASE pos WHEN -1 THEN 3 ELSE 0 END WHERE pos < 0")

    assert {"position 0", "position 3"} <= set(places(checked(unguarded, swap)))


@pytest.mark.parametrize("pos", [-1, 3, 7, 2**40])
def test_a_stray_tag_is_found(unguarded: Path, pos: int) -> None:
    report = checked(unguarded, run("INSERT INTO event_tag (tag, pos) VALUES ('stray', ?)", pos))

    assert places(report) == [f"position {pos}"]


def test_a_missing_tag_is_found(unguarded: Path) -> None:
    report = checked(unguarded, run("DELETE FROM event_tag WHERE tag = 'blue'"))

    assert places(report) == ["position 1"]


def test_an_event_before_the_first_position_is_found(unguarded: Path) -> None:
    def move(connection: sqlite3.Connection) -> None:
        connection.execute(
            "INSERT INTO event SELECT -4, 'x', type, 'y', sv, recorded_at, header, leaf FROM event LIMIT 1"
        )

    assert places(checked(unguarded, move)) == ["position -4"]


def test_a_head_that_announces_far_more_than_is_stored_is_found_at_once(unguarded: Path) -> None:
    report = checked(unguarded, run("UPDATE log SET size = ?", 2**60))

    assert "position 7" in places(report)
    assert "head" in places(report)


def test_a_missing_head_row_is_an_error_that_says_so(unguarded: Path) -> None:
    with pytest.raises(Exception, match="no head row"):
        checked(unguarded, run("DELETE FROM log"))


# Forgeries: everything about the row fits, but the log


def rewritten(connection: sqlite3.Connection, pos: int, /, **changes: Any) -> None:
    """An event whose header, leaf and columns were changed together."""
    [header] = connection.execute("SELECT header FROM event WHERE pos = ?", (pos,)).fetchone()
    new = orjson.dumps({**orjson.loads(header), **changes}, option=orjson.OPT_SORT_KEYS)
    leaf = hashlib.sha256(b"\0" + new).digest()
    connection.execute("UPDATE event SET header = ?, leaf = ? WHERE pos = ?", (new, leaf, pos))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"actor": {"id": "forged", "kind": "human"}}, "draft hash"),
        ({"occurred_at": "2001-01-01T00:00:00.000000Z"}, "draft hash"),
        ({"principal": "forged"}, "root"),
        ({"log": "another"}, "another log"),
        ({"v": 2}, "another log or version"),
        ({"pos": 1}, "header's pos"),
        ({"sv": 7}, "header's sv"),
        ({"prev": "0" * 64}, "does not name the leaf"),
        ({"tags": ["x"]}, "tags are not"),
        ({"payload": {"len": 3, "commitment": "0" * 64}}, "not the one that the header commits to"),
        ({"payload": {}}, "not a header"),
        ({"stream": ["x"]}, "not a header"),
        ({"more": 1}, "not a header"),
        ({"recorded_at": "2001-01-01T00:00:00.000000Z"}, "header's recorded_at"),
    ],
    ids=str,
)
def test_a_header_that_was_rewritten_with_its_leaf_is_found(
    unguarded: Path, changes: dict[str, Any], words: str
) -> None:
    report = checked(unguarded, lambda connection: rewritten(connection, 3, **changes))

    assert "head" in places(report)
    assert any(words in p.message for p in report.problems)


def test_a_header_written_in_another_form_is_found(unguarded: Path) -> None:
    def spaced(connection: sqlite3.Connection) -> None:
        [header] = connection.execute("SELECT header FROM event WHERE pos = 3").fetchone()
        new = header.replace(b":", b": ", 1)
        connection.execute(
            "UPDATE event SET header = ?, leaf = ? WHERE pos = 3", (new, hashlib.sha256(b"\0" + new).digest())
        )

    assert ("position 3", "the header is not in its one form") in [
        (p.place, p.message) for p in checked(unguarded, spaced).problems
    ]


def test_a_log_that_was_rewritten_as_a_whole_but_for_its_head_is_found_at_the_head(unguarded: Path) -> None:
    """The last event can be rewritten with all that follows from it, except for the root."""

    def forge(connection: sqlite3.Connection) -> None:
        rewritten(connection, 6, principal="forged")

    assert set(places(checked(unguarded, forge))) == {"head"}


# Redaction


def redaction(pos: int, remainder: bytes, salt: bytes) -> Draft:
    sealed = hashlib.sha256(b"ledger/payload/v1\0" + salt + remainder).hexdigest()
    payload = {
        "pos": pos, "leaf_hash": "0" * 64, "pointers": ["/note"], "reason": "r", "authority": "a",
        "remainder_commitment": sealed,
    }  # fmt: skip
    return draft("event.redacted", "ledger", dumps(payload))


def redact(store: Any, pos: int, by: int, remainder: bytes, salt: bytes) -> None:
    with store.write_gate, store.engine.begin() as connection:
        connection.execute(
            text("UPDATE payload SET salt=:s, body=:b, draft_hash=NULL, redacted_by=:by WHERE pos=:pos"),
            {"s": salt, "b": remainder, "by": by, "pos": pos},
        )


def test_a_redacted_payload_is_clean_when_a_redaction_in_the_log_commits_to_what_is_left(log: Log) -> None:
    salt = b"s" * 32
    append(log, alias("a"))
    append(log, redaction(0, ALIAS, salt))
    redact(log.store, 0, 1, ALIAS, salt)

    assert fsck(log.store).problems == []


@pytest.mark.parametrize(("by", "body"), [(1, b"{}"), (0, ALIAS), (2, ALIAS)])
def test_a_payload_that_was_replaced_otherwise_is_found(log: Log, by: int, body: bytes) -> None:
    salt = b"s" * 32
    append(log, alias("a"))
    append(log, redaction(0, ALIAS, salt))
    redact(log.store, 0, by, body, salt)

    assert places(fsck(log.store)) == ["position 0"]


# Artifacts


EVIDENCE = b"native inputs"
EVIDENCE_NAME = hashlib.sha256(EVIDENCE).hexdigest()


def citing(sha256: str, size: int | None) -> Draft:
    """A decision that cites one artifact, whatever the example cites."""
    return draft(
        "defect.confirmed", SOURCE, dumps(with_citation(orjson.loads(example("defect.confirmed", 1)), sha256, size))
    )


def with_citation(value: Any, sha256: str, size: int | None) -> Any:
    match value:
        case {"sha256": str(), "name": _}:
            return {**value, "sha256": sha256, "size": size}
        case dict():
            return {k: with_citation(v, sha256, size) for k, v in value.items()}
        case list():
            return [with_citation(v, sha256, size) for v in value]
    return value


@pytest.fixture
def artifacts(tmp_path: Path) -> ArtifactDirectory:
    directory = ArtifactDirectory(tmp_path / "artifacts")
    with directory.put(EVIDENCE_NAME, len(EVIDENCE)) as upload:
        upload.write(EVIDENCE)
        upload.finish()
    return directory


def test_a_decision_whose_artifacts_are_stored_is_clean(log: Log, artifacts: ArtifactDirectory) -> None:
    append(log, citing(EVIDENCE_NAME, len(EVIDENCE)), citing(EVIDENCE_NAME, None))

    report = fsck(log.store, artifacts)
    assert report.problems == []
    assert report.checked["artifacts"] == 1


def test_a_decision_that_cites_missing_bytes_is_found(log: Log, artifacts: ArtifactDirectory) -> None:
    append(log, alias("a"), citing("0" * 64, None))

    report = fsck(log.store, artifacts)
    assert set(places(report)) == {"position 1"}
    assert report.problems[0].message == f"cites the artifact {'0' * 64}, which is not stored"
    assert fsck(log.store).ok  # without a place for artifacts nothing can be said of them


def test_a_decision_that_cites_another_size_is_found(log: Log, artifacts: ArtifactDirectory) -> None:
    append(log, citing(EVIDENCE_NAME, 5))

    assert "with 5 bytes; it has 13" in fsck(log.store, artifacts).problems[0].message


def test_artifact_bytes_that_changed_are_found_by_name(log: Log, artifacts: ArtifactDirectory, tmp_path: Path) -> None:
    file = tmp_path / "artifacts" / "sha256" / EVIDENCE_NAME[:2] / EVIDENCE_NAME
    file.write_bytes(EVIDENCE.swapcase())

    assert places(fsck(log.store, artifacts)) == [f"artifact {EVIDENCE_NAME}"]


def test_a_file_that_lies_in_no_artifacts_place_is_not_taken_for_one(
    log: Log, artifacts: ArtifactDirectory, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "artifacts" / "sha256" / "zz"
    elsewhere.mkdir()
    (elsewhere / EVIDENCE_NAME).write_bytes(b"other")

    report = fsck(log.store, artifacts)
    assert (report.problems, report.checked["artifacts"]) == ([], 1)


# Postgres


def test_changed_rows_are_found_on_postgres_too(database: str) -> None:
    with running(PostgresStore(database)) as log:
        append(log, *drafts())
        with log.store.engine.begin() as connection:
            connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
            connection.exec_driver_sql(
                "UPDATE event SET header = set_bit(header, 40, 1 - get_bit(header, 40)) WHERE pos = 2"
            )
            connection.exec_driver_sql("UPDATE event_tag SET tag = 'x' WHERE tag = 'red'")

        assert {"position 0", "position 2", "head"} == set(places(fsck(log.store)))
