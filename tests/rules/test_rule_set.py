"""What a projection relies on: shape, reasons, resuming, determinism, what a change touches."""

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

from ledger.events.registry import REGISTRY
from ledger.events.reviews import TagRetracted
from ledger.rules import EVERYTHING
from ledger.rules.atlas_page_1 import RULES, V2
from ledger.rules.atlas_page_1.growing import count, grown, items
from ledger.wire import audit_pb2

from .builders import (
    SOURCE,
    Story,
    adopted,
    bad,
    confirmed,
    declared,
    defined,
    fixed,
    good,
    measured,
    published,
    reinstated,
    reopened,
    report,
    resolved,
    retired,
    revised,
    rules_adopted,
    some_issues,
    superseded,
    suspected,
    synced,
    tag,
    validation,
    withdrawn,
)

OTHER = "MarinSkyRL:gsm8k"
NOT_KEPT = {
    "Source": {
        "underlying_quality", "counts", "attestations", "panel", "review_pool", "aliases", "tags",
    },
    "Difficulty": {
        "source_revision", "verifier_revision", "pos", "mismatches", "ordering_warning", "history", "followups",
        "context",
    },
    "DifficultyModel": {"scoring_contract"},
    "Defect": {"applicability", "independence"},
}  # fmt: skip
"""Optional fields of the wire messages that these rules know nothing of."""
ALWAYS = {"quality", "applicability", "review", "difficulty"}
"""The fields that have a reason whatever happened."""


def long_story() -> Story:
    """Something of everything."""
    story = Story().listed()
    story.review("r1")
    story.add(report())
    story.add(suspected("d2", "task-import"))
    story.add(confirmed())
    story.resolve()
    story.review("r2", some_issues)
    story.add(superseded("r2", by="fix"))
    story.revise("c2", dataset_revision="data-2", input_rows=700, is_benchmark=False)
    story.add(revised("c3"))
    story.refresh(retired("c4"))
    return story


def kept(message: str) -> set[str]:
    """The fields of a wire message, less those that these rules do not keep."""
    known = set(audit_pb2.DESCRIPTOR.message_types_by_name[message].fields_by_name)
    without = NOT_KEPT.get(message, set())
    assert without <= known
    return known - without


class TestWhatIsShown:
    def test_the_state_has_the_fields_of_the_wire_message_that_these_rules_keep(self):
        shown = long_story().shown()
        assert set(shown) == kept("Source")
        assert set(shown["review"]) == kept("Review")
        assert set(shown["difficulty"]) == kept("Difficulty")
        assert set(shown["reasons"][0]) == kept("Reason")
        assert set(shown["resolved_defects"][0]) == kept("Defect")

    def test_the_models_of_a_report_have_the_fields_of_the_wire_message(self):
        story = Story().listed()
        story.add(report())
        models = story.shown()["difficulty"]["models"]
        assert set(models[0]) == kept("DifficultyModel")

    def test_the_state_can_be_sent_as_the_wire_message(self):
        shown = long_story().shown()
        message = json_format.ParseDict(shown, audit_pb2.Source())
        assert (message.id, message.quality) == (SOURCE, "needs_re_review")

    @pytest.mark.parametrize("size", range(1, 48, 3))
    def test_every_derived_value_has_a_reason_that_names_events_of_the_past(self, size):
        story = Story()
        for event in long_story().events[:size]:
            story.append(event)
        state = RULES.show(SOURCE, story.facts_of(SOURCE), story.environment)
        if state is None:
            assert size < 3
            return
        assert {r["field"] for r in state["reasons"]} == {*ALWAYS, *(["catalogue"] if state["retired"] else [])}
        assert all(r["rule"] and r["text"].endswith(".") for r in state["reasons"])
        assert all(r["events"] and max(r["events"]) < size for r in state["reasons"])

    def test_a_source_is_not_shown_before_it_is_in_the_catalogue(self):
        story = Story()
        story.review("r1")
        assert RULES.show(SOURCE, story.facts_of(SOURCE), story.environment) is None

    def test_tags_are_parts_of_their_review_and_change_nothing_that_is_shown(self):
        story = Story().listed()
        ids = [story.add(part) for part in [*good("r1"), tag("r1"), tag(None)]]
        story.add(TagRetracted(assignment_id="t1", reason=None))
        publication = published("r1", "r1", ids[:-1])
        assert story.against(publication) == ()
        story.add(publication)
        assert story.shown()["quality"] == "good"


class TestTheEnvironment:
    def test_a_closing_touches_the_sources_of_its_parts_and_no_others(self):
        story = Story().listed()
        ids = [story.add(revised("c2")), story.add(declared("c2", id=OTHER))]
        story.add(declared("c3", id="MarinSkyRL:apps"))
        closing = story.event(synced("c2", ids))
        assert RULES.touched(story.environment, closing) == {SOURCE, OTHER}

    def test_a_closing_that_was_recorded_twice_touches_nothing(self):
        story = Story().listed()
        assert RULES.touched(story.environment, story.event(synced("c1"))) == frozenset()

    def test_adopting_a_protocol_touches_everything(self):
        story = Story().listed()
        assert RULES.touched(story.environment, story.event(adopted("e1"))) is EVERYTHING

    @pytest.mark.parametrize("payload", [revised("c2"), confirmed(), rules_adopted(), defined("v3")])
    def test_what_its_own_stream_says_touches_nothing_else(self, payload):
        story = Story().listed()
        assert RULES.touched(story.environment, story.event(payload)) == frozenset()

    def test_defining_the_adopted_protocol_late_touches_everything(self):
        story = Story()
        story.add(adopted("later"))
        assert RULES.touched(story.environment, story.event(defined())) is EVERYTHING

    def test_parts_are_dropped_when_their_refresh_is_closed(self):
        story = Story().listed()
        story.add(revised("c2"))
        assert list(story.environment.waiting) == ["c2"]
        story.add(synced("c2"))
        assert story.environment.waiting == {}

    def test_its_types_are_those_that_change_it(self):
        story = Story().listed()
        payloads = [declared("c9"), revised("c9"), retired("c9"), reinstated("c9"), synced("c8"), rules_adopted()]
        payloads += [defined("v3"), adopted("e1", "v3"), confirmed(), report(), superseded("r1"), *good("r1")]
        for event in map(story.event, payloads):
            changed = RULES.fold_environment(story.environment, event) != story.environment
            assert changed == (event.type in RULES.environment_types), event.type

    def test_every_environment_type_is_in_the_vocabulary(self):
        assert RULES.environment_types <= {t.type for t in REGISTRY}


class TestGrowing:
    @given(st.lists(st.integers()))
    def test_a_sequence_holds_what_was_added_in_order(self, values):
        runs: tuple[tuple[int, ...], ...] = ()
        for value in values:
            runs = grown(runs, value)
        assert list(items(runs)) == values
        assert count(runs) == len(values)
        assert len(runs) == len(values).bit_count()


def payloads() -> st.SearchStrategy[BaseModel]:
    """Events of one source and its surroundings, in any order, sensible or not."""
    names, defects, refreshes = (
        st.sampled_from("ab"),
        st.sampled_from(["d1", "d2"]),
        st.sampled_from(["c1", "c2", "c3"]),
    )
    events = st.sampled_from([f"e{n}" for n in range(12)])
    revision = st.sampled_from([None, "data-1", "data-2"])
    kinds = st.sampled_from([good, some_issues, bad, fixed])
    return st.one_of(
        st.builds(lambda c, r: declared(c, dataset_revision=r), refreshes, revision),
        st.builds(lambda c, r: revised(c, verifier_revision=r), refreshes, revision),
        st.builds(retired, refreshes),
        st.builds(reinstated, refreshes),
        st.builds(synced, refreshes),
        st.builds(lambda kind, c, n: kind(c)[n], kinds, names, st.integers(0, 2)),
        st.builds(lambda kind, c: kind(c)[-1], kinds, names),
        st.builds(lambda r, c, d: published(r, c, [], dataset_revision=d), names, names, revision),
        st.builds(superseded, names),
        st.builds(tag, st.none() | names),
        st.builds(suspected, defects, st.sampled_from(["verifier", "judge-output"])),
        st.builds(confirmed, defects),
        st.builds(validation, defects),
        st.builds(resolved, events, names, defects),
        st.builds(reopened, defects),
        st.builds(withdrawn, defects),
        st.builds(lambda s, v: report(measured("small", s, v)), st.integers(0, 3), st.integers(0, 3)),
        st.builds(lambda p: report(protocol=p), st.sampled_from([V2.protocol, "earlier"])),
        st.builds(defined),
        st.builds(adopted, events, st.sampled_from([V2.protocol, "earlier"])),
        st.builds(rules_adopted),
    )


class TestEveryOrderOfEvents:
    @settings(deadline=None)
    @given(st.lists(st.tuples(payloads(), st.booleans()), max_size=25))
    def test_fold_show_and_decide_are_total_and_a_fold_resumes_anywhere(self, made):
        story, resumed = Story().listed(), Story().listed()
        for payload, sample in made:
            story.against(payload)
            story.add(payload, sample=sample)
            resumed.environment = RULES.decode_environment(RULES.encode_environment(resumed.environment))
            resumed.facts = {s: RULES.decode_facts(RULES.encode_facts(f)) for s, f in resumed.facts.items()}
            resumed.append(story.events[-1])
            assert (resumed.environment, resumed.facts) == (story.environment, story.facts)
            shown = story.shown()
            assert list(resumed.shown().items()) == list(shown.items())
            check_what_always_holds(shown)
            assert story.facts_of(SOURCE).standing.open == len(shown["open_defects"])


def check_what_always_holds(shown: dict[str, Any]) -> None:
    json_format.ParseDict(shown, audit_pb2.Source())
    if shown["open_defects"]:
        assert shown["quality"] in {"some_issues", "bad"}
        assert shown["difficulty"]["status"] == "withheld"
    if shown["difficulty"]["status"] == "current":
        assert shown["quality"] == "good"
    if shown["applicability"] == "stale":
        assert shown["quality"] != "good"
    assert (shown["applicability"] is None) == (shown["review"] is None)
    reasons = {r["rule"]: r["field"] for r in shown["reasons"]}
    assert set(reasons.values()) - {"catalogue"} == ALWAYS
    assert ("catalogue.retired" in reasons) == shown["retired"]


TELL = """
import json
from {module} import long_story
from ledger.rules.atlas_page_1 import RULES
story = long_story()
print(json.dumps(story.shown()))
print(RULES.encode_environment(story.environment).decode())
print([RULES.encode_facts(f).decode() for f in story.facts.values()])
print([str(p) for p in story.against(story.events[-1].payload)])
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
