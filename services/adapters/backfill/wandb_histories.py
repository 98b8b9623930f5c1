"""W&B histories into steps: rows of `scan_history` as JSON lines or as a CSV, or the file of an offline run.

A restart of the trainer is a new W&B run, so each file is at least one attempt. The step is `trainer/global_step` where
a history has it: W&B's own `_step` only counts calls. What is not finite comes as text or as Python's literals.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ledger.client.cards.text import counted
from ledger.client.drafts import Actor
from ledger.core.errors import InvalidInput
from services.adapters.backfill import metrics
from services.adapters.backfill.accounts import Account
from services.adapters.backfill.clocks import from_seconds
from services.adapters.backfill.documents import Document, read_document
from services.adapters.backfill.file_order import Order, ordered
from services.adapters.backfill.imports import Import
from services.adapters.backfill.printed_rows import STEP
from services.adapters.backfill.skyrl import no_rows
from services.adapters.backfill.tracked import Part, TrackedRun, whole
from services.adapters.backfill.wandb_files import MAGIC, history_rows

_OWN: Final = frozenset({"_step", "_runtime", "_timestamp", "_wandb", "Step"})
_PEEKED: Final = 50


def plan_wandb(
    paths: Sequence[Path], *, run_id: str, by: Actor, order: Order = "auto", first_attempt: int = 1
) -> Import:
    """Reads the histories of the W&B runs that one run came to.

    Raises:
        InvalidInput: reason NO_ROWS, if no file holds a step; or INVALID_FILE, if one cannot be read.
    """
    account = Account()
    documents = list({d.sha256: d for path in paths for d in _documents(path)}.values())
    account.documents, account.order = ordered(documents, order, _first_time)
    tracked = TrackedRun(run_id, by, account, first_attempt)
    for document in account.documents:
        tracked.begin()
        for row in whole(_parts(document, account)):
            tracked.add(row, document)
    if not account.rows:
        raise no_rows(account, f"{counted(len(account.documents), 'file')} read")
    return Import(f"run/{run_id}", tracked.book, account)


def _documents(path: Path) -> Iterator[Document]:
    """The file, or the offline runs in a folder."""
    found = sorted(path.glob("*.wandb")) if path.is_dir() else [path]
    if not found:
        raise InvalidInput(
            f"{path} holds no .wandb file",
            reason="INVALID_FILE",
            remedy="Name an offline run's folder, its .wandb file, or an exported history.",
        )
    return map(read_document, found)


def _parts(document: Document, account: Account) -> Iterator[Part]:
    """The rows that have a step of training."""
    by_global_step = any(row.get(STEP) not in (None, "") for _, row in _first_rows(document))
    for place, row in _rows(document, account):
        step = metrics.step_number(row.get(STEP if by_global_step else "_step", row.get("Step")))
        said = {k: v for k, v in row.items() if k not in _OWN and v not in (None, "")}
        if step is None:
            account.left_out["rows that belong to no step of training"] += 1
            continue
        read = metrics.numbers({k: v for k, v in said.items() if isinstance(k, str)})
        if read.left_out:
            account.left_out["metric values that are no numbers"] += len(read.left_out)
        if read.metrics:
            yield Part(step, read.metrics, from_seconds(_float(row.get("_timestamp"))))
        elif said:
            account.unreadable(place, "a row with no metric that is a number")


def _first_rows(document: Document) -> Iterator[tuple[str, dict[str, Any]]]:
    for _, row in zip(range(_PEEKED), _rows(document, Account()), strict=False):
        yield row


def _first_time(document: Document) -> str | None:
    times = (_float(row.get("_timestamp")) for _, row in _first_rows(document))
    first = next((t for t in times if t is not None), None)
    return None if first is None else f"{first:020.6f}"


def _rows(document: Document, account: Account) -> Iterator[tuple[str, dict[str, Any]]]:
    with document.open() as file:
        head = file.read(len(MAGIC))
    if head == MAGIC:
        for number, row in enumerate(history_rows(document.path), 1):
            yield f"{document.name}: row {number}", row
    elif head.lstrip()[:1] == b"{":
        yield from _json_rows(document, account)
    else:
        yield from _csv_rows(document, account)


def _json_rows(document: Document, account: Account) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(document.lines(), 1):
        if not line.strip():
            continue
        try:
            row = metrics.loads(line.decode())
        except ValueError:
            account.malformed_at(document, number, "no JSON")
            continue
        if isinstance(row, dict):
            yield f"{document.name}:{number}", row
        else:
            account.malformed_at(document, number, "no JSON object")


def _csv_rows(document: Document, account: Account) -> Iterator[tuple[str, dict[str, Any]]]:
    with document.open() as raw:
        reader = csv.DictReader(io.TextIOWrapper(raw, "utf-8-sig", errors="replace", newline=""))
        try:
            if reader.fieldnames is None or not {STEP, "_step", "Step"} & set(reader.fieldnames):
                raise InvalidInput(
                    f"{document.path} is no history: it has no column {STEP}, _step or Step",
                    reason="INVALID_FILE",
                    remedy="Export the rows of scan_history as JSON lines, or the table with its step.",
                    details={"file": str(document.path)},
                )
            for row in reader:
                if None in row:
                    account.malformed_at(document, reader.line_num, "more cells than columns")
                else:
                    yield f"{document.name}:{reader.line_num}", row
        except csv.Error as error:
            account.malformed_at(document, reader.line_num, f"no CSV: {error}")


def _float(value: object) -> float | None:
    read = metrics.number(value)
    return read if isinstance(read, float) else None
