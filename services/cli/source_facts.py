"""One source, whole, as pairs of a name and a value: what `ledger source show` prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from ledger.wire import audit_pb2
from services.cli import words

Pairs = Iterator[tuple[str, Any]]

_IDENTITY: Final = (
    "origin", "name", "family", "url", "dataset_id", "dataset_revision", "revision", "verifier_revision",
    "atlas_status", "intended_use", "is_benchmark", "input_rows",
)  # fmt: skip


def named(source: audit_pb2.Source) -> str:
    return source.id + (" (retired)" if source.retired else "")


def facts(source: audit_pb2.Source) -> Pairs:
    """What is shown of a source, the derived values first; what is unknown is None."""
    yield "id", named(source)
    yield from _quality(source)
    yield from _review(source)
    yield from _difficulty(source.difficulty)
    for found in (*source.open_defects, *source.suspected_defects, *source.resolved_defects):
        yield "defect", words.defect(found)
    yield from _attestations(source.attestations)
    for name in _IDENTITY:
        yield name.replace("_", " "), _known(source, name)
    yield from _names(source)
    if source.sample:
        yield "sample", "rests on sample events, made up for a demonstration"
    for reason in source.reasons:
        yield "because", reason.text


def _quality(source: audit_pb2.Source) -> Pairs:
    yield "quality", words.rated(source)
    if source.HasField("underlying_quality") and source.underlying_quality != source.quality:
        yield "by the reviews alone", words.quality(source.underlying_quality)
    if source.HasField("applicability"):
        yield "applicability", words.APPLICABILITY.get(source.applicability, source.applicability)


def _review(source: audit_pb2.Source) -> Pairs:
    if not source.HasField("review"):
        yield "review", "none"
        return
    review = source.review
    named_as = review.id or "the inventory's own rating"
    yield "review", f"{named_as}, traces: {review.traces}, judgments: {review.judgments}"
    yield "review date", _known(review, "review_date")
    yield "execution commit", _known(review, "executed_commit")
    yield "reference commit", _known(review, "reference_commit")
    yield "verifier revision reviewed", _reviewed_revision(review)
    if source.HasField("panel"):
        yield "panel", _panel(source.panel)
    others = [pooled for pooled in source.review_pool if pooled.pos != review.pos]
    if others:
        yield "review pool", f"{words.counted(len(others), 'other collection')}; `ledger review list` names them"


def _reviewed_revision(review: audit_pb2.Review) -> str | None:
    """The verifier revision that the rating covers, and who says so."""
    revision, basis = _known(review, "verifier_revision"), _known(review, "verifier_revision_basis")
    return f"{revision}, as the {basis} says" if revision and basis else revision


def _panel(panel: audit_pb2.Panel) -> str:
    """Who judged, in how many sessions, and how they disagree."""
    parts = [f"{words.counted(panel.judges, 'judgment')} of {words.counted(panel.tasks, 'task')}"]
    if panel.tasks:
        parts.append(f"{panel.fewest} to {panel.most} a task" if panel.fewest != panel.most else f"{panel.most} a task")
    parts.append(
        f"{words.counted(panel.models, 'model')} in {words.counted(panel.conversations, 'known conversation')}"
    )
    for count, what in ((panel.tasks_in_conflict, "tasks in conflict"), (panel.overruled, "judgments overruled")):
        if count:
            parts.append(f"{what}: {count}")
    return ", ".join(parts)


def _difficulty(difficulty: audit_pb2.Difficulty) -> Pairs:
    yield "difficulty", words.difficulty(difficulty.status)
    for model in difficulty.models:
        yield f"  {model.size}", f"{model.model}: {words.solve_rate(model)}"
    for mismatch in difficulty.mismatches:
        yield "  mismatch", mismatch
    if difficulty.HasField("ordering_warning"):
        yield "  warning", difficulty.ordering_warning
    for run in difficulty.followups:
        changed = run.changed_parameter or run.checkpoint_change or run.kind
        yield f"  {run.label}", f"{changed}: {run.outcome.model}: {words.solve_rate(run.outcome)}"
    if difficulty.HasField("context"):
        yield "  before it was measured", _context(difficulty.context)
    if difficulty.history:
        count = words.counted(len(difficulty.history), "other report")
        yield "  history", f"{count}; `ledger difficulty history` names them"


def _context(context: audit_pb2.DifficultyContext) -> str:
    """The quality solver's initial counts; its sample may be smaller, and drawn otherwise."""
    solved, verified = _known(context, "solved"), _known(context, "verified")
    counts = f"the quality solver solved {solved or 'unknown'} of {verified or 'unknown'} verified"
    return f"{counts}; earlier evidence: {context.applicability}" if context.HasField("applicability") else counts


def _attestations(attestations: Iterable[audit_pb2.Attestation]) -> Pairs:
    for attested in attestations:
        honoured = "honoured" if attested.honoured else "not honoured by what is shown"
        kind, finding = attested.kind.replace("_", " "), attested.finding.replace("_", ", ")
        yield "attestation", f"{kind}: {finding}, {honoured} ({attested.subject})"


def _names(source: audit_pb2.Source) -> Pairs:
    for count in source.counts:
        revision = f"revision {count.revision}" if count.HasField("revision") else "revision unknown"
        yield f"{count.basis} rows", f"{count.rows:,} at {revision}"
    for alias in source.aliases:
        yield "alias", f"{alias.alias} ({alias.status}, {alias.applicability.replace('_', ' ')})"
    if source.tags:
        yield "tags", ", ".join(source.tags)


def _known(message: Any, name: str) -> str | None:
    """The field's text, or None when it is unknown."""
    field = message.DESCRIPTOR.fields_by_name[name]
    if field.has_presence and not message.HasField(name):
        return None
    value = getattr(message, name)
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
