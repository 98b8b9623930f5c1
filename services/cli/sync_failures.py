"""A refresh that failed is recorded too: why, and which inventory stays. The failure itself is still told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ledger.client.catalogue_document import is_document
from ledger.client.drafts import draft
from ledger.client.inventories import origins_named
from ledger.client.writer import raise_refused
from ledger.core import strictjson
from ledger.core.errors import InvalidInput, LedgerError
from ledger.events.catalogue import CatalogueSyncFailed
from services.cli.refreshes import history_of, present
from services.cli.state import State

MAX_PROBLEMS: Final = 20
MAX_ERROR: Final = 20_000
MAX_REVISION: Final = 256


def record_failure(state: State, file: Path, error: LedgerError, origins: Sequence[str]) -> str:
    """Records for each origin that its refresh failed; gives a sentence on what became of that."""
    names = list(origins) or origins_named(file)
    if not names:
        return "The failure is not recorded, since the file names no origin: name it with --origin."
    try:
        _append(state, file, error, names)
    except LedgerError as why:
        return f"The failure could not be recorded: {why.message}."
    return f"It is recorded that the refresh of {', '.join(names)} failed; the last good inventory stays."


def _append(state: State, file: Path, error: LedgerError, origins: Sequence[str]) -> None:
    with state.open() as ledger:
        history = history_of(ledger.reader, origins)
        drafts = []
        for origin in origins:
            now = present(history, origin)
            failed = CatalogueSyncFailed(
                origin=origin,
                error=_told(error, file),
                base=now.id if now is not None else None,
                revision=_claimed_revision(file),
            )
            drafts.append(draft("catalogue.sync_failed", f"origin/{origin}", failed, by=state.by))
        raise_refused(drafts, ledger.writer.append(drafts))


def _told(error: LedgerError, file: Path) -> str:
    """The error with its first problems; the file by its name, since where it lay is nobody's business."""
    lines = [error.message, *(f"{p.place}: {p.message}" for p in error.problems[:MAX_PROBLEMS])]
    if len(error.problems) > MAX_PROBLEMS:
        lines.append(f"and {len(error.problems) - MAX_PROBLEMS} more")
    return "\n".join(lines).replace(str(file), file.name)[:MAX_ERROR]


def _claimed_revision(file: Path) -> str | None:
    """The revision that a document gives itself, sound or not."""
    try:
        content = file.read_bytes()
        found = strictjson.parse(content) if is_document(content) else None
    except (OSError, InvalidInput):
        return None
    claimed = found.get("revision") if isinstance(found, dict) else None
    return claimed if isinstance(claimed, str) and 0 < len(claimed) <= MAX_REVISION else None
