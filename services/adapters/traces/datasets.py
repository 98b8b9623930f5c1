"""Building a trace dataset from places where trials lie.

    data/train-00000-of-0000N.parquet · manifest.json · README.md

- The folder appears whole or not at all. The same places give the same bytes, and so the same digest.
- Memory holds one group of rows, and a place in the order for each row.
- What cannot be read is counted and named, and never ends a build, unless no row is left.

    build([Path("runs/arm-0")], Path("traces"))
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ledger.client.recording.files import Files, read_files
from ledger.client.whole import take_place
from ledger.core.errors import InvalidInput
from services.adapters.backfill.documents import harmless_name
from services.adapters.traces.accounts import STAGES, Account
from services.adapters.traces.cards import card
from services.adapters.traces.folders import CARD, MANIFEST, absolute, building, check_place
from services.adapters.traces.harbor_files import is_job
from services.adapters.traces.harbor_rows import job_rows
from services.adapters.traces.manifests import RowCounts, manifest
from services.adapters.traces.ordering import Ordered
from services.adapters.traces.reading import PlaceRead
from services.adapters.traces.rows import Row
from services.adapters.traces.shards import require, write_shards
from services.adapters.traces.trainer_runs import is_run, run_rows

ROWS_PER_SHARD: Final = 2_000
_RUN, _JOB, _NEITHER = "run folder", "Harbor job", "folder"


@dataclass(frozen=True)
class Built:
    """A dataset as it stands."""

    folder: Path
    manifest: dict[str, Any]
    files: Files


def build(
    places: Sequence[Path],
    to: Path,
    *,
    run_id: str | None = None,
    rows_per_shard: int = ROWS_PER_SHARD,
    force: bool = False,
) -> Built:
    """Builds the dataset of what lies in some places.

    Args:
        places: Run folders of the trainer, and folders of Harbor jobs.
        to: The dataset's folder.
        run_id: Rollouts of other runs are left out; the trials of a job, which name no run, are taken as this one's.
        rows_per_shard: All but the last shard have so many.
        force: Replace traces that were built there before.

    Raises:
        InvalidInput: reason NO_ROWS, if there is no row; INVALID_FILE, if a place is no folder; USAGE, if the folder
            cannot be written.
        Refused: reason IN_USE, if the folder holds something.
        LedgerError: reason EXTRA_MISSING, without pyarrow.
    """
    require()
    to = absolute(to)
    check_place(to, force=force)
    for place in places:
        if not place.is_dir():
            raise InvalidInput(
                f"{place} is no folder", reason="INVALID_FILE", remedy="Name a run's folder, or that of a Harbor job."
            )
    with building(to) as (dataset, spool):
        said = _fill(dataset, spool, places, run_id=run_id, rows_per_shard=rows_per_shard)
        files = read_files(dataset)
        check_place(to, force=force)
        take_place(dataset, to)
    return Built(to, said, files)


def _fill(
    folder: Path, spool: Path, places: Sequence[Path], *, run_id: str | None, rows_per_shard: int
) -> dict[str, Any]:
    account, counts = Account(), RowCounts()
    read = [PlaceRead(account.clean(harmless_name(absolute(place).name)), _kind(place)) for place in places]
    with closing(Ordered(spool / "rows")) as ordered:
        for place, reading in zip(places, read, strict=True):
            for row in _rows(place, spool, account, reading, run_id):
                ordered.add(row)
        if not len(ordered):
            raise _no_rows(places, account)
        shards = write_shards(folder, counts.counting(ordered), len(ordered), rows_per_shard=rows_per_shard)
    said = manifest(folder, shards, counts, account, read)
    (folder / MANIFEST).write_text(json.dumps(said, indent=2) + "\n", encoding="ascii")
    (folder / CARD).write_text(card(said), encoding="utf-8")
    return said


def _kind(place: Path) -> str:
    if is_run(place):
        return _RUN
    return _JOB if is_job(place) else _NEITHER


def _rows(place: Path, spool: Path, account: Account, read: PlaceRead, run_id: str | None) -> Iterator[Row]:
    if read.kind == _RUN:
        return run_rows(place, account, read, run_id=run_id)
    if read.kind == _JOB:
        return job_rows(place, spool, account, read, run_id=run_id)
    account.leave_out("a folder without rollouts and without trials", read.name, hides=STAGES)
    return iter(())


def _no_rows(places: Sequence[Path], account: Account) -> InvalidInput:
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(account.left_out.counts.items()))
    return InvalidInput(
        f"no row in {', '.join(map(str, places))}" + (f"; left out: {reasons}" if reasons else ""),
        reason="NO_ROWS",
        remedy="Name a run's folder, which holds rollouts/, or a Harbor job's, which holds trials or archives named "
        "trials_stepN_….tar.gz. Nothing was written.",
    )
