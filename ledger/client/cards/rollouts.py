"""What a card says of rollouts, their traces and the logs: how many came to what, and what was published of them.

That a dataset holds the rollouts the policy was trained on is said only where the counts leave no other reading: every
trial that was started was finished, verified, consumed, trained on and published whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from google.protobuf.message import Message

from ledger.client.cards.record import Record
from ledger.client.cards.text import (
    Missing,
    Parts,
    Said,
    cell,
    code,
    counted,
    derived,
    is_repository,
    known,
    listed,
    prose,
    row,
    said,
    table,
    words,
)
from ledger.wire import provenance_pb2, runs_pb2

STAGES: Final = ("started", "finished", "verified", "consumed", "trained", "published")
_HUB: Final = "https://huggingface.co/datasets/"
_EPISODES: Final = {
    "last": "of each trial the last episode, which after a summary of its context is the last part only",
    "all": "of each trial all episodes",
}
_OVERCLAIM: Final = re.compile(r"rollouts\W+(?:\w+\W+)?the\W+policy\W+was\W+trained\W+on", re.IGNORECASE)
_FILES_TOLD: Final = 50


def rollouts(record: Record) -> Parts:
    coverage = record.run.coverage
    counts = _counts(coverage)
    if counts and coverage.positions:
        masked = f", {coverage.masked:,} masked" if coverage.HasField("masked") else ""
        yield derived(f"Trials of the run: {counts}{masked}", *coverage.positions)
    else:
        yield Missing("how many trials were started, finished, verified, consumed and trained on")
        return
    if errors := [_error(error) for error in coverage.errors]:
        yield derived(f"Trials that ended with an error: {listed(errors)}", *coverage.positions)
    if groups := [_group(group) for group in coverage.groups]:
        yield derived(f"Groups of samples: {listed(groups)}", *coverage.positions)
    for limit in coverage.limits:
        yield derived(f"Of these counts: {prose(limit)}", *coverage.positions)


def _error(error: provenance_pb2.ErrorCount) -> str:
    treated = f" (treated as {words(error.treatment)})" if known(error, "treatment") else ""
    return f"{error.count:,} with {code(error.exception_type)}{treated}"


def _group(group: provenance_pb2.DispositionCount) -> str:
    reason = f" for the reason {prose(group.reason)}" if known(group, "reason") else ""
    samples = f" ({counted(group.samples, 'sample')})" if group.HasField("samples") else ""
    return f"{group.groups:,} {words(group.disposition)}{samples}{reason}"


def traces(record: Record) -> Parts:
    if not record.run.traces:
        yield Missing("a dataset of traces")
    for published in record.run.traces:
        episodes = f": {_EPISODES[published.episodes]}" if published.episodes in _EPISODES else ""
        yield said(f"Rollouts of the run were published as the dataset {_dataset(published)}{episodes}", published.pos)
        yield from _coverage(published)
        yield from _contents(published)


def _dataset(published: runs_pb2.Published) -> str:
    commit = f" at commit {code(published.commit)}" if known(published, "commit") else ", no commit named"
    url = known(published, "url")
    on_hub = is_repository(published.repository) and (url is None or url.startswith("https://huggingface.co/"))
    if on_hub:
        return f"[{code(published.repository)}]({_HUB}{published.repository}){commit}"
    return code(published.repository) + (f", {code(url)}" if url else "") + commit


def _coverage(published: runs_pb2.Published) -> Parts:
    name = code(published.repository)
    counts = _counts(published.coverage)
    if not counts:
        yield Missing(f"how many of the trials the rows of {name} cover")
        return
    yield said(f"Trials behind {name}: {counts}", published.pos)
    unknown = [stage for stage in STAGES if not published.coverage.HasField(stage)]
    if unknown:
        yield Missing(f"how many trials behind {name} were {listed(unknown)}")
    if _is_whole(published):
        yield derived(f"{name} holds the rollouts the policy was trained on, every one of them", published.pos)
    else:
        yield derived(
            f"The counts do not show that the rows of {name} are those that trained the policy",
            published.pos,
        )


def _is_whole(published: runs_pb2.Published) -> bool:
    """Nothing was left out on the way from the first trial to the last row."""
    coverage = published.coverage
    if published.episodes != "all" or not all(coverage.HasField(stage) for stage in STAGES):
        return False
    counts = {getattr(coverage, stage) for stage in STAGES}
    return len(counts) == 1 and counts != {0}


def _counts(coverage: Message) -> str:
    """What is counted, stage by stage; a count that nobody made is left out."""
    stages = [stage for stage in STAGES if coverage.HasField(stage)]
    return listed(f"{getattr(coverage, stage):,} {stage}" for stage in stages) if stages else ""


def logs(record: Record) -> Parts:
    if not record.run.logs:
        yield Missing("a publication of the training logs")
    for published in record.run.logs:
        commit = f" at commit {code(published.commit)}" if known(published, "commit") else ", no commit named"
        yield said(f"Training logs were published in {code(published.repository)}{commit}", published.pos)
        yield from _contents(published)
        if not published.redactions:
            if known(published, "redaction_stated"):
                yield said("That secrets were removed from the logs is stated, without counts", published.pos)
            else:
                yield Missing(f"whether secrets were removed from the logs in {code(published.repository)}")


def _contents(published: runs_pb2.Published) -> Parts:
    first = published.files[:_FILES_TOLD]
    if bare := [code(file.path) for file in first if not known(file, "sha256")]:
        yield said(f"Published in {code(published.repository)} without a digest: {listed(bare)}", published.pos)
    whole = [file for file in first if known(file, "sha256")]
    yield from table((f"File in {cell(published.repository)}", "Bytes", "SHA-256"), _rows(whole, published.pos))
    if len(published.files) > _FILES_TOLD:
        yield said(f"{len(published.files) - _FILES_TOLD:,} more files are listed by the event", published.pos)
    if published.redactions:
        told = listed(f"{r.count:,} of the shape {code(r.shape)}" for r in published.redactions)
        yield said(f"Secrets were replaced before publication: {told}", published.pos)


def _rows(files: Iterable[provenance_pb2.FileDigest], pos: int) -> Iterator[Said]:
    for file in files:
        size = f"{file.size:,}" if file.HasField("size") else "not named"
        yield row([cell(file.path), size, cell(file.sha256)], pos)


def quoted(statement: str) -> str:
    """A claim's words, less the one claim that counts alone can carry."""
    if _OVERCLAIM.search(statement):
        return "more of the published rollouts than the counts show; its words stand in the event"
    return prose(statement)
