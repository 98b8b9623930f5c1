"""What `ledger demo` records: the real inventory, three real stories of runs, and sample documents of made-up reviews.

The inventory is public fact, and the stories are what public pages claim, each fact with its basis: neither bears a
sample tag. Everything after them was made up, and every event of it is tagged `sample`. Ids and dates are fixed, so
recording the plan twice changes nothing. The order matters: a review comes before the defect that demotes it, and the
fix before the resolution.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pydantic import BaseModel

from ledger.client.catalogue import InventoryRevision, inventory_artifact, plan_import, plan_revision, read_inventory
from ledger.client.difficulty import plan_difficulty
from ledger.client.drafts import Draft, Publication, Upload, actor, draft
from ledger.client.evidence import upload_of
from ledger.client.facts import plan_facts, read_facts
from ledger.client.reviews import covered_verifier, plan_review, read_review
from ledger.core.ids import digest_id
from ledger.events.catalogue import CatalogueRow
from ledger.events.defects import (
    Control,
    DefectConfirmed,
    DefectResolved,
    DefectSuspected,
    DefectValidationRecorded,
    Replay,
)
from ledger.events.fields import SAMPLE_TAG, ArtifactRef
from ledger.wire.log_pb2 import Producer

PRODUCER: Final = "ledger-demo"
DEMO: Final = actor(PRODUCER, "organization")
DATA: Final = Path(__file__).parent / "demo_data"
INVENTORY: Final = DATA / "atlas-sources-2026-09-29.jsonl"
CHECKED_AT: Final = "2026-09-29T19:05:19.751082Z"
REVISIONS: Final[Mapping[str, InventoryRevision]] = MappingProxyType(
    {
        "MarinSkyRL": InventoryRevision("bb6494e678ffaa1e6bd3967e221d1a67b038757e", "2026-09-29T18:47:50Z"),
        "Task Trove": InventoryRevision("9065fa568394f286dab0081e43dc76fc87c48984", "2026-09-19T15:41:18Z"),
    }
)
"""What the inventory's owner says of each origin; see demo_data/README.md."""

STORIES: Final = ("tasktrove-dq-taco", "a3-rl-e2egit-large", "ablation-pymethods2test")
"""Files of facts in demo_data/runs, in the order in which they are recorded."""
TACO: Final = "tasktrove-dq-taco"
E2EGIT: Final = "a3-rl-DCAgent_exp_rpt_e2egit-large"
PYMETHODS: Final = "ablation-pymethods2test-seqmean-arm0-tis"

SVAMP: Final = "MarinSkyRL:svamp"
GSM8K: Final = "MarinSkyRL:gsm8k"
APPS: Final = "MarinSkyRL:apps"
ASDIV: Final = "MarinSkyRL:asdiv"
AIME24: Final = "MarinSkyRL:aime24"
DEEPSCALER: Final = "MarinSkyRL:deepscaler"

SAMPLE_REVISION: Final = "5a" * 20
"""Of the one source whose row the demonstration changes: no real commit reads like this."""


def demo_publications() -> list[Publication]:
    """Everything that the demonstration records, in order."""
    rows = {row.id: row for row in read_inventory(INVENTORY)}
    imported = _imported(rows.values())
    samples = [
        *_good_with_a_current_difficulty(rows[SVAMP]),
        *_some_issues_and_a_suspicion(rows[GSM8K]),
        _reviewed(rows[APPS], "apps-bad"),
        *_good_until_a_defect_was_confirmed(rows[ASDIV]),
        *_good_again_after_a_fix(rows[AIME24]),
        *_stale_since_a_revision(rows, imported),
    ]
    _count(made for sample in samples for made in sample.drafts)
    return [*imported, *map(_story, STORIES), *samples]


def _count(drafts: Iterable[Draft]) -> None:
    """Numbers the samples as their producer's, so that a reader can tell that none is missing."""
    for number, made in enumerate(drafts, start=1):
        made.producer.CopyFrom(Producer(id=PRODUCER, epoch=1, seq=number))


def _imported(rows: Iterable[CatalogueRow]) -> list[Publication]:
    ref, upload = inventory_artifact(INVENTORY)
    return plan_import(
        rows,
        {},
        by=DEMO,
        partial=False,
        base={},
        inventory=ref,
        uploads=[upload],
        revisions=REVISIONS,
        checked_at=CHECKED_AT,
    )


def _story(name: str) -> Publication:
    """What public pages say of a run: claims with their basis, and no series, since none is published."""
    found = read_facts(DATA / "runs" / f"{name}.json")
    return plan_facts(found.facts, by=DEMO, summary=f"{name}: {len(found.facts)} facts that pages claim")


def _good_with_a_current_difficulty(row: CatalogueRow) -> Iterator[Publication]:
    yield _reviewed(row, "svamp-good")
    yield _measured(row, "svamp-earlier-protocol")
    yield _measured(row, "svamp")


def _some_issues_and_a_suspicion(row: CatalogueRow) -> Iterator[Publication]:
    yield _reviewed(row, "gsm8k-some-issues")
    suspicion = DefectSuspected(
        defect="sample-suspicion",
        kind="verifier",
        summary="Sample: an answer with a thousands separator may be graded as wrong. Nobody has reproduced it.",
    )
    yield _event(row, "defect.suspected", suspicion)


def _good_until_a_defect_was_confirmed(row: CatalogueRow) -> Iterator[Publication]:
    yield _reviewed(row, "asdiv-good")
    yield _measured(row, "asdiv")
    failing, upload = _evidence("asdiv-native-input.json")
    confirmed = DefectConfirmed(
        defect="sample-open-defect",
        kind="verifier",
        summary="Sample: a right answer that names its unit is graded as wrong.",
        native_inputs=[failing],
        expected="Reward 1: the answer is right.",
        observed="Reward 0.",
        reproduction="Grade the saved input with the native verifier.",
        issue_state="missing",
        issue_url=None,
        dataset_revision=row.dataset_revision,
        verifier_revision=row.verifier_revision,
    )
    yield _event(row, "defect.confirmed", confirmed, upload)


def _good_again_after_a_fix(row: CatalogueRow) -> Iterator[Publication]:
    defect = "sample-resolved-defect"
    yield _reviewed(row, "aime24-good")
    yield _measured(row, "aime24-before-the-defect")
    failing, upload = _evidence("aime24-native-input.json")
    confirmed = DefectConfirmed(
        defect=defect,
        kind="verifier",
        summary="Sample: a wrong answer with leading zeros is rewarded.",
        native_inputs=[failing],
        expected="Reward 0: the answer is wrong.",
        observed="Reward 1.",
        reproduction="Grade the saved input with the native verifier.",
        issue_state="filed",
        issue_url="https://example.org/sample-issues/2",
        dataset_revision=row.dataset_revision,
        verifier_revision=row.verifier_revision,
    )
    yield _event(row, "defect.confirmed", confirmed, upload)
    fixed = _reviewed(row, "aime24-fix-validated")
    yield fixed
    validated = _validated(row, defect, failing)
    yield validated
    resolved = DefectResolved(defect=defect, validation=validated.parts[0].id, review=_review_of(fixed))
    yield _event(row, "defect.resolved", resolved)
    yield _reviewed(row, "aime24-good-again")


def _validated(row: CatalogueRow, defect: str, failing: ArtifactRef) -> Publication:
    seen, upload = _evidence("aime24-validation.json")
    validation = DefectValidationRecorded(
        defect=defect,
        dataset_revision=row.dataset_revision,
        verifier_revision=row.verifier_revision,
        replays=[Replay(input_sha256=failing.sha256, expected="Reward 0.", observed="Reward 0.", passed=True)],
        controls=[
            Control(kind="empty", expected="Reward 0.", observed="Reward 0.", passed=True),
            Control(kind="correct", expected="Reward 1.", observed="Reward 1.", passed=True),
        ],
        evidence=[seen],
    )
    return _event(row, "defect.validation_recorded", validation, upload)


def _stale_since_a_revision(rows: Mapping[str, CatalogueRow], imported: Iterable[Publication]) -> Iterator[Publication]:
    row = rows[DEEPSCALER]
    yield _reviewed(row, "deepscaler-good")
    synced = {p.closing.stream: p.closing.id for p in imported if p.closing is not None}
    yield plan_revision(
        row,
        by=DEMO,
        base=synced[f"origin/{row.origin}"],
        row_count=sum(other.origin == row.origin for other in rows.values()),
        verifier_revision=SAMPLE_REVISION,
        tags=[SAMPLE_TAG],
    )


def _reviewed(row: CatalogueRow, name: str) -> Publication:
    run = read_review(DATA / "reviews" / name, atlas_id=row.id)
    revision, basis = covered_verifier(run, catalogue=row.verifier_revision)
    return plan_review(run, by=DEMO, verifier_revision=revision, verifier_revision_basis=basis, tags=[SAMPLE_TAG])


def _review_of(publication: Publication) -> str:
    assert publication.closing is not None
    return str(json.loads(publication.closing.payload)["review"])


def _measured(row: CatalogueRow, name: str) -> Publication:
    return plan_difficulty(DATA / "difficulty" / f"{name}.json", source_id=row.id, by=DEMO, tags=[SAMPLE_TAG])


def _evidence(name: str) -> tuple[ArtifactRef, Upload]:
    upload = upload_of(DATA / "defects" / name)
    return ArtifactRef(name=name, sha256=upload.sha256, size=upload.size, media_type="application/json"), upload


def _event(row: CatalogueRow, type_: str, payload: BaseModel, *uploads: Upload) -> Publication:
    stream = f"source/{row.id}"
    event_id = digest_id(None, stream, type_, payload.model_dump_json(exclude_defaults=True), None)
    made = draft(type_, stream, payload, by=DEMO, id=event_id, tags=[SAMPLE_TAG])
    return Publication(parts=(made,), uploads=uploads, summary=f"{row.id}: {type_}")
