"""What a card says of exports: by which route, with what digests, how verified, where published and how offered.

What a third party shows is an observation of a day. Where it does not fit what is recorded, both stand side by side.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, Final

from ledger.client.cards.identity import software, without_commit
from ledger.client.cards.record import Record
from ledger.client.cards.text import (
    Missing,
    Parts,
    code,
    counted,
    derived,
    known,
    listed,
    number,
    place,
    prose,
    said,
    words,
)
from ledger.wire import provenance_pb2, runs_pb2

_ROUTE: Final = {
    "in_trainer": "by the trainer, as it ran",
    "rerun": "by the trainer's own export path in a job of its own, without an update",
    "offline": "by a conversion of files",
}
_CONTEXT_NAME: Final = re.compile(r"(?<![0-9A-Za-z])\d{1,4}k(?![0-9A-Za-z])", re.IGNORECASE | re.ASCII)


def exports(record: Record) -> Parts:
    if not record.exports:
        yield Missing("an export")
    for export in record.exports:
        yield from _made(export)
        yield from _verified(export)
        for model in export.models:
            yield from _published(export, model)
        if export.HasField("failed_pos"):
            failure = known(export, "failure")
            why = f": {prose(failure)}" if failure else ""
            yield said(f"The export {code(export.id)} failed{why}", export.failed_pos)
    if record.exports and not any(export.models for export in record.exports):
        yield Missing("a publication of the model")


def place_of(export: runs_pb2.Export) -> tuple[int, ...]:
    """The events by which an export is known."""
    found = place(export, "started_pos", "completed_pos", "verified_pos", "failed_pos")
    others: list[Any] = [*export.models, *export.hosting, *export.claims]
    return found or tuple(item.pos for item in others)


def verification_claims(export: runs_pb2.Export) -> list[runs_pb2.Claim]:
    """What is said of a verification that nobody recorded."""
    if export.HasField("verified_pos"):
        return []
    return [c for c in export.claims if c.claim.topic.startswith("export.verification") and not c.claim.absent]


def _made(export: runs_pb2.Export) -> Parts:
    pos = place_of(export)
    if not pos:
        return
    start = export.started_pos if export.HasField("started_pos") else pos[0]
    of = f" of the checkpoint of step {export.checkpoint.step:,}" if export.HasField("checkpoint") else ""
    digest = known(export.checkpoint, "digest") if export.HasField("checkpoint") else None
    route = _ROUTE.get(export.route)
    used = [software(revision) for revision in export.started.code]
    yield said(
        f"The export {code(export.id)}{of}{f', digest {code(digest)},' if digest else ''} was made"
        f"{f' {route}' if route else ''}{f', with {listed(used)}' if used else ''}",
        start,
    )
    if route is None:
        yield Missing(f"the route of the export {code(export.id)}")
    if (note := known(export.started, "route_note")) is not None:
        yield said(f"Of the route: {prose(note)}", start)
    yield from without_commit(export.started.code)
    if export.HasField("completed_pos"):
        yield said(f"The export {code(export.id)} was completed{_files(export.completed)}", export.completed_pos)


def _files(done: provenance_pb2.ExportCompleted) -> str:
    parts = []
    if known(done, "digest"):
        parts.append(f"digest {code(done.digest)}")
    for name, what in (("shard_count", "shard"), ("tensor_count", "tensor"), ("parameter_count", "parameter")):
        if (count := known(done, name)) is not None:
            parts.append(counted(count, what))
    if (size := known(done, "total_size")) is not None:
        parts.append(f"{size:,} bytes of tensors")
    if done.dtypes:
        parts.append(f"types {listed(map(code, done.dtypes))}")
    if done.HasField("tied_weights"):
        parts.append("with tied weights" if done.tied_weights else "without tied weights")
    before, after = known(done, "checkpoint_digest_before"), known(done, "checkpoint_digest_after")
    if before and after:
        same = (
            "the checkpoint's digest the same before and after"
            if before == after
            else (f"the checkpoint's digest {code(before)} before and {code(after)} after")
        )
        parts.append(same)
    return f": {', '.join(parts)}" if parts else ""


def _verified(export: runs_pb2.Export) -> Parts:
    if not export.HasField("verified_pos"):
        for claim in verification_claims(export):
            yield said(
                f"That the export {code(export.id)} was verified is only claimed: {prose(claim.claim.statement)}",
                claim.pos,
            )
        yield Missing(f"a verification of the export {code(export.id)} with its numbers")
        return
    n = export.numbers
    in_names = f", {n.shards_in_names:,} in their names" if n.HasField("shards_in_names") else ""
    yield said(
        f"The export {code(export.id)} was verified: {counted(n.shard_files, 'shard file')}, {n.shards_named:,} named "
        f"in the index{in_names}; index total size {n.index_total_size:,}, bytes of tensors {n.tensor_bytes:,}; "
        f"{n.tensors_in_index:,} tensors in the index, {n.tensors_in_shards:,} in shards; {len(n.ghost_tensors):,} in "
        f"the index alone, {len(n.unlisted_tensors):,} in shards alone",
        export.verified_pos,
    )
    if export.checks:
        checks = listed(f"{code(check.name)} {words(check.outcome)}" for check in export.checks)
        yield said(f"The checks of the export {code(export.id)}: {checks}", export.verified_pos)


def _published(export: runs_pb2.Export, model: runs_pb2.PublishedModel) -> Parts:
    commit = f"at commit {code(model.commit)}" if known(model, "commit") else "with no commit named"
    parts = [f"The export {code(export.id)} was published as {code(model.repository)} {commit}"]
    if known(model, "published_at"):
        parts.append(f"dated {code(model.published_at)}")
    if known(model, "license"):
        parts.append(f"licence {code(model.license)}")
    if known(model, "base_license"):
        parts.append(f"the base's licence {code(model.base_license)}")
    if model.tags:
        parts.append(f"tags {listed(map(code, model.tags))}")
    yield said(", ".join(parts), model.pos)
    if known(model, "license") is None:
        yield Missing(f"the licence of {code(model.repository)}")
    if model.HasField("files_agree"):
        agree = "are those that were verified" if model.files_agree else "are not those that were verified"
        behind = export.verified_pos if export.HasField("verified_pos") else None
        yield derived(f"The files published as {code(model.repository)} {agree}", model.pos, behind)


def hosting(record: Record) -> Parts:
    for export in record.exports:
        for seen in export.hosting:
            yield from _seen(record, export, seen)
        yield from _disagreements(export)


def _seen(record: Record, export: runs_pb2.Export, seen: runs_pb2.Hosting) -> Parts:
    when = f"on {code(seen.observed_at)}" if known(seen, "observed_at") else "on a day that is not named"
    where = f", at {code(seen.source_url)}" if known(seen, "source_url") else ""
    fields = [f"the {words(item.field)} {prose(item.value)}" for item in seen.observations]
    if fields:
        yield said(f"The third party {code(seen.host)} showed, {when}{where}: {listed(fields)}", seen.pos)
    for item in seen.observations:
        for beside, pos in _beside(record, export, item.field.lower()):
            yield derived(
                f"The {words(item.field)} {prose(item.value)} of {code(seen.host)} stands beside {beside}; "
                "both are kept",
                seen.pos,
                pos,
            )


def _beside(record: Record, export: runs_pb2.Export, field: str) -> list[tuple[str, int]]:
    """What is recorded of the same thing, with its event."""
    declared = record.run.declared
    if "context" in field and declared.HasField("rl_start"):
        found = _CONTEXT_NAME.search(declared.rl_start.name)
        named = [(f"an RL start whose name says {found.group()}", record.declared)] if found else []
        longest = known(declared.algorithm, "max_input_length")
        return named + ([(f"an input of at most {longest:,} tokens in training", record.declared)] if longest else [])
    done = export.completed_pos if export.HasField("completed_pos") else None
    if "quant" in field and export.completed.dtypes and done is not None:
        return [(f"an export in {listed(map(code, export.completed.dtypes))}", done)]
    if field.endswith("size") and export.completed.HasField("parameter_count") and done is not None:
        return [(f"{number(export.completed.parameter_count)} parameters", done)]
    if "published" in field:
        dated = [m for m in export.models if known(m, "published_at")]
        return [(f"a publication of {code(m.repository)} dated {code(m.published_at)}", m.pos) for m in dated]
    return []


def _disagreements(export: runs_pb2.Export) -> Parts:
    """The same field, seen otherwise elsewhere or at another time."""
    seen: dict[str, dict[str, int]] = defaultdict(dict)
    for page in export.hosting:
        for item in page.observations:
            seen[item.field].setdefault(item.value, page.pos)
    for field, values in seen.items():
        if len(values) > 1:
            told = listed(prose(value) for value in values)
            yield derived(f"Of the {words(field)} third parties show {told}, which are all kept", *values.values())
