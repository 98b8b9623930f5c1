"""Attestations: what was found on both sides of a comparison, turned into one event a source.

A claim holds digests and object ids, never a verdict: whether something is unchanged is for the rules to compare. Its
evidence is stored with it: the comparison as JSON, and the files where they are small enough to matter. The latest of a
kind and subject counts: attesting what stands already is that attestation, and attesting what another one has
superseded since is a new one.

    claim = implementation_claim(Path("old/make_review.py"), Path("make_review.py"), ["load_tasks"])
    writer.publish(plan_attestations(claim, ["MarinSkyRL:svamp"], by=me))
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from ledger.client import faults
from ledger.client.drafts import Actor, Publication, Upload, draft
from ledger.client.evidence import upload_of
from ledger.client.implementation import compare
from ledger.core import strictjson
from ledger.core.errors import InvalidInput, LedgerError, NotFound, Problem, Refused
from ledger.core.ids import digest_id
from ledger.events.attestations import (
    AttestationKind,
    AttestationRecorded,
    ChangeValidation,
    ComparedFile,
    ComparedObject,
    DatasetRevision,
    GradingApplicability,
    NativeRevision,
    Selection,
)
from ledger.events.fields import ArtifactRef
from ledger.events.wording import words

SCOPES: Final[Mapping[str, str]] = {
    "execution_implementation": "The parsed definitions under the named roots of one script, with what they mention "
    "and import. Not the code of imported modules, external services, task data, settings or judgments.",
    "dataset_revision": "The bytes of the named data files, and the selection of rows as it is stated. "
    "Not the verifier.",
    "native_revision": "The git objects of the named paths at both commits. Not third-party packages, "
    "nor what else ran.",
    "grading_applicability": "The grading programs of the named routes against the manifest. Not what is unchecked.",
}
MAX_NAMED: Final = 10
"""So many differences are named in a sentence."""
_EVENT: Final = "attestation.recorded"
_GIT: Final = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
"""A checkout's own settings must not run anything here."""


@dataclass(frozen=True)
class Claim:
    """What an attestation says, and the evidence for it."""

    kind: AttestationKind
    subject: str
    said: BaseModel
    differences: tuple[str, ...]
    """What is not the same on both sides, by name."""
    evidence: tuple[ArtifactRef, ...]
    uploads: tuple[Upload, ...]

    @property
    def finding(self) -> str:
        """What the comparison shows, for people; the rules make their own of what it says."""
        if not self.differences:
            return "unchanged"
        more = f" and {len(self.differences) - MAX_NAMED} more" if len(self.differences) > MAX_NAMED else ""
        return f"changed: {', '.join(self.differences[:MAX_NAMED])}{more}"


@dataclass(frozen=True)
class Previous:
    """What was attested of a source before, of one kind and subject."""

    latest: str
    """The id of the latest event, whether it counts or not: what is attested next comes after it."""
    standing: tuple[str, AttestationRecorded] | None
    """The id and the content of the one that counts; None if none does, or nothing is known of what it says."""


def plan_attestations(
    claim: Claim,
    source_ids: Iterable[str],
    *,
    by: Actor,
    attested_at: str | None = None,
    context: Mapping[str, Any] | None = None,
    previous: Mapping[str, Previous] | None = None,
    principal: str | None = None,
) -> Publication:
    """One event a source, all citing the same evidence. An unknown moment of the attestation stays unknown.

    Args:
        previous: What was attested before of the claim's kind and subject, by source; nothing of one that is left out.

    Raises:
        pydantic.ValidationError: if a source id or the moment is none.
    """
    drafts = []
    for source_id in dict.fromkeys(source_ids):
        payload = AttestationRecorded.model_validate(
            {
                "source_id": source_id,
                "kind": claim.kind,
                "subject": claim.subject,
                "evidence": list(claim.evidence),
                "scope": SCOPES[claim.kind],
                "attested_at": attested_at,
                claim.kind: claim.said,
                "context": dict(context or {}),
            }
        )
        stream = f"source/{source_id}"
        event_id = _event_id(payload, (previous or {}).get(source_id), principal)
        drafts.append(draft(_EVENT, stream, payload, by=by, id=event_id))
    summary = f"{claim.kind}: {claim.subject}: {claim.finding}"
    return Publication(parts=tuple(drafts), uploads=claim.uploads, summary=summary)


def _event_id(payload: AttestationRecorded, previous: Previous | None, principal: str | None) -> str:
    """The id of the attestation that stands, where it says the same; else one that follows the latest."""
    if previous is not None and previous.standing is not None and previous.standing[1] == payload:
        return previous.standing[0]
    text = payload.model_dump_json(exclude_defaults=True)
    latest = previous.latest if previous is not None else None
    return digest_id(principal, f"source/{payload.source_id}", _EVENT, text, latest)


def implementation_claim(
    old: Path,
    new: Path,
    roots: Iterable[str],
    *,
    script: str | None = None,
    validation: ChangeValidation | None = None,
    validated: Iterable[Upload] = (),
) -> Claim:
    """Two versions of a script, compared under some roots.

    Raises:
        LedgerError: as `ledger.client.implementation.compare`; also if a file cannot be read.
    """
    name = script or new.name
    before, after = _bytes(old), _bytes(new)
    said = compare(before, after, roots, script=name, validation=validation)
    comparison = said.model_copy(update={"validation": None})
    files = {f"original/{name}": upload_of(before), f"executed/{name}": upload_of(after)}
    return Claim(
        kind="execution_implementation",
        subject=f"{name} {said.original_sha256[:12]} to {said.executed_sha256[:12]}",
        said=said,
        differences=tuple(d.name for d in said.definitions if d.original_sha256 != d.executed_sha256),
        **_evidence(comparison, files, also=validated),
    )


def dataset_claim(
    executed_revision: str,
    current_revision: str,
    pairs: Sequence[tuple[str, Path, Path]],
    selection: Selection | None = None,
) -> Claim:
    """Data files at the executed and at a later revision, as (name, executed file, current file); all are hashed here.

    Raises:
        InvalidInput: reason INVALID_FILE, if a file cannot be read.
        pydantic.ValidationError: if a revision or a name is none.
    """
    files = [_compared_file(*pair) for pair in pairs]
    said = DatasetRevision(
        executed_revision=executed_revision, current_revision=current_revision, files=files, selection=selection
    )
    differing = [f.path for f in files if f.executed_sha256 != f.current_sha256]
    return Claim(
        kind="dataset_revision",
        subject=f"dataset {executed_revision} to {current_revision}",
        said=said,
        differences=(*differing, *_selection_differences(selection)),
        **_evidence(said, {}),
    )


def native_claim(
    checkout: Path, reviewed: str, registry: str, paths: Sequence[str], *, dirty_too: bool = False
) -> Claim:
    """The git objects of some paths at the commit that was executed and at the one that the catalogue names.

    Args:
        dirty_too: Record a checkout with uncommitted changes as dirty, rather than refuse it.

    Raises:
        Refused: if the checkout is dirty.
        NotFound: if a commit is not there, or a path at neither commit.
    """
    dirty = bool(_git(checkout, "status", "--porcelain", "--untracked-files=normal"))
    if dirty and not dirty_too:
        raise Refused(
            f"the checkout {checkout} holds changes that no commit has",
            reason="CONDITION_FAILED",
            remedy="Commit or remove them. If the review ran on them, record it with --dirty: it then proves nothing.",
        )
    commits = [_commit(checkout, name) for name in (reviewed, registry)]
    objects = [_compared_object(checkout, path, *commits) for path in dict.fromkeys(paths)]
    said = NativeRevision(reviewed_commit=commits[0], registry_commit=commits[1], dirty=dirty, objects=objects)
    differing = [o.path for o in objects if o.reviewed_object != o.registry_object]
    return Claim(
        kind="native_revision",
        subject=f"native {commits[0]} to {commits[1]}",
        said=said,
        differences=(*differing, *(["uncommitted changes"] if dirty else [])),
        **_evidence(said, {}),
    )


def grading_claim(path: Path) -> Claim:
    """A grading record that was prepared as a file, in the fields of `GradingApplicability`.

    Raises:
        InvalidInput: reason INVALID_FILE, with every fault at "FILE#/json/pointer".
    """
    content = _bytes(path)
    try:
        strictjson.parse(content)
        said = GradingApplicability.model_validate_json(content)
    except InvalidInput as error:
        raise _bad_grading(path, [Problem(f"{path}#{p.place}", p.message) for p in error.problems]) from None
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        problems = [Problem(f"{path}#{strictjson.pointer(*f['loc'])}", words(f)) for f in found]
        raise _bad_grading(path, problems) from None
    differing = [p.route for p in said.programs if p.executed_sha256 != p.manifest_sha256]
    if said.manifest_sha256 != said.grading_revision:
        differing.append("the manifest")
    return Claim(
        kind="grading_applicability",
        subject=f"grading {said.review[:12]} at {said.grading_revision[:12]}",
        said=said,
        differences=tuple(differing),
        **_evidence(said, {path.name: upload_of(content)}),
    )


def _evidence(comparison: BaseModel, files: Mapping[str, Upload], also: Iterable[Upload] = ()) -> dict[str, Any]:
    """The comparison as JSON and the files: as a claim cites them, and as they are stored."""
    text = strictjson.dumps(comparison.model_dump(mode="json", exclude_none=True)) + b"\n"
    named = {"comparison.json": upload_of(text), **files}
    references = [
        ArtifactRef(name=name, sha256=u.sha256, size=u.size, media_type=_MEDIA_TYPES.get(Path(name).suffix))
        for name, u in named.items()
    ]
    uploads = {u.sha256: u for u in (*named.values(), *also)}
    return {"evidence": tuple(references), "uploads": tuple(uploads.values())}


_MEDIA_TYPES: Final = {".json": "application/json", ".py": "text/x-python"}


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise faults.unreadable(path, error) from None


def _compared_file(name: str, executed: Path, current: Path) -> ComparedFile:
    before, after = upload_of(executed), upload_of(current)
    size = before.size if before.size == after.size else None
    return ComparedFile(path=name, executed_sha256=before.sha256, current_sha256=after.sha256, size=size)


def _selection_differences(selection: Selection | None) -> Iterable[str]:
    if selection is None:
        return
    if selection.executed_selector != selection.current_selector:
        yield "the selector"
    if selection.executed_rows != selection.current_rows:
        yield "the number of selected rows"
    if selection.executed_rows_sha256 != selection.current_rows_sha256:
        yield "the selected rows"


def _bad_grading(path: Path, problems: list[Problem]) -> InvalidInput:
    remedy = (
        "Write what both sides hash to, as `ledger schema show attestation.recorded` has it under "
        "GradingApplicability; that they are equivalent is not for the file to say."
    )
    return faults.refused(path, "grading record", problems, remedy=remedy)


def _compared_object(checkout: Path, path: str, reviewed: str, registry: str) -> ComparedObject:
    before, after = (_git_object(checkout, f"{commit}:{path.strip('/')}") for commit in (reviewed, registry))
    if before is None and after is None:
        raise NotFound(f"{path} is at neither commit of {checkout}", remedy="Name paths from the checkout's root.")
    return ComparedObject(path=path, reviewed_object=before, registry_object=after)


def _commit(checkout: Path, name: str) -> str:
    found = _git_object(checkout, f"{name}^{{commit}}")
    if found is None:
        raise NotFound(f"{checkout} has no commit {name!r}", remedy="Fetch it, or name another.")
    return found


def _git_object(checkout: Path, name: str) -> str | None:
    """The id of what the name stands for; None if there is nothing of the name."""
    done = _run_git(checkout, "rev-parse", "--verify", "--quiet", "--end-of-options", name)
    return done.stdout.strip() if done.returncode == 0 else None


def _git(checkout: Path, *arguments: str) -> str:
    done = _run_git(checkout, *arguments)
    if done.returncode:
        raise InvalidInput(
            f"{checkout} is no checkout that git can read: {done.stderr.strip()}",
            reason="INVALID_FILE",
            remedy="Name the folder of a git checkout with --checkout.",
        )
    return done.stdout


def _run_git(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Variables that name another repository would answer for it; and nothing here may write to the checkout.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        return subprocess.run(  # noqa: S603  # a fixed program; what a caller names follows --end-of-options
            [*_GIT, "-C", str(checkout), *arguments],
            env=kept | {"GIT_OPTIONAL_LOCKS": "0"},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except FileNotFoundError:
        raise LedgerError("git is not there", reason="EXTRA_MISSING", remedy="Install git.") from None
