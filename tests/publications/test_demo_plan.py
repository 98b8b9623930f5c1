"""The demonstration: real inventory, real stories as claims, clearly made-up samples, decisions that the rules allow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.client.catalogue import read_inventory
from ledger.client.drafts import Draft, Publication
from ledger.core.ids import sha256_hex
from ledger.events import REGISTRY
from ledger.events.fields import SAMPLE_TAG, artifacts_in
from ledger.events.policy import ProtocolAdopted
from ledger.rules import RuleEvent, source_of
from ledger.rules.atlas_page_1 import V2
from ledger.rules.sets import RULE_SETS
from services.cli.demo_plan import E2EGIT, INVENTORY, PYMETHODS, TACO, demo_publications

PLAN = demo_publications()
IMPORTED, STORIES, SAMPLES = PLAN[:2], PLAN[2:5], PLAN[5:]
DRAFTS = [draft for publication in PLAN for draft in publication.drafts]


class Told:
    """The rules, told one event after the other; a decision that they refuse fails the test."""

    def __init__(self, rules: str) -> None:
        self.rules = RULE_SETS[rules]
        self.environment = self.rules.initial_environment()
        self.facts: dict[str, Any] = {}
        self.pos = 0
        self._tell("protocol.defined", "policy/protocols", V2, "definition", [])
        adopted = ProtocolAdopted(protocol=V2.protocol, definition="definition", replaces=None)
        self._tell("protocol.adopted", "policy/protocols", adopted, "adoption", [])

    def append(self, draft: Draft) -> None:
        payload = REGISTRY.read(draft.type, draft.type_version, draft.payload)
        self._tell(draft.type, draft.stream, payload, draft.id, list(draft.tags))

    def _tell(self, type_: str, stream: str, payload: Any, event_id: str, tags: list[str]) -> None:
        event = RuleEvent(self.pos, event_id, type_, stream, payload, sample=SAMPLE_TAG in tags)
        facts = self.facts.get(stream, self.rules.initial_facts())
        if REGISTRY.latest(type_).decision:
            assert self.rules.decide(event, facts, self.environment) == ()
        if type_ in self.rules.environment_types:
            self.environment = self.rules.fold_environment(self.environment, event)
        if source_of(stream) is not None:
            self.facts[stream] = self.rules.fold(facts, event)
        self.pos += 1

    def shown(self, source: str) -> dict[str, Any]:
        state = self.rules.show(source, self.facts[f"source/{source}"], self.environment)
        assert state is not None
        return state


@pytest.fixture(scope="module", params=["atlas-page-1", "ledger-1"])
def told(request: pytest.FixtureRequest) -> Told:
    told = Told(request.param)
    for draft in DRAFTS:
        told.append(draft)
    return told


def test_the_inventory_is_196_real_sources_and_bears_no_sample_tag() -> None:
    marin, trove = IMPORTED

    assert (len(marin.parts), len(trove.parts)) == (103, 93)
    assert not any(SAMPLE_TAG in draft.tags for p in (marin, trove) for draft in p.drafts)


def test_what_the_inventory_does_not_say_is_unknown() -> None:
    rows = read_inventory(INVENTORY)

    assert all(row.input_rows is None for row in rows)
    assert not any(row.dataset_revision or row.verifier_revision for row in rows if row.origin == "Task Trove")


def test_the_refresh_says_what_the_inventory_s_owner_says() -> None:
    closing = [json.loads(p.closing.payload) for p in IMPORTED if p.closing is not None]

    assert [(c["origin"], c["revision"], c["row_count"], c["revised_at"]) for c in closing] == [
        ("MarinSkyRL", "bb6494e678ffaa1e6bd3967e221d1a67b038757e", 103, "2026-09-29T18:47:50Z"),
        ("Task Trove", "9065fa568394f286dab0081e43dc76fc87c48984", 93, "2026-09-19T15:41:18Z"),
    ]
    assert {c["checked_at"] for c in closing} == {"2026-09-29T19:05:19.751082Z"}


def test_every_made_up_event_is_a_sample_and_every_event_is_by_the_demonstration() -> None:
    assert all(SAMPLE_TAG in draft.tags for p in SAMPLES for draft in p.drafts)
    assert {(draft.actor.id, draft.actor.kind) for draft in DRAFTS} == {("ledger-demo", 3)}
    assert not any(draft.HasField("occurred_at_us") for draft in DRAFTS)


def test_the_stories_are_facts_of_three_runs_whose_basis_is_a_public_page_and_no_samples() -> None:
    told = [draft for story in STORIES for draft in story.drafts]
    said = [json.loads(draft.payload) for draft in told]

    assert {s["run_id"] for d, s in zip(told, said, strict=True) if d.type == "run.declared"} == {
        TACO,
        E2EGIT,
        PYMETHODS,
    }
    assert not any(SAMPLE_TAG in draft.tags for draft in told)
    for draft, payload in zip(told, said, strict=True):
        if draft.type != "hosting.observed":  # an observation of a third party's page, which is its own basis
            assert payload["basis"]["kind"] == "claimed"
            assert payload["basis"]["url"].startswith("https://huggingface.co/laion/")


def test_no_story_holds_a_series_of_steps() -> None:
    types = {draft.type for story in STORIES for draft in story.drafts}
    assert not types & {"steps.logged", "engine.sampled", "rollouts.summarised", "eval.logged"}


def test_samples_are_numbered_by_their_producer_without_a_gap_and_real_facts_are_not() -> None:
    samples = [draft for draft in DRAFTS if SAMPLE_TAG in draft.tags]
    numbered = [(d.producer.id, d.producer.epoch, d.producer.seq) for d in samples]
    assert numbered == [("ledger-demo", 1, n) for n in range(1, len(samples) + 1)]
    assert not any(draft.HasField("producer") for draft in DRAFTS if SAMPLE_TAG not in draft.tags)


def test_planning_twice_gives_the_same_events_and_each_id_once() -> None:
    again = [draft.SerializeToString() for publication in demo_publications() for draft in publication.drafts]

    assert again == [draft.SerializeToString() for draft in DRAFTS]
    assert len({draft.id for draft in DRAFTS}) == len(DRAFTS)


def test_every_payload_is_one_of_its_type_by_the_quick_check_where_there_is_one() -> None:
    for draft in DRAFTS:
        quick = REGISTRY.get(draft.type, draft.type_version).quick
        REGISTRY.check(draft.type, draft.type_version, draft.payload)
        assert quick is None or quick(draft.payload)


def test_every_artifact_that_an_event_cites_was_uploaded_by_then() -> None:
    stored: set[str] = set()
    for publication in PLAN:
        stored |= {upload.sha256 for upload in publication.uploads}
        assert _cited(publication) <= stored
    for upload in (u for p in PLAN for u in p.uploads):
        content = upload.content.read_bytes() if isinstance(upload.content, Path) else upload.content
        assert (sha256_hex(content), len(content)) == (upload.sha256, upload.size)


@pytest.mark.parametrize(
    ("source", "quality", "applicability", "difficulty"),
    [
        ("MarinSkyRL:svamp", "good", "current", "current"),
        ("MarinSkyRL:gsm8k", "some_issues", "current", "not_measured"),
        ("MarinSkyRL:apps", "bad", "current", "not_measured"),
        ("MarinSkyRL:asdiv", "some_issues", "current", "withheld"),
        ("MarinSkyRL:aime24", "good", "current", "historical"),
        ("MarinSkyRL:deepscaler", "needs_re_review", "stale", "needs_re_review"),
    ],
)
def test_each_sample_source_shows_its_state(
    told: Told, source: str, quality: str, applicability: str, difficulty: str
) -> None:
    state = told.shown(source)
    if told.rules.id == "ledger-1" and source == "MarinSkyRL:gsm8k":
        applicability = "unknown"  # the catalogue's word is no record of what ran

    assert (state["quality"], state["applicability"]) == (quality, applicability)
    assert state["difficulty"]["status"] == difficulty
    assert state["sample"] is True


def test_a_verifier_revision_that_the_inventory_gave_is_told_from_one_that_the_run_shows(told: Told) -> None:
    given, ran = told.shown("MarinSkyRL:gsm8k"), told.shown("MarinSkyRL:svamp")
    said = " ".join(r["text"] for r in given["reasons"] if r["field"] == "applicability")

    assert ran["review"]["verifier_revision_basis"] == "execution"
    assert given["review"]["verifier_revision_basis"] == "catalogue"
    assert "catalogue" in said


def test_suspected_open_and_resolved_defects_are_all_there(told: Told) -> None:
    assert [d["id"] for d in told.shown("MarinSkyRL:gsm8k")["suspected_defects"]] == ["sample-suspicion"]
    assert [d["id"] for d in told.shown("MarinSkyRL:asdiv")["open_defects"]] == ["sample-open-defect"]
    assert [d["id"] for d in told.shown("MarinSkyRL:aime24")["resolved_defects"]] == ["sample-resolved-defect"]


def test_the_other_190_sources_are_unreviewed_and_no_samples(told: Told) -> None:
    states = [told.shown(row.id) for row in read_inventory(INVENTORY)]
    plain = [state for state in states if not state["sample"]]

    assert len(plain) == 190
    assert {state["quality"] for state in plain} == {"unreviewed"}


def _cited(publication: Publication) -> set[str]:
    payloads = (REGISTRY.read(d.type, d.type_version, d.payload) for d in publication.drafts)
    return {ref.sha256 for payload in payloads for ref in artifacts_in(payload)}
