"""Carrying out an import: what would be appended or was, what was found, and what was not understood."""

from __future__ import annotations

from typing import Final

from ledger.client.drafts import Draft, Publication
from ledger.core.text import harmless
from services.adapters.backfill.declaring import Declaration, declare
from services.adapters.backfill.imports import Import
from services.adapters.backfill.sending import Renew, Sent, foretell, send
from services.cli import words
from services.cli.disregarded import disregarded
from services.cli.output import Cell
from services.cli.renewing import renewed
from services.cli.state import Ledger, State

_SHOWN: Final = 10
"""Places that are told to people; JSON has more."""


def carry_out(state: State, found: Import, declared: Declaration | None, *, dry_run: bool) -> None:
    """Appends what was found and the ledger does not have, or tells what that would be."""
    if declared is not None:
        declare(found, declared)
    with state.open() as ledger:
        renew = _renewing(ledger)
        if dry_run:
            sent = foretell(found, reader=ledger.reader, renew=renew)
        else:
            sent = send(found, reader=ledger.reader, writer=ledger.writer, by=state.by, renew=renew)
    _tell(state, found, sent, dry_run=dry_run)
    found.book.close()


def _renewing(ledger: Ledger) -> Renew:
    """An event that was disregarded is imported again under an id of its own."""
    gone = {event_id for _, event_id in disregarded(ledger.reader)}

    def renew(draft: Draft) -> Draft:
        if draft.id not in gone:
            return draft
        return renewed(ledger.reader, Publication(parts=(draft,))).publication.parts[0]

    return renew


def _tell(state: State, found: Import, sent: Sent, *, dry_run: bool) -> None:
    out = state.output
    account = found.account
    if out.as_json:
        out.json(
            {
                "dry_run": dry_run,
                "stream": found.stream,
                "recorded": 0 if dry_run else sent.recorded.total(),
                "already_recorded": sent.already,
                "size": sent.size,
                "events": dict(sorted(found.book.counts.items())),
                "new": dict(sorted(sent.recorded.items())),
                "account": account.as_dict(),
            }
        )
        return
    counts = found.book.counts
    # The import's own report stands in no file.
    rows: list[list[Cell]] = [
        [type_, counts.get(type_, "-"), sent.recorded[type_]] for type_ in sorted({*counts, *sent.recorded})
    ]
    out.table(["type", "found", "new"], rows)
    _tell_account(state, found)
    new = words.counted(sent.recorded.total(), "event")
    already = f"; {sent.already:,} already recorded" if sent.already else ""
    if dry_run:
        out.say(f"Dry run: {new} would be appended after size {sent.size:,}{already}; nothing was.")
    else:
        out.say(f"Recorded {new}{already}; the ledger has size {sent.size:,}.")


def _tell_account(state: State, found: Import) -> None:
    out, account = state.output, found.account
    pairs: list[tuple[str, str]] = []
    if account.first_step is not None:
        rows = f", {words.counted(account.rows, 'row')}" if account.attempts else ""
        pairs.append(("steps", f"{account.first_step} to {account.last_step}{rows}"))
    for attempt in account.attempts:
        begun = f", went on from {attempt['resumed_from']}" if attempt["resumed_from"] is not None else ""
        steps = f"steps {attempt['first_step']} to {attempt['last_step']}" if attempt["rows"] else "no step"
        pairs.append((f"attempt {attempt['attempt']}", f"{steps}, {words.counted(attempt['rows'], 'row')}{begun}"))
    if account.order:
        pairs.append(("order of files", account.order))
    if account.duplicates:
        pairs.append(("copies", f"{words.counted(account.duplicates, 'row')} of what was there before"))
    pairs += [("left out", f"{count:,} {what}") for what, count in sorted(account.left_out.items())]
    pairs += [("redacted", f"{count} {shape}") for shape, count in sorted(account.redactions.items())]
    pairs += [
        (name, str(value)) for name, value in account.found.items() if not isinstance(value, (list, dict, type(None)))
    ]
    out.pairs(pairs)
    for unread in account.unread[:_SHOWN]:
        # A file's name may hold line feeds, and must not begin a line of its own.
        out.say(harmless(f"Not understood: {unread.place}: {unread.what}"))
    if account.malformed > _SHOWN:
        out.say(f"Not understood in all: {account.malformed:,}.")
    for note in account.notes:
        out.say(harmless(f"Note: {note}"))
