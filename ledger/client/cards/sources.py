"""What a card says of the data: revisions as consumed, and the sources' standing at start, at selection and now.

A rating is that of a moment: it is never carried from one to another, and a change between them is told.
"""

from __future__ import annotations

from collections.abc import Iterable

from ledger.client.cards.record import Record
from ledger.client.cards.text import (
    Missing,
    Parts,
    Said,
    cell,
    code,
    counted,
    known,
    prose,
    row,
    said,
    shown,
    table,
    words,
)
from ledger.wire import audit_pb2, provenance_pb2, runs_pb2

_QUALITY = {"good": "Good", "some_issues": "Some issues", "bad": "Bad", "needs_re_review": "Needs re-review"}


def data(record: Record) -> Parts:
    sources = record.run.declared.sources
    if not sources:
        yield Missing("the data sources")
    standing = {then.atlas_id: then for then in record.dossier.sources}
    for source in sources:
        yield from _consumed(record, source)
        if (then := standing.pop(source.atlas_id, None)) is not None:
            yield from _standing(record, then)
    for then in standing.values():
        yield from _standing(record, then)
    declared = record.run.declared
    if (size := known(declared, "consumption_size")) is not None:
        by = (
            f", by the receipt {code(declared.consumption_receipt.sha256)}"
            if declared.HasField("consumption_receipt")
            else ""
        )
        yield said(
            f"The sources were checked against the ledger at size {size:,} when the run began{by}", record.declared
        )
    else:
        yield Missing("a check of the sources when the run began")


def _consumed(record: Record, source: provenance_pb2.ConsumedSource) -> Parts:
    atlas = known(source, "atlas_id")
    used = "evaluates on" if known(source, "role") == "eval" else "trains on"
    listed_as = f", source {code(atlas)} of the Atlas" if atlas else ""
    parts = [f"The run {used} the dataset {code(source.dataset_id)}{listed_as}"]
    for name, what in (("dataset_revision", "dataset revision"), ("verifier_revision", "verifier revision")):
        if (revision := known(source, name)) is None:
            yield Missing(f"the {what} of {code(source.dataset_id)}")
        else:
            parts.append(f"{what} {code(revision)}")
    if (digest := known(source, "tree_digest")) is not None:
        parts.append(f"digest of the task files {code(digest)}")
    if (tasks := known(source, "task_count")) is not None:
        parts.append(counted(tasks, "task"))
    else:
        yield Missing(f"the number of tasks of {code(source.dataset_id)}")
    yield said(", ".join(parts), record.declared)
    if atlas is None:
        yield Missing(f"which source of the Atlas {code(source.dataset_id)} is")


def _standing(record: Record, then: runs_pb2.SourceThenAndNow) -> Parts:
    selection = then.selection_size if then.HasField("selection_size") else None
    now = record.dossier.coordinates.size
    moments = [("when the run was declared", then.start_size, then.at_start if then.HasField("at_start") else None)]
    if selection is not None:
        chosen = then.at_selection if then.HasField("at_selection") else None
        moments.append(("when the checkpoint was selected", selection, chosen))
    moments.append(("now", now, then.now if then.HasField("now") else None))
    for when, _, source in moments:
        if source is None:
            yield Missing(f"the Quality of {code(then.atlas_id)} {when}")
    yield from table(
        (cell(then.atlas_id), "Size", "Quality", "Open defects"),
        (_shown(record, when, size, source) for when, size, source in moments if source is not None),
    )
    if then.turned:
        yield shown(
            f"What is shown of {code(then.atlas_id)} turned {counted(len(then.turned), 'time')} after the run was "
            "declared",
            *then.turned,
        )


def _shown(record: Record, when: str, size: int, source: audit_pb2.Source) -> Said:
    defects = "; ".join(_defect(defect) for defect in source.open_defects) or "none"
    behind = (*quality_events(source), *(defect.pos for defect in source.open_defects))
    cells = [when, f"{size:,}", quality(source), defects]
    return row(cells, *behind or (record.declared,), how="shown")


def _defect(defect: audit_pb2.Defect) -> str:
    issue = f"issue {cell(defect.issue_url)}" if known(defect, "issue_url") else "issue missing"
    return f"{cell(defect.id)} ({words(defect.kind)}): {prose(defect.summary)}, {issue}"


def quality(source: audit_pb2.Source) -> str:
    """As it is shown: the Quality, how far it applies, and whether the source is retired."""
    named = _QUALITY.get(source.quality, words(source.quality).capitalize())
    applies = known(source, "applicability")
    limits = f", applicability {words(applies)}" if applies else ""
    return f"{named}{limits}{', retired' if source.retired else ''}"


def quality_events(source: audit_pb2.Source) -> tuple[int, ...]:
    """The events that the Quality rests on."""
    reasons: Iterable[audit_pb2.Reason] = source.reasons
    return tuple(pos for reason in reasons if reason.field == "quality" for pos in reason.events)
