"""A model card that is derived: every sentence is a template and values, and names the events that say so.

- Equal coordinates give equal bytes, as long as nothing was redacted in between.
- A sentence, and a row of a table, ends with how its fact is known (claimed, imported, derived; nothing where it is
  plainly recorded) and with marks such as `[e214]`, each of which leads to the list of events at the end.
- What nobody recorded is told once, under "Not recorded".

    text = card_of(connection, "arm-0", coordinates("2026-10-01"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ledger.client.cards.brief import in_brief
from ledger.client.cards.claims import claims, completeness, evaluation, flags
from ledger.client.cards.evidence import cited, event_list
from ledger.client.cards.export import exports, hosting
from ledger.client.cards.identity import infrastructure, models, what_it_is
from ledger.client.cards.layout import legend, marked, paragraph, section, sentences
from ledger.client.cards.record import Record, record_of
from ledger.client.cards.rollouts import logs, rollouts, traces
from ledger.client.cards.selection import selection
from ledger.client.cards.sources import data
from ledger.client.cards.text import (
    Missing,
    Part,
    Parts,
    Said,
    code,
    inert,
    is_repository,
    known,
    said,
    scalar,
)
from ledger.client.cards.training import objective, outcome
from ledger.client.connection import Connection
from ledger.client.reader import Reader
from ledger.client.runs import Coordinates, Runs
from ledger.core import clock
from ledger.core.errors import NotFound
from ledger.core.text import harmless
from ledger.wire import log_pb2

Fetch = Callable[[Iterable[int]], Iterable[log_pb2.Event]]
"""The events at these positions."""

_BRIEF: Final = "In brief"
_SECTIONS: Final[tuple[tuple[str, Callable[[Record], Parts]], ...]] = (
    (_BRIEF, in_brief),
    ("What it is", what_it_is),
    ("RL start and root architecture", models),
    ("Data", data),
    ("Objective and settings", objective),
    ("Infrastructure", infrastructure),
    ("How it went and ended", outcome),
    ("Which checkpoint", selection),
    ("Export", exports),
    ("Rollouts", rollouts),
    ("Training Traces", traces),
    ("Training logs", logs),
    ("Hosting", hosting),
    ("Evaluation", evaluation),
    ("Claims", claims),
    ("Flags", flags),
    ("Completeness", completeness),
)


def card_of(connection: Connection, run_id: str, at: Coordinates = None, *, export_id: str | None = None) -> str:
    """The card of a run as it was known there, of one of its exports or of all of them.

    Raises:
        NotFound: if nothing of the run, or of the export, was recorded by then.
    """
    reader = Reader(connection)
    record = record_of(Runs(connection), reader, run_id, at, export_id=export_id)
    return model_card(record, lambda positions: map(reader.event, positions))


def model_card(record: Record, fetch: Fetch) -> str:
    """The card, as the bytes of a README.md in UTF-8 would read.

    Raises:
        NotFound: if the record is to be of an export that the run has not.
    """
    _check_export(record)
    sections = [(title, list(of(record))) for title, of in _SECTIONS]
    sections += [("Not recorded", list(_not_recorded(record, sections))), ("This card", list(_about(record)))]
    everything = [part for _, parts in sections for part in parts]
    events = {event.pos: event for event in map(cited, fetch(_positions(everything)))}
    lines = [*_front_matter(record), f"# {inert(harmless(_title(record)))}", ""]
    for title, parts in sections:
        if spoken := section(parts, events):
            lines += [f"## {title}", "", *spoken, ""]
        if title == _BRIEF:
            means = legend(everything, events, record.dossier.coordinates.run_rules)
            lines += [paragraph(_read_so(record, means), events), ""]
    return "\n".join([*lines, "## Events", "", *event_list(events.values()), ""])


def _check_export(record: Record) -> None:
    if record.export_id is not None and not record.exports:
        ids = ", ".join(export.id for export in record.dossier.exports) or "none"
        raise NotFound(
            f"run {record.run.summary.id} has no export {record.export_id}",
            remedy=f"Its exports are: {ids}. Leave --export out for a card of all of them.",
        )


def _positions(parts: Iterable[Part]) -> list[int]:
    """Every event that a mark names, once."""
    return sorted({pos for part in sentences(parts) for pos in marked(part.cites)})


def _not_recorded(record: Record, sections: Iterable[tuple[str, Iterable[Part]]]) -> Parts:
    """What each section would have told, each thing once."""
    told: set[str] = set()
    for title, parts in sections:
        things = [part.what for part in parts if isinstance(part, Missing) and part.what not in told]
        told.update(things)
        if things:
            yield record.derived(f"{title}: nothing tells of {'; '.join(dict.fromkeys(things))}")


def _read_so(record: Record, means: str) -> Said:
    where = record.dossier.coordinates
    recorded = clock.to_text(where.recorded_at_us) if where.HasField("recorded_at_us") else "no time"
    return said(
        f"How to read this card: {means}; a mark such as e{where.size - 1} leads to the event at that position, under "
        f"Events; the card stands at size {where.size:,} of the ledger, whose last event was recorded at {recorded}",
        where.size - 1,
        how="made",
    )


def _about(record: Record) -> Parts:
    """Where the card stands, and how anyone can make it again."""
    where, last = record.dossier.coordinates, record.dossier.coordinates.size - 1
    yield said(
        f"The rules {code(where.run_rules)} have the digest {code(where.run_rules_digest)}; redactions are honoured "
        f"through size {where.redactions_through:,}",
        last,
        how="made",
    )
    export = f" --export {_argument(record.export_id)}" if record.export_id is not None else ""
    command = f"ledger card {_argument(record.run.summary.id)} --at {where.size}{export}"
    yield said(f"The command {code(command)} makes it again", last, how="made")


def _argument(text: str) -> str:
    """As a shell takes it for one word."""
    return (
        text
        if text.replace("-", "").replace("_", "").replace(".", "").isalnum()
        else "'" + text.replace("'", "'\\''") + "'"
    )


def _title(record: Record) -> str:
    models = [model.repository for export in record.exports for model in export.models]
    return models[-1] if models else record.run.summary.id


def _front_matter(record: Record) -> Iterator[str]:
    """What the Hub reads of a card, only as far as it is recorded."""
    models = [model for export in record.exports for model in export.models]
    start = record.run.declared.rl_start
    base = known(start, "repository")
    datasets = [published.repository for published in record.run.traces if is_repository(published.repository)]
    licenses = [model.license for model in models if known(model, "license")]
    tags = dict.fromkeys(tag for model in models for tag in model.tags)
    lines = [f"license: {scalar(licenses[-1])}"] if licenses else []
    lines += [f"base_model: {scalar(base)}"] if base is not None and is_repository(base) else []
    lines += _yaml_list("datasets", dict.fromkeys(datasets)) + _yaml_list("tags", tags)
    return iter(["---", *lines, "---", ""] if lines else [])


def _yaml_list(key: str, values: Iterable[str]) -> list[str]:
    items = [f"- {scalar(value)}" for value in values]
    return [f"{key}:", *items] if items else []
