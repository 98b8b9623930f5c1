"""Timelines, differences, explanations and work at the door."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from ledger.client.auditing import Auditor
from ledger.client.connection import Connection
from ledger.wire import audit_pb2
from tests.rules import builders
from tests.rules.builders import SOURCE, sha
from tests.server.audited import OTHER, Told, tell
from tests.server.databases import Databases
from tests.server.doors import Doors, failure, of, served


@pytest.fixture(
    scope="module",
    params=[("atlas-page-1", "sqlite"), ("ledger-1", "sqlite"), ("ledger-1", "postgres")],
    ids=" on ".join,
)
def told(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres: Databases
) -> Iterator[Told]:
    """The history under two rule sets, one that keeps a pool of reviews and one that does not, and on either store."""
    rules, store = request.param
    with contextlib.ExitStack() as stack:
        db = stack.enter_context(postgres.fresh()) if store == "postgres" else None
        doors = stack.enter_context(served(tmp_path_factory.mktemp("audit") / "home", db, first_rules=rules))
        yield tell(doors)


@pytest.fixture
def auditor(told: Told) -> Auditor:
    return Auditor(Connection(told.doors.channel, "test"))


def at(**coordinates: Any) -> audit_pb2.Coordinates:
    return audit_pb2.Coordinates(**coordinates)


def timeline(auditor: Auditor, source: str = SOURCE, **fields: Any) -> list[audit_pb2.TimelineEntry]:
    return [entry for page in auditor.timeline(source, **fields) for entry in page.entries]


def test_a_timeline_tells_what_happened_in_sentences_and_what_each_event_changed(auditor: Auditor) -> None:
    entries = timeline(auditor)
    assert [e.event.type for e in entries] == [
        "catalogue.synced", "review.published", "defect.suspected", "judgment.recorded", "observation.recorded",
        "defect.confirmed", "difficulty.reported", "review.published", "review.superseded", "defect.withdrawn",
        "catalogue.synced",
    ]  # fmt: skip
    published, confirmed, revised = entries[1], entries[5], entries[10]
    assert published.text == f"Published the review {sha('r1')[:12]} of 11 parts on data data-1."
    assert (len(published.parts), published.elsewhere) == (11, False)
    assert ("review", "", sha("r1")) in [(c.field, c.before, c.after) for c in published.changes]
    assert ("open_defects", False, "d1") in [(c.field, c.HasField("before"), c.after) for c in confirmed.changes]
    assert (revised.elsewhere, len(revised.parts)) == (True, 1)
    assert revised.text.startswith("Revised in the catalogue, at data data-2 and verifier verifier-1. Refreshed ")
    assert ("dataset_revision", "data-1", "data-2") in [(c.field, c.before, c.after) for c in revised.changes]


def test_a_timeline_is_told_either_way_round_in_full_or_in_short_in_pages_of_any_size(
    told: Told, auditor: Auditor
) -> None:
    short = timeline(auditor)
    assert timeline(auditor, page_size=2) == short
    assert timeline(auditor, newest_first=True, page_size=3) == short[::-1]
    full = timeline(auditor, full=True)
    stream = [e.pos for e in told.doors.read() if orjson.loads(e.header)["stream"] == f"source/{SOURCE}"]
    assert [e.event.pos for e in full if not e.elsewhere] == stream
    assert not any(e.parts for e in full)
    pages = list(auditor.timeline(SOURCE, page_size=4))
    assert {page.total for page in pages} == {len(short)}
    assert all(page.coordinates == pages[0].coordinates for page in pages)


def test_a_timeline_ends_where_it_is_asked_and_one_of_nothing_is_not_found(told: Told, auditor: Auditor) -> None:
    entries = timeline(auditor, at=at(size=told.at["suspected"]))
    assert entries[-1].event.pos == told.at["suspected"] - 1
    asked = audit_pb2.TimelineRequest(id="nobody", coordinates=at())
    assert failure(lambda: told.doors.audit.Timeline(asked, timeout=20)).reason == "NOT_FOUND"
    early = audit_pb2.TimelineRequest(id=SOURCE, coordinates=at(size=2))
    assert failure(lambda: told.doors.audit.Timeline(early, timeout=20)).reason == "NOT_FOUND"


def test_a_timeline_under_rules_that_no_generation_holds_is_folded(auditor: Auditor) -> None:
    entries = timeline(auditor, at=at(rules="atlas-code-1"))
    assert [e.event.pos for e in entries] == [e.event.pos for e in timeline(auditor)]
    assert any(c.field == "quality" for e in entries for c in e.changes)


def test_two_sizes_differ_by_what_the_timelines_between_them_say(told: Told, auditor: Auditor) -> None:
    before, after = told.at["listed"], told.at["confirmed"]
    pages = list(auditor.diff(at(size=before), at(size=after), page_size=1))
    changes = {change.id: change for page in pages for change in page.changes}
    assert set(changes) == {SOURCE, OTHER}
    assert {(p.total, p.digest, p.before.size, p.after.size) for p in pages} == {(2, pages[0].digest, before, after)}
    fields = {f.field: (f.before, f.after) for f in changes[SOURCE].fields}
    first = told.doors.source(size=before).source
    last = told.doors.source(size=after).source
    assert fields["quality"] == (first.quality, last.quality)
    assert fields["open_defects"] == ("", "d1")
    assert {r.field for r in changes[SOURCE].after} >= {"quality"}
    assert sum(pages[0].counts.values()) == sum(len(c.fields) for c in changes.values())


def test_an_answer_does_not_differ_from_itself_and_a_filter_holds_for_either_side(told: Told, auditor: Auditor) -> None:
    (same,) = auditor.diff(at(size=told.at["r1"]), at(size=told.at["r1"]))
    assert (same.total, len(same.changes)) == (0, 0)
    only = audit_pb2.SourceFilter(search="gsm")
    (page,) = auditor.diff(at(size=told.at["listed"]), at(size=told.at["confirmed"]), only)
    assert [c.id for c in page.changes] == [OTHER]


def test_two_rule_sets_differ_at_one_size(told: Told, auditor: Auditor) -> None:
    size = told.at["confirmed"]
    (page,) = auditor.diff(at(size=size, rules="atlas-page-1"), at(size=size, rules="ledger-1"))
    assert (page.before.rules, page.after.rules) == ("atlas-page-1", "ledger-1")
    assert {c.id for c in page.changes} <= {SOURCE, OTHER}


def test_the_pages_of_a_difference_go_with_their_own_filter(told: Told) -> None:
    asked = audit_pb2.DiffRequest(before=at(size=told.at["listed"]), after=at(size=told.at["confirmed"]), page_size=1)
    token = told.doors.audit.Diff(asked, timeout=20).next_page_token
    other = audit_pb2.DiffRequest(page_token=token, filter=audit_pb2.SourceFilter(search="gsm"))
    assert failure(lambda: told.doors.audit.Diff(other, timeout=20)).reason == "INVALID_ARGUMENT"


def nodes(found: Any) -> Iterator[audit_pb2.WhyNode]:
    for node in found:
        yield node
        yield from nodes(node.children)


def test_why_is_a_tree_from_what_is_shown_down_to_the_events_and_their_evidence(told: Told, auditor: Auditor) -> None:
    answer = auditor.why(SOURCE, at(size=told.at["confirmed"]))
    assert [n.text.partition(":")[0] for n in answer.tree] == list(
        dict.fromkeys(r.field for r in answer.source.reasons)
    )
    quality = next(n for n in answer.tree if n.text.startswith("quality"))
    assert (quality.kind, quality.text) == ("value", f"quality: {answer.source.quality}")
    reasons = [n for value in answer.tree for n in value.children]
    assert sorted((n.rule, n.text) for n in reasons) == sorted((r.rule, r.text) for r in answer.source.reasons)
    by_rule = {n.rule: {e.pos for e in nodes(n.children) if e.HasField("pos")} for n in reasons}
    assert all(set(r.events) <= by_rule[r.rule] for r in answer.source.reasons)
    found = list(nodes(answer.tree))
    assert {n.kind for n in found} == {"value", "reason", "event", "artifact"}
    inputs = {n.sha256 for n in found if n.text == "input-1"}
    assert inputs == {sha("input-1")}


def test_cited_parts_stand_below_the_event_that_closes_them_and_the_rest_is_counted(
    told: Told, auditor: Auditor
) -> None:
    found = list(nodes(auditor.why(SOURCE, at(size=told.at["r1"])).tree))
    published = next(n for n in found if n.text.startswith("Published the review"))
    events = [n for n in published.children if n.kind == "event"]
    parts = [n for n in events if n.HasField("pos")]
    (more,) = [n for n in events if not n.HasField("pos")]
    assert all(n.pos < published.pos for n in parts)
    assert more.text == f"… {11 - len(parts)} more"


def test_an_explanation_under_earlier_coordinates_names_no_later_event(told: Told, auditor: Auditor) -> None:
    for name in ("listed", "r1", "confirmed", "superseded"):
        size = told.at[name]
        assert all(n.pos < size for n in nodes(auditor.why(SOURCE, at(size=size)).tree))


def test_a_supersession_leads_to_the_reviews_that_it_names(told: Told, auditor: Auditor) -> None:
    found = list(nodes(auditor.why(SOURCE, at(size=told.at["superseded"])).tree))
    superseding = [n for n in found if n.text.startswith("Superseded the review")]
    for node in superseding:
        named = [n.pos for n in node.children if n.kind == "event" and n.text.startswith("Published")]
        assert named == [told.at["r1"] - 1, told.at["r3"] - 1]
    report = [n for n in found if n.text.startswith("Measured difficulty")]
    assert all(any(c.text.startswith("Defined the protocol") for c in n.children) for n in report)
    assert superseding or report


def queue(auditor: Auditor, **fields: Any) -> list[audit_pb2.QueueItem]:
    return [item for page in auditor.queue(**fields) for item in page.items]


def test_the_queue_tells_what_is_to_be_done_what_has_reusable_evidence_first(told: Told, auditor: Auditor) -> None:
    items = queue(auditor, at=at(size=told.at["measured"]))
    kinds = [i.kind for i in items]
    assert {"audit_without_synthesis", "defect_without_issue", "suspected_defect"} <= set(kinds)
    assert [bool(i.reusable) for i in items] == sorted((bool(i.reusable) for i in items), reverse=True)
    audit = next(i for i in items if i.kind == "audit_without_synthesis")
    assert (audit.source_id, list(audit.events)) == (SOURCE, [told.at["audit"] - 1])
    assert items[0].reusable
    stale = queue(auditor, kinds=["stale_review"])
    assert {i.kind for i in stale} <= {"stale_review"}


def test_work_that_was_done_is_no_longer_in_the_queue(told: Told, auditor: Auditor) -> None:
    def has(kind: str, name: str) -> bool:
        return any(i.kind == kind for i in queue(auditor, at=at(size=told.at[name])))

    assert [has("defect_without_issue", n) for n in ("audit", "confirmed", "withdrawn")] == [False, True, False]
    assert [has("audit_without_synthesis", n) for n in ("unpublished", "audit")] == [False, True]
    assert [has("suspected_defect", n) for n in ("r1", "suspected")] == [False, True]


def test_the_queue_is_paged_counted_and_filtered(told: Told, auditor: Auditor) -> None:
    whole = queue(auditor)
    pages = list(auditor.queue(page_size=1))
    assert [i for page in pages for i in page.items] == whole
    assert {(p.total, sum(p.counts.values())) for p in pages} == {(len(whole), len(whole))}
    only = audit_pb2.SourceFilter(search="gsm")
    assert {i.source_id for i in queue(auditor, filter=only)} <= {OTHER}
    failed = failure(lambda: told.doors.audit.Queue(audit_pb2.QueueRequest(kinds=["idleness"]), timeout=20))
    assert (failed.reason, "suspected_defect" in failed.remedy) == ("INVALID_ARGUMENT", True)


def test_each_question_waits_for_what_was_just_written(doors: Doors) -> None:
    told = tell(doors)
    auditor = Auditor(Connection(doors.channel, "test"))
    size = told.append("again", of(builders.suspected("d5")))
    assert timeline(auditor, at=at(min_size=size))[-1].event.pos == size - 1
    size = told.append("and again", of(builders.suspected("d6")))
    assert any("d6" in i.text for i in queue(auditor, at=at(min_size=size)))
