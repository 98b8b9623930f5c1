"""A consumption receipt: what the ledger said of a run's sources when it began, in one JSON file to keep beside it.

- It holds the size and the root of the log, so that whoever has the log can check that it said so. The same answer
  gives the same bytes: nothing in it is of the moment or the machine that wrote it.
- It is written also when a source did not pass: that somebody trained all the same is worth knowing later.
- `run.declared` cites it: `ArtifactRef` as `consumption_receipt`, the size as `consumption_size`.

    answer = Runs(connection).check(["MarinSkyRL:svamp"], require="good")
    written = write_receipt(Path("consumption.json"), receipt_of(answer))
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ledger.client import faults
from ledger.client.messages import coordinates_dict, to_dict
from ledger.client.whole import whole
from ledger.core import strictjson
from ledger.core.errors import InvalidInput, LedgerError, Problem
from ledger.core.ids import sha256_hex
from ledger.events.fields import ArtifactRef
from ledger.wire import audit_pb2, runs_pb2

FORMAT: Final = "atlas-ledger/consumption-receipt/1"
_COORDINATES: Final = ("size", "recorded_at", "rules", "rules_digest", "policy_size")
_NEEDED: Final = frozenset({"format", "origin", "root_hash", "require", "passed", "verdicts", *_COORDINATES})
_SOURCE: Final = ("dataset_revision", "verifier_revision", "quality", "applicability", "retired", "sample")
_DEFECT: Final = ("id", "kind", "summary")
_SOLVED: Final = ("model", "size", "solved", "verified")


@dataclass(frozen=True)
class Written:
    """A receipt that lies in a file."""

    path: Path
    sha256: str
    bytes: int
    size: int
    """Of the ledger that it speaks of."""

    @property
    def ref(self) -> ArtifactRef:
        """How an event cites it."""
        return ArtifactRef(name=self.path.name, sha256=self.sha256, size=self.bytes, media_type="application/json")


def receipt_of(
    answer: runs_pb2.CheckResponse,
    *,
    dataset_revisions: Mapping[str, str] | None = None,
    verifier_revisions: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What the ledger answered, with the revisions that were to be consumed where the question named them."""
    where = coordinates_dict(answer.coordinates)
    named = {"dataset_revision": dataset_revisions or {}, "verifier_revision": verifier_revisions or {}}
    return {
        "format": FORMAT,
        "origin": answer.origin,
        "root_hash": answer.root_hash,
        **{name: where[name] for name in _COORDINATES},
        "require": answer.require,
        "passed": answer.passed,
        "verdicts": [_verdict(one, named) for one in answer.verdicts],
    }


def write_receipt(path: Path, receipt: Mapping[str, Any]) -> Written:
    """Writes it whole, or not at all, and gives its digest.

    Raises:
        InvalidInput: reason USAGE, if the file cannot be written.
    """
    content = json.dumps(receipt, indent=2, sort_keys=True).encode() + b"\n"
    with whole(path) as file:
        file.write(content)
    return Written(path, sha256_hex(content), len(content), receipt["size"])


def read_receipt(path: Path) -> dict[str, Any]:
    """A receipt as it was written.

    Raises:
        InvalidInput: reason INVALID_FILE, if it is none.
    """
    try:
        found = strictjson.parse(path.read_bytes())
    except OSError as error:
        raise faults.unreadable(path, error) from error
    except LedgerError as error:
        raise _no_receipt(path, list(error.problems) or [Problem("", error.message)]) from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise _no_receipt(path, [Problem("/format", f"is not {FORMAT}")])
    if absent := sorted(_NEEDED - found.keys()):
        raise _no_receipt(path, [Problem(f"/{name}", "is missing") for name in absent])
    return found


def _no_receipt(path: Path, problems: list[Problem]) -> InvalidInput:
    return faults.refused(path, "consumption receipt", problems, remedy="`ledger check --receipt` writes one.")


def _verdict(one: runs_pb2.SourceVerdict, named: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    return {
        "source_id": one.source_id,
        "passed": one.passed,
        "consumed": {name: given.get(one.source_id) for name, given in named.items()},
        "shown": _shown(one.source) if one.HasField("source") else None,
        "reasons": list(one.reasons),
        "warnings": list(one.warnings),
    }


def _shown(source: audit_pb2.Source) -> dict[str, Any]:
    """What was shown of the source: enough to see later what has turned since."""
    whole = to_dict(source)
    defects = [_picked(defect, _DEFECT) for defect in whole["open_defects"]]
    rates = [_picked(model, _SOLVED) for model in whole["difficulty"]["models"]]
    difficulty = {"status": whole["difficulty"]["status"], "models": rates}
    return _picked(whole, _SOURCE) | {"difficulty": difficulty, "open_defects": defects}


def _picked(whole: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: whole[name] for name in names}
