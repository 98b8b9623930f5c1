"""What came of a run's checkpoints: exports with their checks, models, what hosts show, traces and logs."""

from __future__ import annotations

from collections.abc import Iterator

from ledger.wire import runs_pb2
from services.cli import run_words, words
from services.cli.source_facts import Pairs

Dossier = runs_pb2.RunAsOfResponse


def exports(found: Dossier) -> Pairs:
    for export in found.exports:
        yield "export", ", ".join(_export(export))
        if export.HasField("started") and export.started.HasField("route_note"):
            yield "  route", export.started.route_note
        yield "  verified", _verified(export)
        for model in export.models:
            yield "  model", _model(model)
        for hosting in export.hosting:
            yield f"  at {hosting.host}", _hosting(hosting)


def _export(export: runs_pb2.Export) -> Iterator[str]:
    yield export.id
    if export.HasField("checkpoint"):
        yield f"of step {export.checkpoint.step:,}"
    yield run_words.spaced(export.status)
    yield f"route {export.route}" if export.HasField("route") else "route unknown"
    if export.HasField("failure"):
        yield export.failure


def _verified(export: runs_pb2.Export) -> str:
    """The numbers by which anyone can see that it adds up; without them a verification is a claim."""
    if not export.HasField("numbers"):
        return "no verification with numbers is recorded"
    numbers = export.numbers
    failed = [check.name for check in export.checks if check.outcome == "failed"]
    told = (
        f"{words.counted(numbers.shard_files, 'shard')} of {numbers.shards_named:,} named, index total_size "
        f"{numbers.index_total_size:,}, tensors {numbers.tensor_bytes:,} bytes, "
        f"{numbers.tensors_in_index:,} in the index, {numbers.tensors_in_shards:,} in shards"
    )
    return f"{told}; failed: {', '.join(failed)}" if failed else told


def _model(model: runs_pb2.PublishedModel) -> str:
    parts = [model.repository, f"commit {model.commit}" if model.HasField("commit") else "commit unknown"]
    if model.HasField("license"):
        parts.append(f"licence {model.license}")
    if model.HasField("files_agree"):
        parts.append("files as verified" if model.files_agree else "files are not those that were verified")
    if model.HasField("url"):
        parts.append(model.url)
    return ", ".join([*parts, model.basis])


def _hosting(hosting: runs_pb2.Hosting) -> str:
    seen = f"observed {hosting.observed_at}" if hosting.HasField("observed_at") else "observed at an unknown time"
    told = ", ".join(f"{run_words.spaced(one.field)} {one.value}" for one in hosting.observations)
    return f"{told} ({seen}, by a third party)"


def published(found: Dossier) -> Pairs:
    for kind, all_ in (("traces", found.run.traces), ("logs", found.run.logs)):
        for one in all_:
            yield kind, ", ".join(_published(one))


def _published(one: runs_pb2.Published) -> Iterator[str]:
    yield one.repository
    yield f"commit {one.commit}" if one.HasField("commit") else "commit unknown"
    if one.HasField("episodes"):
        yield f"episodes: {one.episodes}"
    if one.HasField("coverage"):
        yield from (f"{value:,} {field.name}" for field, value in one.coverage.ListFields())
    if one.files:
        yield f"{words.counted(len(one.files), 'file')}: {', '.join(file.path for file in one.files)}"
    if one.redactions:
        yield f"{sum(r.count for r in one.redactions):,} secrets redacted"
    elif one.HasField("redaction_stated"):
        yield "redaction stated, not counted" if one.redaction_stated else "no redaction stated"
    if one.HasField("url"):
        yield one.url
    yield one.basis
