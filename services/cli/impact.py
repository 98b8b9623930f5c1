"""What a promotion would move, for a person: how many sources by change, then each of them with both sides' reasons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ledger.wire import audit_pb2, projections_pb2
from services.cli import words
from services.cli.output import Output

NOT_SHOWN = "none"


def show_summary(out: Output, diff: projections_pb2.GenerationDiffResponse) -> None:
    """Which generations are compared, and how many sources move in which way."""
    out.pairs(
        [
            ("answers now", _named(diff.live)),
            ("would answer", _named(diff.candidate)),
            ("compared at size", diff.size),
            ("sources that move", diff.total),
            ("difference", diff.diff_digest),
        ]
    )
    if diff.counts:
        out.line()
        out.table(["sources", "change"], [[count, change] for change, count in _most_first(diff)], whole=("sources",))


def show_changes(out: Output, changes: Sequence[audit_pb2.SourceChange]) -> None:
    """Every source that moves, with the rule and the positions of the events on either side."""
    for change in changes:
        out.line()
        out.line(change.id, whole=True)
        for field in change.fields:
            before = field.before if field.HasField("before") else NOT_SHOWN
            after = field.after if field.HasField("after") else NOT_SHOWN
            out.line(f"  {field.field}: {before} -> {after}")
        _reasons(out, "before", change.before)
        _reasons(out, "after", change.after)
        if change.runs:
            out.line(f"  used by {', '.join(change.runs)}")


def _reasons(out: Output, side: str, reasons: Iterable[audit_pb2.Reason]) -> None:
    for reason in reasons:
        at = f" (events {', '.join(map(str, reason.events))})" if reason.events else ""
        out.line(f"  {side}: {reason.field}, {reason.rule}: {reason.text}{at}")


def _named(generation: projections_pb2.Generation) -> str:
    return f"{generation.rules}, {generation.status}, {words.counted(generation.keys, 'source')}, {generation.id}"


def _most_first(diff: projections_pb2.GenerationDiffResponse) -> list[tuple[str, int]]:
    return sorted(diff.counts.items(), key=lambda item: (-item[1], item[0]))
