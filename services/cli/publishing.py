"""Appending from a command: what would be sent, what was recorded, and how either is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ledger.client.drafts import Draft, Publication
from ledger.client.writer import Receipt, raise_refused
from ledger.core import clock
from ledger.wire import log_pb2
from services.cli import words
from services.cli.catalogue_state import header_of
from services.cli.disregarded import disregarded
from services.cli.output import Cell
from services.cli.preview import preview
from services.cli.renewing import Renewed, renewed
from services.cli.republishing import recorded_before, without
from services.cli.state import Ledger, State

_PUBLISHED: Final = "published"
_RECORDED: Final = "recorded"
_NAMED: Final = 5


def publish(state: State, ledger: Ledger, publications: Iterable[Publication]) -> None:
    """Publishes one after the other and tells of all. What was disregarded is published again."""
    planned = [renewed(ledger.reader, publication) for publication in publications]
    events = []
    for each in planned:
        drafts = each.publication.drafts
        receipts = ledger.writer.publish(each.publication)
        raise_refused(drafts, receipts)
        events += [_recorded(each, d, r) for d, r in zip(drafts, receipts, strict=True)]
    _tell(state, planned, events, ledger.writer.size or ledger.reader.info().size, dry_run=False)


def append_given(state: State, ledger: Ledger, publication: Publication) -> None:
    """Appends events whose ids the caller gives or are new, and tells of it.

    An id that is given again is answered with its first receipt, whether or not that event still counts: it is said
    where it does not.
    """
    planned = Renewed(publication)
    receipts = ledger.writer.publish(publication)
    raise_refused(publication.drafts, receipts)
    events = [_recorded(planned, d, r) for d, r in zip(publication.drafts, receipts, strict=True)]
    _tell(state, [planned], events, ledger.writer.size, dry_run=False)
    if any(event["already_recorded"] for event in events):
        _note_disregarded(state, ledger, events)


def show_plan(state: State, ledger: Ledger, publications: Iterable[Publication]) -> None:
    """Tells what would be appended, and appends nothing."""
    planned = [renewed(ledger.reader, publication) for publication in publications]
    events = [_planned(each, draft) for each in planned for draft in each.publication.drafts]
    _tell(state, planned, events, ledger.reader.info().size, dry_run=True)


def publish_once(state: State, ledger: Ledger, publication: Publication, *, dry_run: bool) -> None:
    """Publishes what the ledger does not have yet, whoever sent the rest, or tells of it.

    Raises:
        Refused: reason ID_CONFLICT, if the ledger has an event of it that says something else.
    """
    planned = renewed(ledger.reader, publication)
    if dry_run:
        _foretell(state, ledger, planned, None, once=_RECORDED)
    else:
        _publish_rest(state, ledger, planned, once=_RECORDED)


def publish_source(state: State, ledger: Ledger, publication: Publication, source_id: str, *, dry_run: bool) -> None:
    """Publishes what is about one source, or tells what would become of it.

    Raises:
        Refused: as `publish_once`.
    """
    planned = renewed(ledger.reader, publication)
    if dry_run:
        _foretell(state, ledger, planned, preview(ledger.reader, planned.publication, source_id), once=_PUBLISHED)
    else:
        _publish_rest(state, ledger, planned, once=_PUBLISHED)


def _publish_rest(state: State, ledger: Ledger, planned: Renewed, *, once: str) -> None:
    known = recorded_before(ledger.reader, planned.publication)
    rest = without(planned.publication, known)
    receipts = ledger.writer.publish(rest) if rest.drafts else []
    raise_refused(rest.drafts, receipts)
    by_id = {d.id: _recorded(planned, d, r) for d, r in zip(rest.drafts, receipts, strict=True)}
    events = [by_id.get(d.id) or _found(planned, d, known[d.id]) for d in planned.publication.drafts]
    size = ledger.writer.size or ledger.reader.info().size
    _tell(state, [planned], events, size, dry_run=False, once=once)


def _foretell(state: State, ledger: Ledger, planned: Renewed, shown: dict[str, Any] | None, *, once: str) -> None:
    known = recorded_before(ledger.reader, planned.publication)
    events = [
        _found(planned, d, known[d.id]) if d.id in known else _planned(planned, d) | {"already_recorded": False}
        for d in planned.publication.drafts
    ]
    _tell(state, [planned], events, ledger.reader.info().size, dry_run=True, shown=shown, once=once)


def _planned(of: Renewed, draft: Draft) -> dict[str, Any]:
    by = of.again.get(draft.id)
    return {
        "id": draft.id,
        "type": draft.type,
        "stream": draft.stream,
        "pos": None,
        "recorded_at": None,
        "already_recorded": None,
        "disregarded_before_at": by.pos if by is not None else None,
    }


def _found(of: Renewed, draft: Draft, event: log_pb2.Event) -> dict[str, Any]:
    recorded_at = str(header_of(event)["recorded_at"])
    return _planned(of, draft) | {"pos": event.pos, "recorded_at": recorded_at, "already_recorded": True}


def _recorded(of: Renewed, draft: Draft, receipt: Receipt) -> dict[str, Any]:
    return _planned(of, draft) | {
        "pos": receipt.pos,
        "recorded_at": clock.to_text(receipt.recorded_at_us),
        "already_recorded": receipt.already_recorded,
    }


def _note_disregarded(state: State, ledger: Ledger, events: Iterable[dict[str, Any]]) -> None:
    gone = disregarded(ledger.reader)
    for event in events:
        by = gone.get((event["pos"], event["id"]))
        if by is not None:
            state.output.say(
                f"It was disregarded at position {by.pos} and counts for nothing: give another --id, or none, to "
                "record it again."
            )


def _tell(
    state: State,
    planned: Sequence[Renewed],
    events: list[dict[str, Any]],
    size: int,
    *,
    dry_run: bool,
    shown: dict[str, Any] | None = None,
    once: str = _RECORDED,
) -> None:
    known = sum(bool(e["already_recorded"]) for e in events)
    summaries = [each.publication.summary for each in planned if each.publication.summary]
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
    for note in _published_again(events, dry_run=dry_run):
        out.say(note)
    out.say(_conclusion(events, known, size, dry_run=dry_run, once=once))


def _outcome(shown: dict[str, Any]) -> list[tuple[str, Cell]]:
    """What would be shown of the source, with the reasons."""
    states: list[tuple[str, Cell]] = [
        ("quality then", words.quality(shown["quality"])),
        ("difficulty then", words.difficulty(shown["difficulty"]["status"])),
    ]
    return [*states, *(("because", reason["text"]) for reason in shown["reasons"])]


def _published_again(events: Iterable[dict[str, Any]], *, dry_run: bool) -> Iterator[str]:
    """A sentence for each event that takes the place of one that was disregarded, up to a few."""
    again = [e for e in events if e["disregarded_before_at"] is not None and not e["already_recorded"]]
    done = "would be published again" if dry_run else "published again"
    for event in again[:_NAMED]:
        yield f"{event['type']} was disregarded at position {event['disregarded_before_at']}; {done}."
    if len(again) > _NAMED:
        yield f"So were {len(again) - _NAMED:,} more; {done}."


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
