"""ledger audit: questions over history, at any moment, under any rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import click

from ledger.client.auditing import Auditor
from ledger.client.messages import coordinates_dict, to_dict
from ledger.core import clock
from ledger.wire import audit_pb2
from services.cli import words
from services.cli.coordinates import Where, standing
from services.cli.exporting import Target, View, export, export_options
from services.cli.filters import judgment_filter_options, source_filter_options
from services.cli.options import SOURCE, Group, between_options, where_options
from services.cli.output import Cell, Output
from services.cli.questions import asked, compared
from services.cli.state import Ledger, State
from services.cli.trees import show_tree

QUEUE_KINDS: Final = (
    "stale_review",
    "defect_without_issue",
    "good_without_difficulty",
    "judges_in_conflict",
    "audit_without_synthesis",
    "resolution_not_current",
    "applicability_unknown",
    "suspected_defect",
)
_TOLD: Final = 8
"""So many kinds are told of beside a list; an export has them all."""


@click.group("audit", cls=Group, example="ledger audit judgments --source MarinSkyRL:svamp --verdict reject")
def audit() -> None:
    """Questions over history: who judged what, what changed, and why."""


@audit.command(
    "judgments",
    example="""ledger audit judgments --source MarinSkyRL:svamp --verdict reject
ledger audit judgments --standing --at 2026-10-01 --format parquet --output judgments.parquet""",
)
@judgment_filter_options
@where_options
@export_options
@click.pass_obj
def judgments(state: State, *, wanted: audit_pb2.JudgmentFilter, where: Where, target: Target) -> None:
    """List judgments, syntheses and observations, in log order."""
    target.form(state.output)
    with state.open() as ledger:
        pages = Auditor(ledger.connection).judgments(wanted, where.coordinates(ledger))
        first, answer = asked(ledger, pages, "judgments")
        count = export(state.output, _JUDGMENTS, answer, target)
    _conclude(state.output, count, _JUDGMENTS, target, standing(first.coordinates, where.at))


@audit.command("agreement", example="ledger audit agreement --source MarinSkyRL:svamp --json")
@judgment_filter_options
@where_options
@click.pass_obj
def agreement(state: State, *, wanted: audit_pb2.JudgmentFilter, where: Where) -> None:
    """Say how far judges agree, raw and by Fleiss' kappa, and how often each is overruled by a synthesis."""
    with state.open() as ledger:
        answer = Auditor(ledger.connection).agreement(wanted, where.coordinates(ledger))
    out = state.output
    if out.as_json:
        out.json(to_dict(answer) | {"coordinates": coordinates_dict(answer.coordinates)})
        return
    out.table(
        ["of", "tasks", "judgments", "unanimous", "agreement", "kappa", "left out", "categories"],
        [_agreement_cells(row) for row in (answer.verdicts, *answer.dimensions)],
        whole=("of",),
        spare=("left out",),
    )
    out.line()
    out.table(["judge", "judgments", "synthesised", "overruled"], map(_judge_cells, answer.judges), whole=("judge",))
    out.say(f"{standing(answer.coordinates, where.at)}.")


@audit.command("timeline", example="ledger audit timeline MarinSkyRL:svamp --newest-first")
@click.argument("source_id", type=SOURCE, metavar="SOURCE")
@click.option("--newest-first", is_flag=True, help="The newest first, rather than in log order.")
@click.option("--full", is_flag=True, help="Parts of a collection too, each for itself.")
@where_options
@export_options
@click.pass_obj
def timeline(state: State, source_id: str, *, newest_first: bool, full: bool, where: Where, target: Target) -> None:
    """Tell what happened to a source, and what each event changed in what is shown."""
    target.form(state.output)
    with state.open() as ledger:
        at = where.coordinates(ledger)
        pages = Auditor(ledger.connection).timeline(source_id, at, newest_first=newest_first, full=full)
        first, answer = asked(ledger, pages, "entries")
        count = export(state.output, _TIMELINE, answer, target)
    _conclude(state.output, count, _TIMELINE, target, standing(first.coordinates, where.at))


@audit.command(
    "diff",
    example="""ledger audit diff 120 2026-10-01
ledger audit diff --rules-from atlas-page-1 --rules-to ledger-1 --quality good""",
)
@click.argument("moments", nargs=-1, metavar="[FROM [TO]]")
@between_options
@source_filter_options
@export_options
@click.pass_obj
def diff(
    state: State,
    moments: tuple[str, ...],
    *,
    before: Where,
    after: Where,
    wanted: audit_pb2.SourceFilter,
    target: Target,
) -> None:
    """List the sources that differ between two moments, two rule sets or two policies.

    FROM and TO are sizes, dates or times, as with --from and --to; TO is now when left out. A source passes the filter
    if it does on either side.
    """
    before, after = _sides(moments, before, after)
    target.form(state.output)
    with state.open() as ledger:
        before, after = _pinned(ledger, before, after)
        pages = Auditor(ledger.connection).diff(before.coordinates(ledger), after.coordinates(ledger), wanted)
        first, answer = compared(ledger, pages)
        count = export(state.output, _DIFF, answer, target)
    said = [f"Before: {standing(first.before, before.at)}", f"After: {standing(first.after, after.at)}"]
    _conclude(state.output, count, _DIFF, target, ". ".join([*_counts(first.counts), *said]))


@audit.command(
    "why",
    example="ledger audit why MarinSkyRL:svamp --rules now\nledger audit why MarinSkyRL:svamp --at 1204 --evidence",
)
@click.argument("source_id", type=SOURCE, metavar="SOURCE")
@click.option("--evidence", is_flag=True, help="With every artifact that an event cites, by name and SHA-256.")
@where_options
@click.pass_obj
def why(state: State, source_id: str, *, evidence: bool, where: Where) -> None:
    """Draw why a source is shown as it is: rules, events, what those close and cite."""
    with state.open() as ledger:
        answer = Auditor(ledger.connection).why(source_id, where.coordinates(ledger))
    out = state.output
    if out.as_json:
        tree = [to_dict(node) for node in answer.tree]
        out.json({"id": answer.source.id, "tree": tree, "coordinates": coordinates_dict(answer.coordinates)})
        return
    show_tree(out, answer.source.id, answer.tree, evidence=evidence)
    out.say(f"{standing(answer.coordinates, where.at)}.")


@audit.command("queue", example="ledger audit queue --kind stale_review --origin MarinSkyRL")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(QUEUE_KINDS), help="Of this kind; may be repeated.")
@source_filter_options
@where_options
@export_options
@click.pass_obj
def queue(
    state: State, *, kinds: tuple[str, ...], wanted: audit_pb2.SourceFilter, where: Where, target: Target
) -> None:
    """List what a curator has to do, the items with reusable evidence first."""
    target.form(state.output)
    with state.open() as ledger:
        pages = Auditor(ledger.connection).queue(kinds, wanted, where.coordinates(ledger))
        first, answer = asked(ledger, pages, "items")
        count = export(state.output, _QUEUE, answer, target)
    said = [*_counts(first.counts), standing(first.coordinates, where.at)]
    _conclude(state.output, count, _QUEUE, target, ". ".join(said))


def _conclude(out: Output, count: int, view: View, target: Target, where: str) -> None:
    to = f" written to {target.file}" if target.file is not None else ""
    out.say(f"{words.counted(count, view.noun)}{to}. {where}.")


def _counts(counts: Mapping[str, int]) -> list[str]:
    """How many of each kind, the most first; nothing when there are none."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    told = [f"{name} {count:,}" for name, count in ordered[:_TOLD]]
    if len(ordered) > _TOLD:
        told.append(f"{len(ordered) - _TOLD} more kinds")
    return [" · ".join(told)] if told else []


def _sides(moments: tuple[str, ...], before: Where, after: Where) -> tuple[Where, Where]:
    """The moments of both sides, from arguments or from options."""
    if len(moments) > 2:
        raise click.UsageError("A difference has two sides: name FROM and TO, and no more.")
    named = [side.at for side in (before, after)]
    if moments and any(at is not None for at in named):
        raise click.UsageError("Name the moments as arguments or with --from and --to, not both.")
    first, second = (*moments, None, None)[:2] if moments else named
    return replace(before, at=first), replace(after, at=second)


def _pinned(ledger: Ledger, before: Where, after: Where) -> tuple[Where, Where]:
    """Both sides at now are at one size, or what is recorded meanwhile would differ too."""
    if not before.is_now or not after.is_now:
        return before, after
    size = ledger.size_to_wait_for(None, before.min_size)
    at_size = [replace(side, at=str(size), min_size=size) for side in (before, after)]
    return at_size[0], at_size[1]


def _judgment_cells(row: audit_pb2.Judgment) -> Sequence[Cell]:
    verdict = row.verdict + (" (overruled)" if row.overruled else "")
    severity = row.severity if row.HasField("severity") else "-"
    reviewed = row.reviewed_at[:10] if row.HasField("reviewed_at") else None
    standing_ = f"superseded by {row.superseded}" if row.HasField("superseded") else _applicability(row)
    task = row.task_id if row.HasField("task_id") else "the source"
    return [row.pos, row.source_id, task, row.reviewer, row.method, verdict, severity, reviewed, standing_, row.summary]


def _applicability(row: audit_pb2.Judgment) -> str:
    return row.applicability if row.HasField("applicability") else "not published"


def _agreement_cells(row: audit_pb2.Agreement) -> Sequence[Cell]:
    kappa = f"{row.kappa:.3f}" if row.HasField("kappa") else "-"
    raw = f"{row.raw:.1%}" if row.HasField("raw") else "-"
    found = ", ".join(f"{name} {row.categories[name]:,}" for name in sorted(row.categories))
    return [row.of, row.tasks, row.judgments, row.unanimous, raw, kappa, row.left_out, found]


def _judge_cells(row: audit_pb2.JudgeRecord) -> Sequence[Cell]:
    share = f"{row.overruled} ({row.overruled / row.synthesised:.0%})" if row.synthesised else "-"
    return [row.reviewer, row.judgments, row.synthesised, share]


def _timeline_cells(row: audit_pb2.TimelineEntry) -> Sequence[Cell]:
    event = row.event
    kind = event.type + (" (sample)" if event.sample else "") + (" (elsewhere)" if row.elsewhere else "")
    text = row.text + (f" Disregarded by {row.disregarded_by}." if row.HasField("disregarded_by") else "")
    return [event.pos, clock.to_text(event.recorded_at_us), kind, text, _changed(row.changes)]


def _diff_lines(row: audit_pb2.SourceChange) -> Iterable[tuple[audit_pb2.SourceChange, audit_pb2.FieldChange]]:
    return ((row, change) for change in row.fields)


def _diff_cells(line: tuple[audit_pb2.SourceChange, audit_pb2.FieldChange]) -> Sequence[Cell]:
    row, change = line
    return [row.id, change.field, _side(change, "before"), _side(change, "after"), len(row.runs)]


def _queue_cells(row: audit_pb2.QueueItem) -> Sequence[Cell]:
    reusable = ", ".join(map(str, row.reusable)) or "-"
    return [row.kind, row.source_id, row.text, ", ".join(map(str, row.events)), reusable]


def _changed(changes: Iterable[audit_pb2.FieldChange]) -> str:
    return "; ".join(f"{c.field}: {_side(c, 'before')} → {_side(c, 'after')}" for c in changes) or "-"


def _side(change: audit_pb2.FieldChange, name: Any) -> str:
    return getattr(change, name) if change.HasField(name) else "none"


_JUDGMENTS: Final = View(
    row=audit_pb2.Judgment,
    columns=("pos", "source", "task", "judge", "method", "verdict", "severity", "reviewed", "standing", "summary"),
    cells=_judgment_cells,
    noun="judgment",
    whole=("pos", "source", "task", "judge"),
    spare=("method", "reviewed", "standing"),
)
_TIMELINE: Final = View(
    row=audit_pb2.TimelineEntry,
    columns=("pos", "recorded at", "type", "what", "changes"),
    cells=_timeline_cells,
    noun="event",
    whole=("pos", "recorded at"),
    spare=("type",),
)
_DIFF: Final = View(
    row=audit_pb2.SourceChange,
    columns=("id", "field", "before", "after", "runs"),
    cells=_diff_cells,
    lines=_diff_lines,
    noun="source",
    spare=("runs",),
    unless_zero=("runs",),
)
_QUEUE: Final = View(
    row=audit_pb2.QueueItem,
    columns=("kind", "source", "what to do", "events", "reusable"),
    cells=_queue_cells,
    noun="item",
    whole=("kind", "source"),
    spare=("events",),
)
