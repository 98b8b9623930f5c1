"""The event that says where a trace dataset was published: its digest and its counts are those of the files.

That they lie in the repository is what whoever records it says; nobody looked there, and its basis says so.
"""

from __future__ import annotations

from typing import Any

from ledger.client.facts import Fact
from ledger.client.recording.files import MAX_FILES
from ledger.core.errors import InvalidInput
from services.adapters.traces.datasets import Built
from services.adapters.traces.manifests import TOOL


def published(
    built: Built, repository: str, *, commit: str | None = None, url: str | None = None, run_id: str | None = None
) -> Fact:
    """`traces.published`, of the run that the rows are of.

    Raises:
        InvalidInput: reason USAGE, if that is not one run.
    """
    said = built.manifest
    files = [file.model_dump() for file in built.files.files]
    payload: dict[str, Any] = {
        "run_id": run_of(said["runs"], run_id),
        "repository": repository,
        "commit": commit,
        "url": url,
        "episodes": said["episodes"],
        "coverage": said["coverage"],
        "files": files if len(files) <= MAX_FILES else [],
        "digest": built.files.digest,
        "redactions": [{"shape": shape, "count": count} for shape, count in said["redactions"].items()],
        "tool": {"role": "data_tools", "name": TOOL, "version": said["tool"]["version"]},
        "basis": {
            "kind": "claimed",
            "note": "Digest and counts are of the files as they were built here; that they were published is claimed.",
        },
    }
    return Fact(type="traces.published", payload=payload)


def run_of(runs: list[str], asked: str | None) -> str:
    """The run that an event about the rows is of."""
    if asked is not None:
        return asked
    if len(runs) != 1:
        raise InvalidInput(
            f"the rows are of {len(runs)} runs" if runs else "the rows do not say of which run they are",
            reason="USAGE",
            remedy="Name the run as --run: what was published is recorded of one.",
        )
    return runs[0]
