"""What a projection relies on of the corrected rules: shape, resuming, determinism, what a change touches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from ledger.events.attestations import AttestationRecorded
from ledger.events.catalogue import AuthoredReview, CatalogueRow, RowCount
from ledger.events.examples import example
from ledger.events.registry import REGISTRY
from ledger.events.reviews import TagRetracted
from ledger.rules import EVERYTHING, RuleEvent, atlas_page_1
from ledger.rules.ledger_1 import RULES, V2
from ledger.rules.ledger_1.catalogue_rows import row_of
from ledger.rules.ledger_1.decoding import DECODE, read
from ledger.rules.ledger_1.growing import RUN, grown, items
from ledger.wire import audit_pb2

from . import builders, test_rule_set
from .builders import (
    SOURCE,
    adopted,
    confirmed,
    declared,
    defined,
    judgment,
    ref,
    reinstated,
    retired,
    revised,
    row,
    rules_adopted,
    run,
    sha,
    superseded,
    suspected,
    synced,
    synthesis,
)
from .ledger_1_builders import (
    DATA,
    ON_PRESENT,
    OTHER_DATA,
    Told,
    alias,
    context,
    fixed_here,
    followup,
    good,
    same_code,
    same_data,
    same_execution,
    same_grading,
    tagged,
)

OTHER = "MarinSkyRL:gsm8k"
ALWAYS = {"quality", "applicability", "review", "difficulty"}
"""The fields that have a reason whatever happened."""
COUNTED = [
    RowCount(basis="input", rows=700, revision=DATA, evidence=ref("counts.json")),
    RowCount(basis="clean", rows=690, revision=None),
]


def fields(message: str) -> set[str]:
    return set(audit_pb2.DESCRIPTOR.message_types_by_name[message].fields_by_name)


def long_story() -> Told:
    """Something of everything."""
    story = Told().listed(counts=COUNTED, input_rows=700)
    story.add(alias("svamp-mirror", SOURCE))
    story.review("r1", lambda c: [*good(c), tagged(c, "t1", "mit")])
    story.report(rests_on=[story.add(same_execution())])
    story.report(protocol="unnamed")
    story.add(followup())
    story.add(context())
    story.add(suspected("d2", "task-import"))
    story.add(confirmed(), principal="mara")
    story.resolve(principal="jo")
    story.add(suspected("d3"))
    story.add(confirmed("d4"))
    story.add(superseded("r1", by="fix"))
    story.revise("c2", dataset_revision=OTHER_DATA, counts=COUNTED)
    story.add(same_data())
    story.add(revised("c3"))
    return story


class TestWhatIsShown:
    def test_the_state_has_all_fields_of_the_wire_messages(self):
        shown = long_story().shown()
        difficulty = shown["difficulty"]
        messages = {
            "Source": shown,
            "Review": shown["review"],
            "Difficulty": difficulty,
            "Defect": shown["resolved_defects"][0],
            "Panel": shown["panel"],
            "PooledReview": shown["review_pool"][0],
            "Attestation": shown["attestations"][0],
            "RowCount": shown["counts"][0],
            "Alias": shown["aliases"][0],
            "EarlierReport": difficulty["history"][0],
            "DifficultyContext": difficulty["context"],
            "Reason": shown["reasons"][0],
        }
        assert {name: set(message) for name, message in messages.items()} == {name: fields(name) for name in messages}

    def test_what_an_open_defect_hides_has_them_too(self):
        story = Told().listed()
        story.report()
        story.add(followup())
        difficulty = story.shown()["difficulty"]
        assert set(difficulty["models"][0]) == fields("DifficultyModel")
        assert set(difficulty["followups"][0]) == fields("FollowUp")
        assert set(difficulty["followups"][0]["outcome"]) == fields("DifficultyModel")

    def test_an_authored_rating_has_the_fields_of_a_review(self):
        shown = Told().listed(authored_review=AuthoredReview(grade="good")).shown()
        assert set(shown["review"]) == fields("Review")
        assert set(shown["review_pool"][0]) == fields("PooledReview")

    @pytest.mark.parametrize("size", range(1, 60, 3))
    def test_every_derived_value_has_a_reason_that_names_events_of_the_past(self, size):
        story = Told()
        for event in long_story().events[:size]:
            story.append(event)
        state = RULES.show(SOURCE, story.facts_of(SOURCE), story.environment)
        if state is None:
            assert size < 3
            return
        check_what_always_holds(state)
        assert all(r["rule"] and r["text"].endswith(".") for r in state["reasons"])
        assert all(r["events"] and max(r["events"]) < size for r in state["reasons"])

    def test_a_source_is_not_shown_before_it_is_in_the_catalogue(self):
        story = Told()
        story.review("r1")
        assert RULES.show(SOURCE, story.facts_of(SOURCE), story.environment) is None

    def test_a_retired_source_is_shown_and_said_to_be_retired(self):
        story = Told().listed()
        story.refresh(retired("c2"))
        assert story.shown()["retired"]
        assert story.has("catalogue.retired")
        story.refresh(reinstated("c3", **ON_PRESENT))
        assert not story.shown()["retired"]
        assert story.has("catalogue.reinstated")


class TestRow39CountsAreFactsWithABasis:
    def test_each_has_its_basis_revision_evidence_and_event(self):
        shown = Told().listed(counts=COUNTED, input_rows=701).shown()
        assert shown["input_rows"] == 701
        assert shown["counts"] == [
            {"basis": "input", "rows": 700, "revision": DATA, "evidence_sha256": sha("counts.json"), "pos": 0},
            {"basis": "clean", "rows": 690, "revision": None, "evidence_sha256": None, "pos": 0},
        ]

    def test_without_counts_the_inventorys_own_figure_stands_alone(self):
        shown = Told().listed(input_rows=700).shown()
        assert (shown["input_rows"], shown["counts"]) == (700, [])


class TestARowsDigest:
    @pytest.mark.parametrize(
        "known",
        [
            row(),
            row(input_rows=0, is_benchmark=False, notes=""),
            row(tags=["a"], extra={"more": None, "deep": {"x": [1.5, "é"]}}),
            row(counts=COUNTED),
            row(authored_review=AuthoredReview(grade=None)),
            row(authored_review=AuthoredReview(grade="good", reviewed_at="2026-10-01T00:00:00Z")),
            CatalogueRow(id=SOURCE, origin="MarinSkyRL"),
        ],
    )
    def test_is_that_of_the_other_sets_however_unknown_fields_are_written(self, known):
        story = builders.Story(atlas_page_1.RULES)
        story.refresh(declared().model_copy(update={"row": known}))
        expected = story.shown()["row_sha256"]
        assert row_of(known.model_dump_json().encode()).sha256 == expected
        assert row_of(known.model_dump_json(exclude_unset=True).encode()).sha256 == expected


class TestThePoolHoldsEveryPublishedCollection:
    @pytest.mark.parametrize(
        ("parts", "role", "expected"),
        [
            (good, None, "rating"),
            (good, "verifier_defect", "resolution"),
            (good, "verifier_revision_attestation", "attestation"),
            (lambda c: [run(c), synthesis(c)], None, "supplemental"),
            (lambda c: [*fixed_here(c)[1:2], fixed_here(c)[-1], run(c), synthesis(c)], None, "resolution"),
            (fixed_here, None, "rating"),
            (lambda c: [synthesis(c)], None, "reused"),
            (lambda c: [judgment(c, method="human_judgment"), synthesis(c)], None, "reused"),
        ],
    )
    def test_under_its_role(self, parts, role, expected):
        story = Told().listed()
        story.review("r1", parts, review_pool_role=role)
        (pooled,) = story.shown()["review_pool"]
        assert (pooled["role"], pooled["id"]) == (expected, sha("r1"))

    def test_newest_first_each_with_its_own_applicability_and_supersession(self):
        story = Told().listed()
        story.review("r1")
        story.revise("c2", dataset_revision=OTHER_DATA)
        story.review("r2", dataset_revision=OTHER_DATA)
        end = int(story.add(superseded("r1", by="r2"))[1:])
        told = [(r["id"], r["applicability"], r["superseded"]) for r in story.shown()["review_pool"]]
        assert told == [(sha("r2"), "current", None), (sha("r1"), "stale", end)]


class TestAliases:
    def test_a_source_shows_the_names_that_it_has_elsewhere(self):
        story = Told().listed()
        position = int(story.add(alias("mirror", SOURCE, OTHER, status="ambiguous"))[1:])
        assert story.shown()["aliases"] == [
            {"alias": "mirror", "status": "ambiguous", "applicability": "exact_revision", "pos": position}
        ]

    def test_a_name_that_moves_leaves_the_source_that_it_meant_before(self):
        story = Told().listed()
        story.add(alias("mirror", SOURCE))
        story.add(alias("mirror", OTHER))
        assert story.shown()["aliases"] == []
        assert story.environment.named == {OTHER: ("mirror",)}

    def test_a_mapping_touches_the_sources_named_now_or_before_and_no_others(self):
        story = Told().listed()
        story.add(alias("mirror", SOURCE))
        event = story.event(alias("mirror", OTHER))
        assert RULES.touched(story.environment, event) == {SOURCE, OTHER}
        assert RULES.touched(story.environment, story.event(alias("fresh", OTHER))) == {OTHER}


class TestTags:
    def tags(self, *events: BaseModel) -> list[str]:
        story = Told().listed()
        for event in events:
            story.add(event)
        return list(story.shown()["tags"])

    def test_one_outside_a_collection_counts_at_once(self):
        assert self.tags(tagged(None, "t1", "mit"), tagged(None, "t2", "apache")) == ["license:apache", "license:mit"]

    def test_one_of_a_collection_counts_once_it_is_published_and_until_it_is_superseded(self):
        story = Told().listed()
        part = story.add(tagged("r1", "t1", "mit"))
        assert story.shown()["tags"] == []
        ids = [part, *(story.add(p) for p in good("r1"))]
        publication = builders.published("r1", "r1", ids, **ON_PRESENT)
        assert story.against(publication) == ()
        story.add(publication)
        assert story.shown()["tags"] == ["license:mit"]
        story.add(superseded("r1"))
        assert story.shown()["tags"] == []

    def test_a_retracted_one_is_gone_and_may_be_assigned_again(self):
        gone = [tagged(None, "t1", "mit"), TagRetracted(assignment_id="t1", reason=None)]
        assert self.tags(*gone) == []
        assert self.tags(*gone, tagged(None, "t1", "mit")) == ["license:mit"]

    def test_one_that_supersedes_another_takes_its_place(self):
        assert self.tags(tagged(None, "t1", "mit"), tagged(None, "t2", "bsd", supersedes="t1")) == ["license:bsd"]

    def test_a_retraction_of_what_was_never_assigned_changes_nothing(self):
        assert self.tags(tagged(None, "t1", "mit"), TagRetracted(assignment_id="t9", reason=None)) == ["license:mit"]


class TestSamples:
    @pytest.mark.parametrize(
        "payload",
        [confirmed(), suspected(), followup(), context(), same_data(), tagged(None, "t1", "mit"), alias("m", SOURCE)],
        ids=lambda payload: type(payload).__name__,
    )
    def test_whatever_is_shown_of_a_sample_is_said_to_be_one(self, payload):
        story = Told().listed()
        assert not story.shown()["sample"]
        story.add(payload, sample=True)
        assert story.shown()["sample"]

    @pytest.mark.parametrize("sampled", ["a part", "the publication", "nothing"])
    def test_a_sampled_part_or_publication_makes_its_review_one(self, sampled):
        story = Told().listed()
        ids = [story.add(part, sample=sampled == "a part") for part in good("r1")]
        story.add(builders.published("r1", "r1", ids, **ON_PRESENT), sample=sampled == "the publication")
        assert story.shown()["sample"] == (sampled != "nothing")

    def test_parts_that_are_not_published_are_not_shown(self):
        story = Told().listed()
        story.add(run("r1"), sample=True)
        assert not story.shown()["sample"]


class TestTheEnvironment:
    def test_a_closing_touches_the_sources_of_its_parts_and_no_others(self):
        story = Told().listed()
        ids = [story.add(revised("c2")), story.add(declared("c2", id=OTHER))]
        story.add(declared("c3", id="MarinSkyRL:apps"))
        assert RULES.touched(story.environment, story.event(synced("c2", ids))) == {SOURCE, OTHER}
        assert RULES.touched(story.environment, story.event(synced("c1"))) == frozenset()

    def test_adopting_a_protocol_touches_everything(self):
        story = Told().listed()
        assert RULES.touched(story.environment, story.event(adopted("e1"))) is EVERYTHING

    @pytest.mark.parametrize("payload", [revised("c2"), confirmed(), rules_adopted(), defined("v3"), defined()])
    def test_what_its_own_stream_says_touches_nothing_else(self, payload):
        story = Told().listed()
        assert RULES.touched(story.environment, story.event(payload)) == frozenset()

    def test_defining_the_adopted_protocol_late_touches_everything(self):
        story = Told()
        story.add(adopted("later"))
        assert RULES.touched(story.environment, story.event(defined())) is EVERYTHING

    def test_its_types_are_those_that_change_it(self):
        story = Told().listed()
        payloads = [declared("c9"), revised("c9"), retired("c9"), reinstated("c9"), synced("c8"), rules_adopted()]
        payloads += [defined("v3"), adopted("e1", "v3"), alias("m", SOURCE), confirmed(), superseded("r1"), *good("r1")]
        for event in map(story.event, payloads):
            changed = RULES.fold_environment(story.environment, event) != story.environment
            assert changed == (event.type in RULES.environment_types), event.type


class TestEventsAreReadFromTheirBytes:
    def test_no_model_is_ever_made(self):
        story = long_story()
        written = [bytes_only(event) for event in story.events]
        again = Told()
        for event in written:
            again.append(event)
        assert again.shown() == story.shown()
        assert RULES.decide(written[-1], again.facts_of(SOURCE), again.environment) == ()

    def test_fields_that_no_rule_asks_for_are_skipped(self):
        story = Told().listed()
        event = story.event(confirmed())
        more = json.dumps({**json.loads(event.body), "later": {"field": [1]}}).encode()
        story.append(RuleEvent(event.pos, event.id, event.type, event.stream, body=more, read=_no_model))
        assert [d["id"] for d in story.shown()["open_defects"]] == ["d1"]

    @pytest.mark.parametrize("known", [e for e in REGISTRY if e.type in DECODE], ids=lambda known: known.type)
    def test_every_stored_example_of_the_vocabulary_is_read(self, known):
        body = REGISTRY.newest_body(known.type, known.version, example(known.type, known.version))
        said = read(RuleEvent(0, "e0", known.type, "source/s", body=body, read=_no_model))
        assert type(said).__name__ in {known.model.__name__, "ReviewPart", "PartWithRow"}

    def test_all_types_that_a_fold_takes_are_in_the_vocabulary(self):
        assert DECODE.keys() | RULES.environment_types <= {known.type for known in REGISTRY}

    def test_types_that_mean_nothing_change_nothing(self):
        story = Told().listed()
        event = RuleEvent(story.size, "e", "run.declared", f"source/{SOURCE}", body=b"{}", read=_no_model)
        facts = story.facts_of(SOURCE)
        assert RULES.fold(facts, event) is facts
        assert RULES.fold_environment(story.environment, event) is story.environment
        assert RULES.decide(event, facts, story.environment) == ()


def bytes_only(event: RuleEvent) -> RuleEvent:
    return RuleEvent(
        event.pos,
        event.id,
        event.type,
        event.stream,
        body=event.body,
        read=_no_model,
        sample=event.sample,
        principal=event.principal,
    )


def _no_model() -> BaseModel:
    raise AssertionError("these rules read bytes, and no models")


class TestPartsThatWait:
    def test_they_change_nothing_that_is_shown(self):
        story = Told().listed()
        before = story.facts_of(SOURCE)
        story.add(run("r1"))
        story.add(tagged("r1", "t1", "mit"))
        assert RULES.shows_alike(before, story.facts_of(SOURCE))
        story.add(tagged(None, "t2", "mit"))
        assert not RULES.shows_alike(before, story.facts_of(SOURCE))

    def test_parts_that_come_after_the_publication_count_for_nothing(self):
        story = Told().listed()
        story.review("r1")
        before = story.facts_of(SOURCE)
        story.add(judgment("r1", "reject"))
        assert story.facts_of(SOURCE) is before

    @given(st.integers(0, 5 * RUN))
    def test_a_growing_sequence_holds_what_was_added_in_order(self, size):
        runs: tuple[tuple[int, ...], ...] = ()
        for value in range(size):
            runs = grown(runs, value)
        assert list(items(runs)) == list(range(size))
        lengths = [len(run) for run in runs[:-1]]
        assert lengths == sorted(set(lengths), reverse=True)
        assert all(length % RUN == 0 for length in lengths)


def payloads() -> st.SearchStrategy[BaseModel]:
    """Events of one source and its surroundings, in any order, sensible or not."""
    names, events = st.sampled_from("ab"), st.sampled_from([f"e{n}" for n in range(12)])
    revision = st.sampled_from(["data-1", "data-2", DATA, OTHER_DATA])
    basis = st.sampled_from(["execution", "catalogue", None])
    dates = st.sampled_from([None, "2026-10-01T00:00:00Z", "2026-10-02T00:00:00.5Z", "2026-10-03"])
    return st.one_of(
        test_rule_set.payloads(),
        st.builds(lambda c, at: judgment(c, reviewed_at=at), names, dates),
        st.builds(
            lambda n, b, r, on: builders.published(n, n, [], verifier_revision_basis=b, dataset_revision=r, rests_on=[on]),
            names, basis, revision, events,
        ),
        st.builds(lambda a, b: superseded(a, by=b), names, names),
        st.builds(lambda c, g: declared(c, authored_review=AuthoredReview(grade=g)), st.just("c1"), st.sampled_from(["good", "bad", None])),
        st.builds(lambda a, b, e: same_data(executed_revision=a, current_revision=b, equal=e), revision, revision, st.booleans()),
        st.builds(lambda d: same_code(dirty=d), st.booleans()),
        st.builds(same_grading, names),
        st.builds(lambda e, v: same_execution(equal=e, validated=v), st.booleans(), st.booleans()),
        st.builds(lambda on: builders.report(rests_on=[on]), events),
        st.builds(lambda n, s: followup(n, state=s), names, st.sampled_from(["complete", "incomplete"])),
        st.builds(context),
        st.builds(lambda c, t, s: tagged(c, t, "mit", s), st.none() | names, names, st.none() | names),
        st.builds(lambda t: TagRetracted(assignment_id=t, reason=None), names),
        st.builds(lambda a, s: alias(a, *s), names, st.lists(st.sampled_from([SOURCE, OTHER]), max_size=2)),
        st.builds(adopted, events, st.sampled_from([V2.protocol, "earlier"]), st.none() | st.just(V2.protocol)),
    )  # fmt: skip


class TestEveryOrderOfEvents:
    @settings(deadline=None)
    @given(st.lists(st.tuples(payloads(), st.booleans(), st.sampled_from([None, "mara", "jo"])), max_size=25))
    def test_fold_show_and_decide_are_total_and_a_fold_resumes_anywhere(self, made):
        story, resumed = Told().listed(), Told().listed()
        for payload, sample, principal in made:
            story.against(payload)
            before = story.facts_of(SOURCE), story.shown()
            story.add(payload, sample=sample, principal=principal)
            resumed.environment = RULES.decode_environment(RULES.encode_environment(resumed.environment))
            resumed.facts = {s: RULES.decode_facts(RULES.encode_facts(f)) for s, f in resumed.facts.items()}
            resumed.append(story.events[-1])
            assert (resumed.environment, resumed.facts) == (story.environment, story.facts)
            shown = story.shown()
            assert list(resumed.shown().items()) == list(shown.items())
            check_what_always_holds(shown)
            untouched = story.events[-1].type not in RULES.environment_types
            if untouched and RULES.shows_alike(before[0], story.facts_of(SOURCE)):
                assert shown == before[1]


def check_what_always_holds(shown: dict[str, Any]) -> None:
    json_format.ParseDict(shown, audit_pb2.Source())
    ratings = {"good", "some_issues", "bad"}
    if shown["quality"] in ratings:
        assert shown["underlying_quality"] in ratings
        assert shown["applicability"] in {"current", "unknown"}
    else:
        assert shown["underlying_quality"] is None
    if shown["open_defects"]:
        assert shown["quality"] != "good"
        assert shown["difficulty"]["status"] == "withheld"
    if shown["difficulty"]["status"] == "current":
        assert (shown["quality"], shown["applicability"]) == ("good", "current")
    if shown["applicability"] == "stale":
        assert shown["quality"] == "needs_re_review"
    assert (shown["applicability"] is None) == (shown["review"] is None)
    assert {d["status"] for d in shown["open_defects"]} <= {"open"}
    assert {r["field"] for r in shown["reasons"]} - {"catalogue"} == ALWAYS


TELL = """
import json
from {module} import long_story
from ledger.rules.ledger_1 import RULES
story = long_story()
print(json.dumps(story.shown()))
print(RULES.encode_environment(story.environment).decode())
print([RULES.encode_facts(f).decode() for f in story.facts.values()])
"""


def test_two_processes_with_different_hash_seeds_show_the_same():
    told = [_told(seed) for seed in ("1", "2")]
    assert told[0] == told[1]
    assert json.loads(told[0].splitlines()[0])["id"] == SOURCE


def _told(seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    code = TELL.format(module=__name__)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_every_kind_of_attestation_is_shown_in_log_order():
    story = Told().listed()
    made: list[AttestationRecorded] = [same_execution(), same_grading("r1"), same_data(), same_code()]
    positions = [int(story.add(attestation)[1:]) for attestation in made]
    shown = story.shown()["attestations"]
    assert [a["pos"] for a in shown] == positions
    assert [a["kind"] for a in shown] == [attestation.kind for attestation in made]
