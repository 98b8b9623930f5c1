"""What checks came to, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ledger.client.exports.checks import Checked, check_export
from ledger.client.exports.places import Folder
from ledger.events.exports import Check

ALL = (
    "index_parses", "shards_present", "weight_map_complete", "total_size", "not_truncated", "base_tensors",
    "parameter_count", "file_digests", "differs_from_base",
)  # fmt: skip


def outcomes(checked: Checked) -> dict[str, str]:
    return {c.name: c.outcome for c in checked.checks}


def check_of(checked: Checked, name: str) -> Check:
    return next(c for c in checked.checks if c.name == name)


def first_failed(folder: Path, **options: Any) -> tuple[str, str | None, str | None]:
    checked = check_export(Folder(folder), **options)
    assert not checked.is_verified
    assert checked.why_not
    assert len(checked.checks) == len(ALL)
    first = checked.failed[0]
    return first.name, first.tensor, first.file
