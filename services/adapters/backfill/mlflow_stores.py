"""MLflow runs into steps: from the folders of a file store, or from the database of a local server.

Both are read as they lie, without the mlflow package: it would bring its server along, migrate a database that it
opens, and answer with the last value of a metric where every value is asked for. The database is opened read-only.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from ledger.client.drafts import Actor
from ledger.core.errors import InvalidInput
from ledger.events.runs import ConfigRecorded, RedactionCount
from services.adapters.backfill import metrics, printed_configs
from services.adapters.backfill.accounts import Account
from services.adapters.backfill.clocks import from_milliseconds
from services.adapters.backfill.documents import Document, harmless_name, read_document
from services.adapters.backfill.imports import Import
from services.adapters.backfill.mlflow_folders import Point, read_folder
from services.adapters.backfill.skyrl import no_rows
from services.adapters.backfill.tracked import Part, TrackedRun, whole

_SQLITE: Final = b"SQLite format 3\0"
_OF_THE_MACHINE: Final = re.compile(
    r"system/(?:cpu_utilization_percentage$|system_memory_usage_|disk_|network_|gpu_\d+_)", re.ASCII
)
_LARGEST: Final = 1.7976931348623157e308
"""What the database has in place of infinity."""


@dataclass(frozen=True)
class MlflowRun:
    """One start of the program, as MLflow has it."""

    id: str
    started_ms: int
    points: tuple[Point, ...]
    params: dict[str, str]
    document: Document


def plan_mlflow(
    paths: Sequence[Path], chosen: Sequence[str], *, run_id: str, by: Actor, first_attempt: int = 1
) -> Import:
    """Reads the MLflow runs that one run came to: all that the stores hold, or those that are named.

    Raises:
        InvalidInput: reason NO_ROWS, if they hold no step; or INVALID_FILE, if a path is no store.
    """
    account = Account()
    runs = sorted((r for path in paths for r in _runs(path, chosen, account)), key=lambda r: (r.started_ms, r.id))
    if missing := sorted(set(chosen) - {r.id for r in runs}):
        raise InvalidInput(
            f"the stores have no run {', '.join(missing)}",
            reason="INVALID_FILE",
            remedy="Name runs by the ids that MLflow shows. Nothing was appended.",
        )
    account.documents = list({r.document.sha256: r.document for r in runs}.values())
    account.order = "by the starts that MLflow has recorded" if len(runs) > 1 else None
    tracked = TrackedRun(run_id, by, account, first_attempt)
    for run in runs:
        tracked.begin()
        for row in whole(_parts(run.points, account)):
            tracked.add(row, run.document)
        _record_params(run, run_id, tracked, account)
    if not account.rows:
        raise no_rows(account, f"{len(runs)} MLflow runs were read")
    return Import(f"run/{run_id}", tracked.book, account)


def _parts(points: Iterable[Point], account: Account) -> Iterator[Part]:
    """The values in the order in which they were logged."""
    for point in sorted(points, key=lambda p: (p.at_ms, p.step)):
        if _OF_THE_MACHINE.match(point.key):
            account.left_out["values of the machine, which MLflow counts by steps of its own"] += 1
        else:
            yield Part(point.step, {point.key: point.value}, from_milliseconds(point.at_ms))


def _record_params(run: MlflowRun, run_id: str, tracked: TrackedRun, account: Account) -> None:
    if not run.params or tracked.attempt < 1:
        return
    before = account.redactions.copy()
    settings = printed_configs.cleaned(run.params, account.redactions)
    found = account.redactions - before
    said = ConfigRecorded(
        run_id=run_id,
        attempt=tracked.attempt,
        moment="start" if tracked.attempt == 1 else "resume",
        digest=printed_configs.digest(settings),
        settings=printed_configs.by_path(settings),
        redactions=[RedactionCount(shape=s, count=n) for s, n in sorted(found.items())],
        basis=run.document.basis("From the parameters that MLflow has: their values are text."),
    )
    tracked.book.add("config.recorded", f"run/{run_id}", said, place=[tracked.attempt], says=said.digest)


def _runs(path: Path, chosen: Sequence[str], account: Account) -> Iterator[MlflowRun]:
    if path.is_dir():
        for folder in _run_folders(path):
            if not chosen or folder.name in chosen:
                found = read_folder(folder, account)
                name = harmless_name(folder.name)
                yield MlflowRun(name, found.started_ms, tuple(found.points), found.params, found.document)
        return
    document = read_document(path)
    with document.open() as file:
        if file.read(len(_SQLITE)) != _SQLITE:
            raise _no_store(path)
    yield from _database_runs(document, chosen)


def _run_folders(path: Path) -> list[Path]:
    """The folder itself if it is a run's; otherwise those of the runs in it, or in its experiments."""
    if (path / "metrics").is_dir():
        return [path]
    found = [f.parent for depth in ("*/metrics", "*/*/metrics") for f in sorted(path.glob(depth)) if f.is_dir()]
    if not found:
        raise _no_store(path)
    return found


def _no_store(path: Path) -> InvalidInput:
    return InvalidInput(
        f"{path} is no MLflow store: neither a folder with runs nor a SQLite database",
        reason="INVALID_FILE",
        remedy="Name a run's folder (mlruns/EXPERIMENT/RUN), the mlruns folder, or mlflow.db.",
        details={"file": str(path)},
    )


def _database_runs(document: Document, chosen: Sequence[str]) -> list[MlflowRun]:
    uri = f"file:{quote(str(document.path.absolute()))}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            found = database.execute("SELECT run_uuid, start_time FROM runs ORDER BY start_time, run_uuid").fetchall()
            return [
                MlflowRun(
                    str(run),
                    int(started or 0),
                    tuple(_database_points(database, run)),
                    _database_params(database, run),
                    document,
                )
                for run, started in found
                if not chosen or run in chosen
            ]
    except sqlite3.Error as error:
        raise InvalidInput(
            f"{document.path} is no database of MLflow: {error}",
            reason="INVALID_FILE",
            remedy="Name the file of MLflow's SQLite store. It is not changed by reading it.",
            details={"file": str(document.path)},
        ) from None


def _database_points(database: sqlite3.Connection, run: str) -> Iterator[Point]:
    rows: Iterable[tuple[Any, ...]] = database.execute(
        "SELECT timestamp, step, key, value, is_nan FROM metrics WHERE run_uuid = ? ORDER BY timestamp, step, key",
        [run],
    )
    for at_ms, step, key, value, is_nan in rows:
        number = "NaN" if is_nan else _number(value)
        at_step = metrics.step_number(step)
        if number is not None and at_step is not None and isinstance(key, str):
            yield Point(int(at_ms), at_step, key, number)


def _number(value: object) -> metrics.Value | None:
    number = metrics.number(value)
    if isinstance(number, float) and abs(number) >= _LARGEST:
        return "Infinity" if number > 0 else "-Infinity"
    return number


def _database_params(database: sqlite3.Connection, run: str) -> dict[str, str]:
    rows = database.execute("SELECT key, value FROM params WHERE run_uuid = ? ORDER BY key", [run]).fetchall()
    return {str(key): str(value) for key, value in rows}
