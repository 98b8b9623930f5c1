"""Appending from a command: what would be sent, what was recorded, and how either is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ledger.client.drafts import Draft, Publication
from ledger.client.writer import Receipt, raise_refused
from ledger.core import clock
from ledger.wire import log_pb2
from services.cli import words
from services.cli.catalogue_state import header_of
from services.cli.output import Cell
from services.cli.preview import preview
from services.cli.republishing import recorded_before, without
from services.cli.state import Ledger, State

_PUBLISHED: Final = "published"


def publish(state: State, ledger: Ledger, publications: Iterable[Publication]) -> None:
    """Publishes one after the other and tells of all."""
    planned = list(publications)
    events = []
    for publication in planned:
        receipts = ledger.writer.publish(publication)
        raise_refused(publication.drafts, receipts)
        events += [_recorded(d, r) for d, r in zip(publication.drafts, receipts, strict=True)]
    _tell(state, planned, events, ledger.writer.size or ledger.reader.info().size, dry_run=False)


def show_plan(state: State, ledger: Ledger, publications: Iterable[Publication]) -> None:
    """Tells what would be appended, and appends nothing."""
    planned = list(publications)
    events = [_planned(draft) for p in planned for draft in p.drafts]
    _tell(state, planned, events, ledger.reader.info().size, dry_run=True)


def publish_source(state: State, ledger: Ledger, publication: Publication, source_id: str, *, dry_run: bool) -> None:
    """Publishes what is about one source, or tells what would become of it.

    Raises:
        Refused: reason ID_CONFLICT, if the ledger has an event of it that says something else.
    """
    if dry_run:
        _foretell(state, ledger, publication, source_id)
        return
    known = recorded_before(ledger.reader, publication)
    rest = without(publication, known)
    receipts = ledger.writer.publish(rest) if rest.drafts else []
    raise_refused(rest.drafts, receipts)
    by_id = {d.id: _recorded(d, r) for d, r in zip(rest.drafts, receipts, strict=True)}
    events = [by_id.get(d.id) or _found(d, known[d.id]) for d in publication.drafts]
    size = ledger.writer.size or ledger.reader.info().size
    _tell(state, [publication], events, size, dry_run=False, once=_PUBLISHED)


def _foretell(state: State, ledger: Ledger, publication: Publication, source_id: str) -> None:
    known = recorded_before(ledger.reader, publication)
    shown = preview(ledger.reader, publication, source_id)
    events = [_found(d, known[d.id]) if d.id in known else _new(d) for d in publication.drafts]
    _tell(state, [publication], events, ledger.reader.info().size, dry_run=True, shown=shown, once=_PUBLISHED)


def _new(draft: Draft) -> dict[str, Any]:
    return _planned(draft) | {"already_recorded": False}


def _planned(draft: Draft) -> dict[str, Any]:
    return {
        "id": draft.id,
        "type": draft.type,
        "stream": draft.stream,
        "pos": None,
        "recorded_at": None,
        "already_recorded": None,
    }


def _found(draft: Draft, event: log_pb2.Event) -> dict[str, Any]:
    recorded_at = str(header_of(event)["recorded_at"])
    return _planned(draft) | {"pos": event.pos, "recorded_at": recorded_at, "already_recorded": True}


def _recorded(draft: Draft, receipt: Receipt) -> dict[str, Any]:
    return _planned(draft) | {
        "pos": receipt.pos,
        "recorded_at": clock.to_text(receipt.recorded_at_us),
        "already_recorded": receipt.already_recorded,
    }


def _tell(
    state: State,
    planned: Sequence[Publication],
    events: list[dict[str, Any]],
    size: int,
    *,
    dry_run: bool,
    shown: dict[str, Any] | None = None,
    once: str = "recorded",
) -> None:
    known = sum(bool(e["already_recorded"]) for e in events)
    summaries = [p.summary for p in planned if p.summary]
    out = state.output
    if out.as_json:
        out.json(
            {
                "dry_run": dry_run,
                "summaries": summaries,
                "recorded": 0 if dry_run else len(events) - known,
                "already_recorded": known,
                "size": size,
                "events": events,
                "source": shown,
            }
        )
        return
    for summary in summaries:
        out.line(summary)
    if dry_run or out.verbose or len(events) <= 10:
        out.table(
            ["pos", "type", "stream", "id"],
            [["-" if e["pos"] is None else e["pos"], e["type"], e["stream"], e["id"]] for e in events],
            whole=("pos", "type", "stream", "id"),
        )
    if shown is not None:
        out.pairs(_outcome(shown))
    out.say(_conclusion(events, known, size, dry_run=dry_run, once=once))


def _outcome(shown: dict[str, Any]) -> list[tuple[str, Cell]]:
    """What would be shown of the source, with the reasons."""
    states: list[tuple[str, Cell]] = [
        ("quality then", words.quality(shown["quality"])),
        ("difficulty then", words.difficulty(shown["difficulty"]["status"])),
    ]
    return [*states, *(("because", reason["text"]) for reason in shown["reasons"])]


def _conclusion(events: list[dict[str, Any]], known: int, size: int, *, dry_run: bool, once: str) -> str:
    count = len(events)
    if not count:
        return f"Nothing to append: it is as the ledger has it, at size {size:,}."
    if known == count:
        then = max(e["pos"] for e in events) + 1
        return f"Already {once} at size {then:,}: {words.counted(count, 'event')}; the ledger stays at size {size:,}."
    already = f" ({known} already recorded)" if known else ""
    new = words.counted(count - known, "event")
    if dry_run:
        return f"Dry run: {new} would be appended after size {size:,}{already}; nothing was."
    return f"Recorded {new}{already}; the ledger has size {size:,}."
