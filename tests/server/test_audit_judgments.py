"""Judgments at the door: which there are, what became of each, at any coordinates, and how far judges agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from ledger.core import clock
from ledger.events.administration import EventDisregarded
from ledger.wire import audit_pb2
from tests.rules.builders import SOURCE, sha
from tests.server import audited
from tests.server.audited import JUDGES, OTHER, Told, judged, tell
from tests.server.doors import Doors, failure, of, served


@pytest.fixture(scope="module", params=["atlas-page-1", "ledger-1"])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """The history under each of two rule sets: one that keeps a pool of reviews, and one that does not."""
    with served(tmp_path_factory.mktemp("audit") / "home", first_rules=request.param) as doors:
        yield tell(doors)


def ask(doors: Doors, *, at: dict[str, Any] | None = None, **fields: Any) -> audit_pb2.JudgmentsResponse:
    page = {name: fields.pop(name) for name in ("page_size", "page_token") if name in fields}
    request = audit_pb2.JudgmentsRequest(
        coordinates=audit_pb2.Coordinates(**(at or {})), filter=audit_pb2.JudgmentFilter(**fields), **page
    )
    return doors.audit.Judgments(request, timeout=20)


def ids(doors: Doors, **fields: Any) -> list[str]:
    return [j.review_id for j in ask(doors, **fields).judgments]


PARTS = {"judgment.recorded", "synthesis.recorded", "observation.recorded"}
R1 = [part.review_id for part in audited.first_review()]
R2 = [part.review_id for part in audited.second_review()]
R3 = ["r3/t2/human:someone", "r3/None/synthesis"]
LOOSE = [f"loose/t9/{JUDGES[1]}", "audit/1"]
REPLACED = f"r1/t2/{JUDGES[2]}"


def test_every_published_part_is_told_in_log_order_as_it_was_recorded(told: Told) -> None:
    found = ask(told.doors).judgments
    assert [j.review_id for j in found] == [*R1, *R2, *R3]
    events = {e.pos: e for e in told.doors.read()}
    for judgment in found:
        event, header = events[judgment.pos], orjson.loads(events[judgment.pos].header)
        payload = orjson.loads(event.payload)
        assert header["type"] in PARTS
        assert (judgment.event_id, f"source/{judgment.source_id}") == (header["id"], header["stream"])
        assert judgment.recorded_at_us == clock.from_text(header["recorded_at"])
        assert (judgment.collection, judgment.method) == (payload["collection"], payload["method"])
        assert (judgment.reviewer, judgment.verdict) == (payload["reviewer"]["id"], payload["verdict"])
        assert (judgment.level, judgment.summary) == (payload["subject"]["level"], payload["summary"])
        assert judgment.review == sha(judgment.collection)


def test_a_finding_is_told_with_its_evidence_and_the_worst_severity_stands_beside_it(told: Told) -> None:
    (found,) = (j for j in ask(told.doors, severities=["high"]).judgments)
    assert (found.review_id, found.severity) == (f"r1/t1/{JUDGES[2]}", "high")
    (finding,) = found.findings
    assert (finding.dimension, finding.kind, finding.severity) == ("grading", "issue", "high")
    assert list(finding.evidence_sha256) == [sha("trace")]
    assert not found.HasField("reviewed_at")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"source_ids": [OTHER]}, R2),
        ({"source_ids": [SOURCE, OTHER]}, [*R1, *R2, *R3]),
        ({"source_ids": ["nobody"]}, []),
        ({"task_ids": ["t2"], "source_ids": [SOURCE]}, ["r1/t2/run", *R1[5:8], "r1/t2/synthesis", R3[0]]),
        ({"reviewers": [JUDGES[1]]}, [f"r1/t1/{JUDGES[1]}", f"r1/t2/{JUDGES[1]}"]),
        ({"verdicts": ["reject"]}, [f"r1/t1/{JUDGES[2]}", R2[1]]),
        ({"methods": ["synthesis"]}, [*R1[8:], R2[2], R3[1]]),
        ({"methods": ["runtime_execution"]}, ["r1/t1/run", "r1/t2/run", "r2/t1/run"]),
        ({"methods": ["human_judgment"]}, R3[:1]),
        ({"methods": ["static_inspection"]}, []),
        ({"methods": ["static_inspection"], "include_unpublished": True}, ["audit/1"]),
        ({"severities": ["low", "high"]}, [R1[4], R1[5], "r1/t2/synthesis"]),
        ({"severities": ["none"], "methods": ["model_judgment"]}, [R1[2], R1[3], R1[6], R1[7], R2[1]]),
        ({"reviews": [sha("r2")]}, R2),
        ({"reviews": [sha("loose")], "include_unpublished": True}, []),
        ({"include_unpublished": True}, [*R1, *R2, *LOOSE, *R3]),
        ({"superseded": True}, R1),
        ({"superseded": False}, [*R2, *R3]),
    ],
)
def test_the_filter_passes_what_it_says(told: Told, fields: dict[str, Any], expected: list[str]) -> None:
    assert ids(told.doors, **fields) == expected


def test_dates_bound_from_and_before_and_an_unknown_date_passes_no_bound(told: Told) -> None:
    day = {n: clock.from_text(f"2026-10-0{n}T00:00:00Z") for n in (1, 2, 3)}
    dated = {"methods": ["model_judgment"], "source_ids": [SOURCE]}
    second = f"r1/t1/{JUDGES[1]}"
    assert ids(told.doors, reviewed_from_us=day[2], **dated) == [second]
    assert second not in ids(told.doors, reviewed_before_us=day[2], **dated)
    assert ids(told.doors, reviewed_from_us=day[2], reviewed_before_us=day[2]) == []
    everything = ids(told.doors, reviewed_from_us=0, reviewed_before_us=day[3], **dated)
    assert f"r1/t1/{JUDGES[2]}" not in everything
    assert len(everything) == 5


def test_an_opinion_is_superseded_by_its_collections_end_or_by_one_that_names_it_whichever_came_first(
    told: Told,
) -> None:
    found = {j.review_id: j for j in ask(told.doors).judgments}
    assert found[REPLACED].superseded == found[R3[0]].pos
    assert found[R1[0]].superseded == told.at["superseded"] - 1
    assert not found[R3[0]].HasField("superseded")


def test_what_came_later_is_not_known_at_an_earlier_size(told: Told) -> None:
    before = ask(told.doors, at={"size": told.at["r3"] - 1})
    assert [j.review_id for j in before.judgments] == [*R1, *R2]
    assert not any(j.HasField("superseded") for j in before.judgments)
    assert before.coordinates.size == before.coordinates.policy_size == told.at["r3"] - 1
    unfinished = ask(told.doors, at={"size": told.at["r1"] - 1})
    assert not unfinished.judgments
    at_r3 = {j.review_id: j for j in ask(told.doors, at={"size": told.at["r3"]}).judgments}
    assert [r for r, j in at_r3.items() if j.HasField("superseded")] == [REPLACED]


def test_a_judge_is_overruled_where_the_synthesis_of_the_same_subject_says_otherwise(told: Told) -> None:
    found = {j.review_id: j for j in ask(told.doors).judgments}
    said = {r: j.overruled for r, j in found.items() if j.HasField("overruled")}
    assert said == {r: r in {R1[4], R1[5], R1[6], R1[7]} for r in R1[2:8]}


def test_applicability_is_that_of_the_review_at_the_coordinates(told: Told) -> None:
    before = ask(told.doors, at={"size": told.at["r1"]}, reviews=[sha("r1")], page_size=1).judgments[0]
    shown = told.doors.source(size=told.at["r1"]).source
    assert before.applicability == shown.applicability
    assert ids(told.doors, at={"size": told.at["r1"]}, applicabilities=[shown.applicability]) == R1
    assert ids(told.doors, at={"size": told.at["r1"]}, applicabilities=["stale"]) == []
    (unpublished,) = ask(told.doors, include_unpublished=True, methods=["static_inspection"]).judgments
    assert not unpublished.HasField("applicability")


def test_rules_that_keep_a_pool_say_of_superseded_reviews_too_whether_they_apply(told: Told) -> None:
    size = told.at["superseded"]
    pool = {r.id: r.applicability for r in told.doors.source(size=size).source.review_pool}
    found = ask(told.doors, at={"size": size}, reviews=[sha("r1")], page_size=1).judgments[0]
    assert found.superseded == size - 1
    assert (found.applicability, found.HasField("applicability")) == (pool.get(sha("r1"), ""), bool(pool))


def test_pages_of_any_size_hold_the_same_and_stand_where_the_first_one_stood(told: Told) -> None:
    whole = ask(told.doors, at={"size": told.at["revised"]})
    for size in (1, 3, 7):
        request = audit_pb2.JudgmentsRequest(coordinates=audit_pb2.Coordinates(size=told.at["revised"]), page_size=size)
        pages = []
        while True:
            pages.append(told.doors.audit.Judgments(request, timeout=20))
            if not (token := pages[-1].next_page_token):
                break
            request = audit_pb2.JudgmentsRequest(page_size=size, page_token=token)
        assert [j for page in pages for j in page.judgments] == list(whole.judgments)
        assert all(page.coordinates == whole.coordinates for page in pages)
        assert {len(page.judgments) for page in pages[:-1]} == {size}


def test_a_token_goes_with_its_own_filter_and_question_alone(told: Told) -> None:
    token = ask(told.doors, page_size=1, verdicts=["keep"]).next_page_token
    assert ask(told.doors, page_size=1, verdicts=["keep"], page_token=token).judgments
    failed = failure(lambda: ask(told.doors, verdicts=["reject"], page_token=token))
    assert (failed.reason, "filter" in failed.text) == ("INVALID_ARGUMENT", True)
    assert failure(lambda: told.doors.sources(page_token=token)).reason == "INVALID_ARGUMENT"


def test_too_many_sources_in_one_filter_are_refused(told: Told) -> None:
    failed = failure(lambda: ask(told.doors, source_ids=[f"s{n}" for n in range(1_001)]))
    assert failed.reason == "TOO_LARGE"


@pytest.mark.parametrize("name", ["methods", "verdicts", "severities", "reviewer_kinds", "applicabilities"])
def test_a_value_that_a_field_cannot_have_is_refused_with_those_that_it_can(told: Told, name: str) -> None:
    failed = failure(lambda: ask(told.doors, **{name: ["unheard-of"]}))
    assert (failed.reason, name in failed.text) == ("INVALID_ARGUMENT", True)
    assert failed.remedy.startswith("They are ")


def test_a_date_outside_the_calendar_is_refused(told: Told) -> None:
    assert failure(lambda: ask(told.doors, reviewed_from_us=clock.MAX_US + 1)).reason == "INVALID_ARGUMENT"


def agree(told: Told, at: dict[str, Any] | None = None, **fields: Any) -> audit_pb2.AgreementResponse:
    request = audit_pb2.AgreementRequest(
        coordinates=audit_pb2.Coordinates(**(at or {})), filter=audit_pb2.JudgmentFilter(**fields)
    )
    return told.doors.audit.Agreement(request, timeout=20)


def test_agreement_is_reckoned_over_the_standing_judgments_of_models(told: Told) -> None:
    found = agree(told, at={"size": told.at["r1"]})
    verdicts = found.verdicts
    assert (verdicts.of, verdicts.tasks, verdicts.judgments, verdicts.unanimous) == ("verdict", 2, 6, 1)
    assert (verdicts.raw, dict(verdicts.categories)) == (pytest.approx(2 / 3), {"keep": 5, "reject": 1})
    # P = (1/3 + 1) / 2, P_e = (25 + 1) / 36
    assert verdicts.kappa == pytest.approx((2 / 3 - 26 / 36) / (10 / 36))
    assert [d.of for d in found.dimensions] == ["format", "grading"]
    assert dict(found.dimensions[1].categories) == {"issue": 1, "no issue": 5}
    assert [(j.reviewer, j.judgments, j.synthesised, j.overruled) for j in found.judges] == [
        (JUDGES[0], 2, 2, 1),
        (JUDGES[2], 2, 2, 2),
        (JUDGES[1], 2, 2, 1),
    ]
    assert found.coordinates.size == told.at["r1"]


def test_superseded_judgments_count_only_when_they_are_asked_for(told: Told) -> None:
    assert (agree(told).verdicts.tasks, agree(told).verdicts.left_out) == (0, 1)
    assert not agree(told).verdicts.HasField("raw")
    assert agree(told, superseded=True).verdicts.tasks == 2
    humans = agree(told, methods=["human_judgment"])
    assert [j.reviewer for j in humans.judges] == ["human:someone"]


def test_agreement_is_asked_of_judges_only(told: Told) -> None:
    assert failure(lambda: agree(told, methods=["synthesis", "model_judgment"])).reason == "INVALID_ARGUMENT"


def test_a_disregarded_judgment_counts_for_nothing_from_there_on(doors: Doors) -> None:
    told = tell(doors)
    taken = next(j for j in ask(doors, at={"size": told.at["r1"]}).judgments if j.verdict == "reject")
    said = EventDisregarded(pos=taken.pos, event=taken.event_id, reason="recorded for another task")
    size = doors.append(of(said, "ledger")).size
    now = ask(doors, at={"min_size": size})
    assert taken.review_id not in [j.review_id for j in now.judgments]
    assert taken.review_id in ids(doors, at={"size": size - 1})


def test_parts_that_come_after_their_publication_are_not_published(doors: Doors) -> None:
    tell(doors)
    late = judged("r1", "t1", JUDGES[0], "reject", reviewed_at="2026-11-01T00:00:00Z")
    size = doors.append(of(late)).size
    found = ask(doors, at={"min_size": size}, include_unpublished=True).judgments[-1]
    assert (found.reviewed_at, found.HasField("review")) == ("2026-11-01T00:00:00Z", False)
