"""What stands against a verification: each number that does not add up, each difference from what was completed.

"Verified" is said only of what was checked: a check that failed refuses it, and a required one that was not made too.
What is recorded as it happens names every required check; a card or an import may have kept fewer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.core.errors import Problem
from ledger.rules.training_1 import export_reading
from ledger.rules.training_1.model import Export, Fact, Facts

REQUIRED: Final = frozenset({"index_parses", "shards_present", "weight_map_complete", "total_size", "not_truncated"})
"""Without the checks by these names nothing says that the files are whole."""

MOST_NAMED: Final = 5


def against_verification(said: export_reading.ExportVerified, facts: Facts) -> Iterator[Problem]:
    yield from _numbers(said.numbers)
    yield from _checks(said)
    yield from _of_what(said, facts.export)


def _numbers(numbers: export_reading.IndexNumbers) -> Iterator[Problem]:
    """The index and the shards say the same of each other."""
    for name, value, other, words in (
        ("index_total_size", numbers.index_total_size, numbers.tensor_bytes, "the shards hold {} bytes of tensors"),
        ("tensors_in_index", numbers.tensors_in_index, numbers.tensors_in_shards, "the shards hold {} tensors"),
        ("shards_named", numbers.shards_named, numbers.shard_files, "{} shard files are there"),
        ("shards_in_names", numbers.shards_in_names, numbers.shard_files, "{} shard files are there"),
    ):
        if value is not None and value != other:
            yield Problem(f"/numbers/{name}", f"is {value}, and {words.format(other)}")
    if numbers.ghost_tensors:
        yield Problem(
            "/numbers/ghost_tensors", f"the index names tensors that no shard holds: {_few(numbers.ghost_tensors)}"
        )
    if numbers.unlisted_tensors:
        message = f"shards hold tensors that the index does not name: {_few(numbers.unlisted_tensors)}"
        yield Problem("/numbers/unlisted_tensors", message)
    for name in ("shard_files", "tensors_in_shards", "parameter_count"):
        if getattr(numbers, name) == 0:
            yield Problem(f"/numbers/{name}", "is 0: nothing was exported")


def _few(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _checks(said: export_reading.ExportVerified) -> Iterator[Problem]:
    for place, check in enumerate(said.checks):
        if check.outcome == "failed":
            where = "".join(f", {what}" for what in (check.tensor, check.file, check.detail) if what)
            yield Problem(f"/checks/{place}", f"the check {check.name} failed{where}")
        elif check.outcome == "not_checked" and check.name in REQUIRED:
            yield Problem(
                f"/checks/{place}", f"the check {check.name} was not made, and nothing is verified without it"
            )
    left_out = REQUIRED - {check.name for check in said.checks}
    if said.basis is None and left_out:
        message = f"required checks were left out, and nothing is verified without them: {', '.join(sorted(left_out))}"
        yield Problem("/checks", message)
    elif not any(check.outcome == "passed" for check in said.checks):
        yield Problem("/checks", "no check passed")


def _of_what(said: export_reading.ExportVerified, export: Export) -> Iterator[Problem]:
    """It verifies an export that was started and completed, as it was completed."""
    if not export.started:
        yield Problem("/export_id", "this export was never started: record from which checkpoint it was made")
    if not export.completed:
        yield Problem("/export_id", "this export was not completed: record its files first")
        return
    completed = export.completed[-1]
    yield from _same_files(said, completed)
    for name, number in (
        ("shard_count", said.numbers.shard_files),
        ("total_size", said.numbers.tensor_bytes),
        ("tensor_count", said.numbers.tensors_in_shards),
        ("parameter_count", said.numbers.parameter_count),
    ):
        known = getattr(completed.said, name)
        if known is not None and number is not None and known != number:
            yield Problem(f"/numbers/{_NUMBER[name]}", f"is {number}, and the export was completed with {name} {known}")
    before, after = completed.said.checkpoint_digest_before, completed.said.checkpoint_digest_after
    if before is not None and after is not None and before != after:
        message = f"exporting changed the checkpoint: its digest was {before} before and {after} after"
        yield Problem("/export_id", message)


_NUMBER: Final = {
    "shard_count": "shard_files",
    "total_size": "tensor_bytes",
    "tensor_count": "tensors_in_shards",
    "parameter_count": "parameter_count",
}


def _same_files(
    said: export_reading.ExportVerified, completed: Fact[export_reading.ExportCompleted]
) -> Iterator[Problem]:
    known = completed.said
    if said.digest is not None and known.digest is not None and said.digest != known.digest:
        yield Problem("/digest", f"is {said.digest}, and the export was completed as {known.digest}")
    digests = {file.path: file.sha256 for file in known.files if file.sha256 is not None}
    for place, file in enumerate(said.files):
        other = digests.get(file.path)
        if file.sha256 is not None and other is not None and other != file.sha256:
            yield Problem(f"/files/{place}/sha256", f"{file.path} is {file.sha256}, and it was completed as {other}")
