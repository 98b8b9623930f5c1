"""Decisions: each refusal keyed by a sentence, and what may be recorded."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import BaseModel

from ledger.events.administration import EventDisregarded

from .builders import (
    DATA,
    ISSUE,
    SOURCE,
    Story,
    adopted,
    bad,
    confirmed,
    control,
    declared,
    defined,
    finding,
    fixed,
    good,
    judgment,
    published,
    reinstated,
    reopened,
    replay,
    resolved,
    retired,
    revised,
    rules_adopted,
    run,
    sha,
    superseded,
    suspected,
    synced,
    synthesis,
    validation,
    withdrawn,
)

Case = Callable[[Story], BaseModel]
Table = dict[str, tuple[Case, str, str]]
"""A sentence → what makes the decision, the place, and words of the message."""


def added(story: Story, *payloads: BaseModel) -> list[str]:
    return [story.add(p) for p in payloads]


def review(story: Story, *payloads: BaseModel, **fields) -> BaseModel:
    return published("r1", "r1", added(story, *payloads), **fields)


def again(story: Story, name: str, collection: str) -> BaseModel:
    story.review("r1")
    return published(name, collection, added(story, *good(collection)))


def retire(story: Story) -> Story:
    story.refresh(retired("c2"))
    return story


def _published_of_another(story: Story) -> BaseModel:
    parts = [p.model_copy(update={"collection": "r1"}) for p in good("r1")]
    subject = parts[-1].subject.model_copy(update={"source_id": "MarinSkyRL:gsm8k"})
    parts[-1] = parts[-1].model_copy(update={"subject": subject})
    return review(story, *parts)


PUBLICATIONS: Table = {
    "a source that is not the stream's": (
        lambda s: published("r1", "r1", [], source_id="MarinSkyRL:gsm8k"),
        "/source_id",
        "not the source of the stream",
    ),
    "a retired source": (lambda s: review(retire(s), *good("r1")), "/source_id", "retired"),
    "a part that is missing": (
        lambda s: published("r1", "r1", [*added(s, *good("r1")), "elsewhere"]),
        "/parts/count",
        "names 6 parts, and 5",
    ),
    "another part in the place of one": (
        lambda s: published("r1", "r1", [*added(s, *good("r1"))[:-1], "elsewhere"]),
        "/parts/digest",
        "not the digest",
    ),
    "no source synthesis": (lambda s: review(s, run("r1"), synthesis("r1", level="task")), "/collection", "has 0"),
    "two source syntheses": (lambda s: review(s, *good("r1"), synthesis("r1")), "/collection", "has 2"),
    "no subject of level source": (lambda s: review(s, run("r1")), "/collection", "subject of level source, and has 0"),
    "two subjects of level source": (
        lambda s: review(s, *good("r1"), run("r1", level="source", dataset_revision=None)),
        "/collection",
        "subject of level source, and has 2",
    ),
    "a review of another source": (_published_of_another, "/source_id", "the reviewed source is 'MarinSkyRL:gsm8k'"),
    "a review of another dataset revision": (
        lambda s: review(s, *good("r1"), dataset_revision="data-0"),
        "/dataset_revision",
        "of data-0, and the source is at data-1",
    ),
    "a subject at another dataset revision": (
        lambda s: review(s, run("r1"), synthesis("r1", dataset_revision="data-0"), dataset_revision=None),
        "/dataset_revision",
        "of data-0",
    ),
    "a review that is published already": (lambda s: again(s, "r1", "other"), "/review", "published already"),
    "a collection that is published already": (lambda s: again(s, "other", "r1"), "/collection", "published already"),
    "superseding a review that is not there": (lambda s: superseded("r1"), "/review", "no review"),
    "superseding a review by itself": (
        lambda s: (s.review("r1"), superseded("r1", by="r1"))[1],
        "/superseded_by",
        "itself",
    ),
    "superseding a review by one that is not there": (
        lambda s: (s.review("r1"), superseded("r1", by="r2"))[1],
        "/superseded_by",
        "publish it first",
    ),
    "superseding a review twice": (
        lambda s: (s.review("r1"), s.add(superseded("r1")), superseded("r1"))[2],
        "/review",
        "superseded already",
    ),
}

DEFECTS: Table = {
    "confirming what is open already": (lambda s: (s.add(confirmed()), confirmed())[1], "/defect", "open already"),
    "confirming as another kind than suspected": (
        lambda s: (s.add(suspected(kind="verifier")), confirmed(kind="task-import"))[1],
        "/kind",
        "known as a verifier defect",
    ),
    "confirming what was observed as it was expected": (
        lambda s: confirmed(expected="reward 0", observed=" reward 0\n"),
        "/observed",
        "is what was expected",
    ),
    "reopening what is open": (lambda s: (s.add(confirmed()), reopened())[1], "/defect", "only what is resolved"),
    "reopening what is unknown": (lambda s: reopened(), "/defect", "is unknown"),
    "withdrawing what is unknown": (lambda s: withdrawn(), "/defect", "is unknown"),
    "withdrawing what is resolved": (
        lambda s: (s.add(confirmed()), s.resolve(), withdrawn())[2],
        "/defect",
        "only what is suspected or open",
    ),
}


def resolution(story: Story, *, review: Callable[[str], list] = fixed, checked: dict | None = None, **fields):
    """A resolution that would be accepted, but for what is changed."""
    story.add(confirmed())
    validated = story.add(validation(**(checked or {})))
    story.review("fix", review, **fields)
    return resolved(validated, "fix")


def fix_with(**claim) -> Callable[[str], list]:
    return lambda collection: fixed(collection, **claim)


def _validated_too_early(story: Story) -> BaseModel:
    story.add(suspected())
    validated = story.add(validation())
    story.add(confirmed())
    story.review("fix", fixed)
    return resolved(validated, "fix")


def _validated_before_it_was_reopened(story: Story) -> BaseModel:
    decision = resolution(story)
    story.add(decision)
    story.add(reopened())
    return decision


def _reviewed_too_early(story: Story) -> BaseModel:
    story.review("fix", fixed)
    story.add(confirmed())
    return resolved(story.add(validation()), "fix")


def _reviewed_by_the_evidence(story: Story) -> BaseModel:
    story.add(confirmed(review=sha("fix")))
    validated = story.add(validation())
    story.review("fix", fixed)
    return resolved(validated, "fix")


def _superseded_review(story: Story) -> BaseModel:
    decision = resolution(story)
    story.add(superseded("fix"))
    return decision


def _unreviewed(story: Story) -> BaseModel:
    story.add(confirmed())
    return resolved(story.add(validation()), "nowhere")


def _validation_of_another(story: Story) -> BaseModel:
    story.add(confirmed("d1"))
    story.add(confirmed("d2"))
    validated = story.add(validation("d2"))
    story.review("fix", fixed)
    return resolved(validated, "fix", "d1")


def _revised_since(story: Story) -> BaseModel:
    decision = resolution(story)
    story.revise("c2", verifier_revision="verifier-2")
    return decision


RESOLUTIONS: Table = {
    "an unknown defect": (lambda s: resolved("e0", "fix"), "/defect", "is unknown"),
    "a defect that is only suspected": (
        lambda s: (s.add(suspected()), resolved("e0", "fix"))[1],
        "/defect",
        "is suspected",
    ),
    "a validation of another defect": (_validation_of_another, "/validation", "is no validation of 'd1'"),
    "a validation from before the confirmation": (_validated_too_early, "/validation", "validate the fix again"),
    "a validation from before the reopening": (
        _validated_before_it_was_reopened,
        "/validation",
        "validate the fix again",
    ),
    "a review from before the reopening": (_validated_before_it_was_reopened, "/review", "review again"),
    "a validation that does not say its dataset": (
        lambda s: resolution(s, checked={"dataset_revision": None}),
        "/validation",
        "does not say which dataset revision",
    ),
    "a validation on another verifier": (
        lambda s: resolution(s, checked={"verifier_revision": "verifier-0"}),
        "/validation",
        "covers the verifier revision verifier-0",
    ),
    "a failing input that was not replayed": (
        lambda s: resolution(s, checked={"replays": [replay("input-1")]}),
        "/validation",
        "has no replay that passed",
    ),
    "a failing input whose only replay did not pass": (
        lambda s: resolution(s, checked={"replays": [replay("input-1"), replay("input-2", passed=False)]}),
        "/validation",
        f"the failing input {sha('input-2')} has no replay that passed",
    ),
    "a replay that did not pass": (
        lambda s: resolution(s, checked={"replays": [replay("input-1"), replay("input-2", passed=False)]}),
        "/validation",
        "1 replay did not pass",
    ),
    "no control with a wrong answer": (
        lambda s: resolution(s, checked={"controls": [control("correct")]}),
        "/validation",
        "no control with an incorrect",
    ),
    "a control that did not pass": (
        lambda s: resolution(s, checked={"controls": [control(), control("correct", passed=False)]}),
        "/validation",
        "1 control did not pass",
    ),
    "a validation without evidence": (
        lambda s: resolution(s, checked={"evidence": []}),
        "/validation",
        "no evidence is cited",
    ),
    "a review that is not published": (_unreviewed, "/review", "publish the new review first"),
    "a review from before the confirmation": (_reviewed_too_early, "/review", "review again"),
    "the review that holds the defect's evidence": (_reviewed_by_the_evidence, "/review", "a new one is needed"),
    "a superseded review": (_superseded_review, "/review", "superseded"),
    "a source whose verifier changed since": (_revised_since, "/review", "the source is at verifier-2"),
    "a review without a native run": (
        lambda s: resolution(s, review=lambda c: fixed(c)[1:]),
        "/review",
        "no verified native run",
    ),
    "a native run that executed no tests": (
        lambda s: resolution(s, review=lambda c: [run(c, tests_executed=False), *fixed(c)[1:]]),
        "/review",
        "no verified native run",
    ),
    "a native run at another dataset revision": (
        lambda s: resolution(s, review=lambda c: [run(c, dataset_revision="data-0"), *fixed(c)[1:]]),
        "/review",
        "no verified native run",
    ),
    "a native run that does not say its dataset revision": (
        lambda s: resolution(s, review=lambda c: [run(c, dataset_revision=None), *fixed(c)[1:]]),
        "/review",
        "no verified native run",
    ),
    "a review that does not name the issue": (
        lambda s: resolution(s, review=fix_with(issue_url="https://github.com/example/atlas/issues/8")),
        "/review",
        "issues/7",
    ),
    "a fix that is said to be validated in words": (
        lambda s: resolution(s, review=fix_with(fix_validated="true")),
        "/review",
        "fix_validated true",
    ),
    "a fix that is said of another verifier": (
        lambda s: resolution(s, review=fix_with(verifier_revision="verifier-0")),
        "/review",
        "resolved_verifier_issues",
    ),
    "claims that are no list": (
        lambda s: resolution(
            s, review=lambda c: [*good(c), judgment(c, attributes={"resolved_verifier_issues": "all"})]
        ),
        "/review",
        "resolved_verifier_issues",
    ),
}


def gsm8k(**fields) -> BaseModel:
    return declared("c2", id="MarinSkyRL:gsm8k", **fields)


def refresh(story: Story, payload: BaseModel, stream: str = "", **fields) -> BaseModel:
    ids = [story.add(payload, stream=stream)]
    return synced("c2", ids, **{"replaces": story.environment.synced["MarinSkyRL"], **fields})


CATALOGUE: Table = {
    "a refresh that does not know the one before": (
        lambda s: refresh(s, revised("c2"), replaces=None),
        "/replaces",
        "import again",
    ),
    "a refresh that is closed already": (
        lambda s: synced("c1", replaces=s.environment.synced["MarinSkyRL"]),
        "/collection",
        "closed already",
    ),
    "a refresh with a part missing": (
        lambda s: refresh(s, revised("c2")).model_copy(update={"parts": synced("c2").parts}),
        "/parts/count",
        "names 0 parts, and 1",
    ),
    "a source of another origin": (
        lambda s: refresh(s, gsm8k(origin="Task Trove")),
        "/origin",
        "is of the origin 'Task Trove'",
    ),
    "retiring what was never declared": (
        lambda s: refresh(s, retired("c2"), stream="source/MarinSkyRL:gsm8k"),
        "/collection",
        "cannot be retired",
    ),
    "a row in the stream of another source": (
        lambda s: refresh(s, gsm8k(), stream=f"source/{SOURCE}"),
        "/collection",
        "is in the stream of",
    ),
    "an origin that is not the stream's": (
        lambda s: synced("c9", origin="Task Trove"),
        "/origin",
        "is not the origin of the stream",
    ),
}

POLICY: Table = {
    "rules adopted with another digest": (
        lambda s: (s.add(rules_adopted("one")), rules_adopted("two"))[1],
        "/digest",
        "changed rules need a new id",
    ),
    "a protocol defined otherwise": (lambda s: defined(context_window=1), "/protocol", "is defined otherwise by"),
    "adopting what is not defined": (
        lambda s: adopted("e1", "v3", replaces="atlas-difficulty-v2-65k16k"),
        "/protocol",
        "define it first",
    ),
    "adopting by another event than the definition": (
        lambda s: adopted("e0", replaces="atlas-difficulty-v2-65k16k"),
        "/definition",
        "not by e0",
    ),
    "adopting without knowing what it replaces": (lambda s: adopted("e2"), "/replaces", "not None"),
}

REFUSED: Table = PUBLICATIONS | DEFECTS | RESOLUTIONS | CATALOGUE | POLICY


@pytest.mark.parametrize("sentence", REFUSED)
def test_refused(sentence: str) -> None:
    make, place, words = REFUSED[sentence]
    story = Story().listed()
    decision = make(story)
    stream = "origin/MarinSkyRL" if sentence == "an origin that is not the stream's" else ""
    problems = story.against(decision, stream=stream)
    assert any(p.place == place and words in p.message for p in problems), problems


def test_no_sentence_is_said_twice() -> None:
    tables = (PUBLICATIONS, DEFECTS, RESOLUTIONS, CATALOGUE, POLICY)
    assert sum(map(len, tables)) == len(REFUSED)


ACCEPTED: dict[str, Case] = {
    "a publication whose parts are all there": lambda s: review(s, *good("r1")),
    "a publication that names its parts by count and digest alone": lambda s: (p := review(s, *good("r1"))).model_copy(
        update={"parts": p.parts.model_copy(update={"ids": None})}
    ),
    "a publication that does not know its dataset revision": lambda s: review(
        s, run("r1"), synthesis("r1", dataset_revision=None), dataset_revision=None
    ),
    "a bad review of a source with an open defect": lambda s: (s.add(confirmed()), review(s, *bad("r1")))[1],
    "superseding a review by another": lambda s: (s.review("r1"), s.review("r2"), superseded("r1", by="r2"))[2],
    "superseding a review by none": lambda s: (s.review("r1"), superseded("r1"))[1],
    "confirming what was suspected": lambda s: (s.add(suspected()), confirmed())[1],
    "confirming what nobody suspected": lambda s: confirmed(issue=None),
    "confirming a defect of a retired source": lambda s: (retire(s), confirmed())[1],
    "confirming again what was withdrawn": lambda s: (s.add(confirmed()), s.add(withdrawn()), confirmed())[2],
    "withdrawing what is open": lambda s: (s.add(confirmed()), withdrawn())[1],
    "reopening what is resolved": lambda s: (s.add(confirmed()), s.resolve(), reopened())[2],
    "a resolution with everything that it takes": resolution,
    "a resolution whose replay passed though it observed something else": lambda s: resolution(
        s, checked={"replays": [replay("input-1"), replay("input-2").model_copy(update={"observed": "refused"})]}
    ),
    "a resolution whose review ran at an older revision too": lambda s: resolution(
        s, review=lambda c: [run(c, dataset_revision="data-0"), *fixed(c)]
    ),
    "a refresh that follows the last one": lambda s: refresh(s, revised("c2", name="new")),
    "a refresh that retires a source": lambda s: refresh(s, retired("c2")),
    "a refresh that reinstates a source": lambda s: (
        (retire(s), s.add(reinstated("c3")))
        and synced("c3", [s.events[-1].id], replaces=s.environment.synced["MarinSkyRL"])
    ),
    "a refresh of another origin": lambda s: synced("c2", origin="Task Trove"),
    "the same rules again": lambda s: (s.add(rules_adopted()), rules_adopted())[1],
    "the same protocol defined again": lambda s: defined(),
    "another protocol adopted": lambda s: adopted(s.add(defined("v3")), "v3", replaces="atlas-difficulty-v2-65k16k"),
}


@pytest.mark.parametrize("sentence", ACCEPTED)
def test_accepted(sentence: str) -> None:
    story = Story().listed()
    assert story.against(ACCEPTED[sentence](story)) == ()


@pytest.mark.parametrize(
    ("revision", "flag"), [("verifier_revision", "--verifier-revision"), ("dataset_revision", "--dataset-revision")]
)
def test_nothing_is_resolved_on_unknown_revisions_and_the_remedy_is_named(revision: str, flag: str) -> None:
    unknown = {revision: None}
    story = Story().listed(**unknown)
    decision = resolution(story, review=fix_with(**unknown), checked=unknown, **unknown)
    problems = story.against(decision)
    assert any(p.message.endswith(f"revise the source with {flag}") for p in problems)
    assert {"/validation", "/review"} <= {p.place for p in problems}


@pytest.mark.parametrize(("named", "resolves"), [(None, True), ("d1", True), ("d2", False), (ISSUE, False)])
def test_with_the_issue_missing_a_claim_names_no_issue_or_the_defect(named: str | None, resolves: bool) -> None:
    story = Story().listed()
    story.add(confirmed(issue=None))
    validated = story.add(validation())
    story.review("fix", fix_with(issue_url=named))
    assert (story.against(resolved(validated, "fix")) == ()) == resolves


def test_all_reasons_are_given_at_once() -> None:
    story = Story().listed()
    checked = {"replays": [], "controls": [], "evidence": [], "dataset_revision": None}
    decision = resolution(story, review=good, checked=checked)
    places = [p.place for p in story.against(decision)]
    assert places == ["/validation"] * 5 + ["/review"]


def test_a_run_of_unknown_data_does_not_count_though_the_data_of_the_source_is_unknown_too() -> None:
    story = Story().listed(dataset_revision=None)
    decision = resolution(story, review=lambda c: [run(c, dataset_revision=None), *fixed(c)[1:]])
    assert any("no verified native run" in p.message for p in story.against(decision))


def test_confirming_a_defect_of_a_source_that_is_in_no_catalogue_is_refused() -> None:
    problems = Story().against(confirmed())
    assert [p.place for p in problems] == ["/source_id"]


def test_publishing_a_review_of_a_source_that_is_in_no_catalogue_is_refused() -> None:
    story = Story()
    problems = story.against(review(story, *good("r1")))
    assert [(p.place, "import the inventory" in p.message) for p in problems] == [("/source_id", True)]


def test_a_decision_of_the_server_alone_is_not_judged_here() -> None:
    fields = dict.fromkeys(EventDisregarded.model_fields, "a")
    assert Story().against(EventDisregarded.model_construct(**fields), stream="ledger") == ()


def test_a_severe_finding_does_not_keep_a_review_from_being_published() -> None:
    story = Story().listed()
    assert story.shown()["dataset_revision"] == DATA
    assert story.against(review(story, *good("r1"), judgment("r1", "reject", finding("critical")))) == ()
