"""What an attestation's own comparison shows, before anything is published that rests on it.

The rules decide what an attestation carries. This is the part that its author can know beforehand: whether what it
compares differs. A publication does not rest on a difference that nobody validated.
"""

from __future__ import annotations

from collections.abc import Iterable

from ledger.events.attestations import (
    AttestationRecorded,
    DatasetRevision,
    ExecutionImplementation,
    GradingApplicability,
    NativeRevision,
    Selection,
)


def differences(attestation: AttestationRecorded) -> list[str]:
    """What is known to differ on the two sides, by name; changed code that was validated is no difference any more."""
    claims = (
        _native(attestation.native_revision),
        _dataset(attestation.dataset_revision),
        _grading(attestation.grading_applicability),
        _implementation(attestation.execution_implementation),
    )
    return [name for claim in claims for name in claim]


def _native(claim: NativeRevision | None) -> Iterable[str]:
    for found in claim.objects if claim is not None else ():
        if (
            None not in {found.reviewed_object, found.registry_object}
            and found.reviewed_object != found.registry_object
        ):
            yield found.path


def _dataset(claim: DatasetRevision | None) -> Iterable[str]:
    if claim is None:
        return
    yield from (file.path for file in claim.files if file.executed_sha256 != file.current_sha256)
    if claim.selection is not None and _selects_otherwise(claim.selection):
        yield "the selection"


def _selects_otherwise(selection: Selection) -> bool:
    hashes = {selection.executed_rows_sha256, selection.current_rows_sha256} - {None}
    return (
        selection.executed_selector != selection.current_selector
        or selection.executed_rows != selection.current_rows
        or len(hashes) > 1
    )


def _grading(claim: GradingApplicability | None) -> Iterable[str]:
    if claim is None:
        return
    if claim.manifest_sha256 != claim.grading_revision:
        yield "the manifest"
    for program in claim.programs:
        both = {program.executed_sha256, program.manifest_sha256}
        if None not in both and len(both) > 1:
            yield program.route


def _implementation(claim: ExecutionImplementation | None) -> Iterable[str]:
    if claim is None or claim.validation is not None:
        return
    changed = [found.name for found in claim.definitions if found.original_sha256 != found.executed_sha256]
    yield from changed
    if not changed and claim.original_closure_sha256 != claim.executed_closure_sha256:
        yield "the closure"
