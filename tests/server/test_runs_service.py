"""Questions about runs at the door: one story on either store, every call of the service."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest

from ledger.client.connection import Connection
from ledger.client.drafts import Draft
from ledger.client.runs import Runs
from ledger.core import merkle
from ledger.core.errors import NotFound
from ledger.core.ids import new_id
from ledger.events import REGISTRY, EventType
from ledger.events.examples import example
from ledger.rules.sets import rules_digest
from ledger.wire import audit_pb2, log_pb2, runs_pb2, runs_pb2_grpc
from tests.audit.running import (
    OTHER,
    campaign,
    declared,
    ended,
    exported,
    exporting,
    logs,
    model,
    saved,
    selected,
    steps,
    taken,
    told,
    traces,
)
from tests.rules import builders
from tests.rules.builders import SOURCE
from tests.server.databases import Databases
from tests.server.doors import BY, Doors, failure, of, served


class Story:
    """A source reviewed, a sweep of two arms over two sources, an export, a defect after it all."""

    def __init__(self, doors: Doors) -> None:
        self.doors = doors
        doors.put_named("trace", "quality-reviews.json", "input-1", "input-2")
        parts = [of(builders.declared("c1", id=s), f"source/{s}") for s in (SOURCE, OTHER)]
        doors.append(*parts, of(builders.synced("c1", [p.id for p in parts])))
        doors.publish("r1", builders.good("r1"))
        self.started = self.tell(campaign("sweep"), declared("a", taken(), campaign_id="sweep"))
        self.tell(steps("a", {1: 0.2, 2: 0.6, 3: "NaN", 4: 0.4}), saved("a", 2), saved("a", 4))
        self.selected = self.tell(selected("a", 4), traces("a"), logs("a"))
        self.tell(exporting("e", "a", 4), exported("e"), model("e", "org/m"), ended("a", "failed"))
        self.tell(declared("b", taken(OTHER), campaign_id="sweep"), steps("b", {1: 0.1}))
        self.size = int(doors.append(of(builders.confirmed("d1"))).size)
        self.defect = self.size - 1
        doors.source(SOURCE, min_size=self.size)

    def tell(self, *payloads: Any) -> int:
        return int(self.doors.append(*told(*payloads), atomic=False).size)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def story(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres: Databases
) -> Iterator[Story]:
    with contextlib.ExitStack() as stack:
        db = stack.enter_context(postgres.fresh()) if request.param == "postgres" else None
        yield Story(stack.enter_context(served(tmp_path_factory.mktemp("runs") / "home", db)))


@pytest.fixture
def runs(story: Story) -> Runs:
    return Runs(Connection(story.doors.channel, "test"))


def at(**coordinates: Any) -> audit_pb2.Coordinates:
    return audit_pb2.Coordinates(**coordinates)


def test_a_run_is_answered_with_its_sources_then_and_now_as_the_audit_shows_them(story: Story, runs: Runs) -> None:
    found = runs.run("a", at(size=story.size))
    (source,) = found.sources
    for shown, size in (
        (source.at_start, source.start_size),
        (source.at_selection, source.selection_size),
        (source.now, story.size),
    ):
        assert shown == story.doors.source(SOURCE, size=size).source
    assert [source.at_start.quality, source.now.quality] == ["good", "some_issues"]
    assert list(source.turned) == [story.defect]
    assert (found.run.summary.status, [e.id for e in found.exports], found.campaign.id) == ("failed", ["e"], "sweep")
    assert [(c.step, c.selected) for c in found.run.checkpoints] == [(2, False), (4, True)]


def test_every_answer_says_where_it_stands_and_under_which_rules(story: Story, runs: Runs) -> None:
    answers = [
        runs.run("a"), next(runs.list()), next(iter(runs.steps("a"))), runs.sweep("sweep"), runs.lineage("run/a"),
        runs.blast_radius(SOURCE), runs.turned(),
    ]  # fmt: skip
    for answer in answers:
        where = answer.coordinates
        assert (where.size, where.final, where.rules) == (story.size, False, "")
        assert (where.run_rules, where.run_rules_digest) == ("training-1", rules_digest("training-1"))
    named = runs.run("a", at(size=story.size, rules="now")).coordinates
    assert (named.rules, named.final) == ("ledger-1", False)
    assert runs.run("a", at(size=story.size)).coordinates.final


def test_asked_again_at_the_coordinates_of_an_answer_the_answer_is_the_same(story: Story, runs: Runs) -> None:
    first = runs.run("a")
    again = runs.run("a", at(size=first.coordinates.size, policy_size=first.coordinates.policy_size))
    first.coordinates.final = again.coordinates.final
    assert first.SerializeToString(deterministic=True) == again.SerializeToString(deterministic=True)


def test_runs_come_in_pages_that_stand_where_the_first_one_stood(story: Story, runs: Runs) -> None:
    pages = list(runs.list(page_size=1))
    assert [r.id for page in pages for r in page.runs] == ["a", "b"]
    assert {(page.total, page.coordinates.size) for page in pages} == {(2, story.size)}
    assert [r.id for page in runs.list(runs_pb2.RunFilter(statuses=["failed"])) for r in page.runs] == ["a"]
    stub = runs_pb2_grpc.RunsStub(story.doors.channel)
    token = pages[0].next_page_token
    wrong = runs_pb2.ListRunsRequest(page_token=token, filter=runs_pb2.RunFilter(search="x"))
    assert failure(lambda: stub.ListRuns(wrong)).reason == "INVALID_ARGUMENT"


def test_steps_are_streamed_with_every_value_and_where_they_stand_once(story: Story, runs: Runs) -> None:
    pages = list(runs.steps("a", at(size=story.size), lineage_of_step=4))
    rows = [row for page in pages for row in page.rows]
    assert [row.step for row in rows] == [1, 2, 3, 4]
    assert str(rows[2].metrics["reward/avg_raw_reward"]) == "nan"
    assert rows[3].ema == pytest.approx((0.2 * 2 / 3 + 0.6 / 3) * 2 / 3 + 0.4 / 3)
    assert [page.HasField("coordinates") for page in pages] == [True, *[False] * (len(pages) - 1)]


def test_a_stream_of_steps_that_its_caller_leaves_keeps_nobody_waiting(story: Story, runs: Runs) -> None:
    for _ in range(8):
        stream = runs.steps("a")
        next(stream)
        stream.close()
    assert [row.step for page in runs.steps("b") for row in page.rows] == [1]


def test_a_sweep_sets_its_arms_side_by_side(story: Story, runs: Runs) -> None:
    found = runs.sweep("sweep")
    assert [(arm.run.id, arm.varies, arm.end_step, arm.group) for arm in found.arms] == [
        ("a", SOURCE, 4, 1), ("b", OTHER, 1, 1),
    ]  # fmt: skip
    assert [list(group.ranking) for group in found.groups] == [["a", "b"]]
    assert [point.step for point in found.arms[0].curve] == [1, 2, 3, 4]


def test_lineage_leads_from_a_source_to_a_published_model(story: Story, runs: Runs) -> None:
    found = runs.lineage(f"source/{SOURCE}", direction="down")
    assert {node.node: node.distance for node in found.nodes}["model/org/m"] == 4
    assert found.nodes[0].state == "some_issues"
    assert {edge.relation for edge in found.edges} == {"trained_on", "saved", "exported_from", "published_as"}


def test_a_defect_leads_to_the_runs_that_took_its_source(story: Story, runs: Runs) -> None:
    found = runs.blast_radius(story.defect)
    (one,) = found.affected
    assert (found.source_id, found.event_type) == (SOURCE, "defect.confirmed")
    assert (one.run.id, one.match, one.known_at_start) == ("a", "unknown_revision", False)
    assert (one.quality_at_start, list(one.models), list(one.exports)) == ("good", ["org/m"], ["e"])


def test_what_turned_is_told_to_the_runs_that_had_taken_the_source(story: Story, runs: Runs) -> None:
    (turn,) = runs.turned().turns
    assert (turn.pos, turn.source_id, list(turn.runs)) == (story.defect, SOURCE, ["a"])
    assert (turn.before_quality, turn.after_quality) == ("good", "some_issues")
    assert not runs.turned(["b"]).turns


def test_a_check_says_what_stands_against_each_source_and_what_it_rests_on(story: Story, runs: Runs) -> None:
    before = runs.check([SOURCE], at(size=story.defect), dataset_revisions={SOURCE: builders.DATA})
    assert (before.passed, before.require) == (True, "good")
    now = runs.check([SOURCE, OTHER, SOURCE, "A:none"])
    assert not now.passed
    assert [(v.source_id, v.passed, v.HasField("source")) for v in now.verdicts] == [
        (SOURCE, False, True), (OTHER, False, True), ("A:none", False, False),
    ]  # fmt: skip
    assert any("defect d1" in reason for reason in now.verdicts[0].reasons)
    assert runs.check([SOURCE], require="some_issues").passed


def test_the_root_of_a_check_is_that_of_the_logs_leaves(story: Story, runs: Runs) -> None:
    events = story.doors.read()
    info = story.doors.log.GetInfo(log_pb2.GetInfoRequest())
    for size in (0, 1, story.started, story.size):
        found = runs.check([SOURCE], at(size=size), require="any")
        peaks = merkle.extend(0, [], [event.leaf_hash for event in events[:size]])
        assert (found.root_hash, found.origin) == (merkle.root(peaks).hex(), info.origin)


def test_a_difference_names_the_runs_that_took_the_source_that_moved(story: Story) -> None:
    asked = audit_pb2.DiffRequest(before=at(size=story.defect), after=at(size=story.size))
    assert [(c.id, list(c.runs)) for c in story.doors.audit.Diff(asked).changes] == [(SOURCE, ["a"])]


def test_a_run_is_not_known_before_its_first_event(story: Story, runs: Runs) -> None:
    with pytest.raises(NotFound):
        runs.run("a", at(size=story.started - 1))
    assert not [r for page in runs.list(at=at(size=story.started - 2)) for r in page.runs]


@pytest.mark.parametrize(
    ("call", "asked", "code"),
    [
        ("RunAsOf", runs_pb2.RunAsOfRequest(id="none"), "NOT_FOUND"),
        ("RunAsOf", runs_pb2.RunAsOfRequest(), "INVALID_ARGUMENT"),
        ("RunAsOf", runs_pb2.RunAsOfRequest(id="a\x00"), "NOT_FOUND"),
        ("RunAsOf", runs_pb2.RunAsOfRequest(id="a", coordinates=at(rules="none")), "NOT_FOUND"),
        ("RunAsOf", runs_pb2.RunAsOfRequest(id="a", coordinates=at(size=10**6)), "NOT_FOUND"),
        ("ListRuns", runs_pb2.ListRunsRequest(filter=runs_pb2.RunFilter(statuses=["x"])), "INVALID_ARGUMENT"),
        ("ListRuns", runs_pb2.ListRunsRequest(page_token="x"), "INVALID_ARGUMENT"),
        ("Sweep", runs_pb2.SweepRequest(campaign_id="none"), "NOT_FOUND"),
        ("Lineage", runs_pb2.LineageRequest(node="x"), "INVALID_ARGUMENT"),
        ("Lineage", runs_pb2.LineageRequest(node="run/none"), "NOT_FOUND"),
        ("BlastRadius", runs_pb2.BlastRadiusRequest(), "INVALID_ARGUMENT"),
        ("BlastRadius", runs_pb2.BlastRadiusRequest(event_pos=0), "INVALID_ARGUMENT"),
        ("BlastRadius", runs_pb2.BlastRadiusRequest(event_pos=2**63), "NOT_FOUND"),
        ("BlastRadius", runs_pb2.BlastRadiusRequest(source_id="\x00"), "NOT_FOUND"),
        ("Turned", runs_pb2.TurnedRequest(runs=["none"]), "NOT_FOUND"),
        ("Check", runs_pb2.CheckRequest(), "INVALID_ARGUMENT"),
        ("Check", runs_pb2.CheckRequest(source_ids=[SOURCE], require="x"), "INVALID_ARGUMENT"),
    ],
)
def test_what_cannot_be_answered_fails_with_a_remedy(story: Story, call: str, asked: Any, code: str) -> None:
    stub = runs_pb2_grpc.RunsStub(story.doors.channel)
    failed = failure(lambda: getattr(stub, call)(asked, timeout=20))
    assert (failed.code.name, bool(failed.remedy)) == (code, True)


@pytest.mark.parametrize("asked", [{"id": "none"}, {"id": "a", "lineage_of_step": 9}])
def test_a_stream_of_steps_that_there_are_not_fails_before_its_first_page(story: Story, asked: dict[str, Any]) -> None:
    stub = runs_pb2_grpc.RunsStub(story.doors.channel)
    failed = failure(lambda: list(stub.Steps(runs_pb2.StepsRequest(**asked), timeout=20)))
    assert failed.code is grpc.StatusCode.NOT_FOUND


def test_sources_are_shown_under_the_rules_of_each_size_and_what_new_rules_move_names_its_runs(tmp_path: Path) -> None:
    with served(tmp_path / "home", first_rules="atlas-page-1") as doors:
        story, asking = Story(doors), Runs(Connection(doors.channel, "test"))
        # A review whose verifier revision nobody executed: the two rule sets differ on it.
        doors.publish("r2", builders.good("r2"), verifier_revision_basis="catalogue")
        doors.adopt("ledger-1")
        doors.rebuild("ledger-1")
        moves = {change.id: list(change.runs) for change in doors.diff("ledger-1").changes}
        assert moves == {SOURCE: ["a"]}
        doors.promote("ledger-1")
        (source,) = asking.run("a", at(min_size=doors.size())).sources
        assert source.at_start == doors.source(SOURCE, size=source.start_size, rules="atlas-page-1").source
        assert source.now == doors.source(SOURCE, rules="ledger-1").source
        assert source.at_start != doors.source(SOURCE, size=source.start_size, rules="ledger-1").source
        (named,) = asking.run("a", at(size=story.size, rules="ledger-1")).sources
        assert named.at_start == doors.source(SOURCE, size=named.start_size, rules="ledger-1").source


def test_whatever_the_vocabulary_can_say_of_a_run_can_be_answered(tmp_path: Path) -> None:
    with served(tmp_path / "home") as doors:
        drafts = [draft_of(kind) for kind in REGISTRY if kind.family in {"training", "export"}]
        # What is decided the rules may refuse: a selection, a verification. What happened is recorded whatever it says.
        size, asking = doors.append(*drafts, atomic=False).size, Runs(Connection(doors.channel, "test"))
        streams = {draft.stream for draft in drafts}
        assert {stream.partition("/")[0] for stream in streams} == {"run", "export", "campaign"}
        for stream in sorted(streams):
            kind, _, name = stream.partition("/")
            if kind == "run":
                assert asking.run(name, at(min_size=size)).run.summary.id == name
                assert list(asking.steps(name, at(min_size=size)))
            if kind == "campaign":
                assert asking.sweep(name, at(min_size=size), compare_unlike=True).campaign.id == name
            else:
                assert asking.lineage(stream, at(min_size=size)).nodes
        listed = {run.id for page in asking.list() for run in page.runs}
        assert listed == {stream.partition("/")[2] for stream in streams if stream.startswith("run/")}


def draft_of(kind: EventType) -> Draft:
    """The example of a type, on the stream that it names."""
    body = example(kind.type, kind.version)
    said = orjson.loads(body)
    stream = next((f"{of_}/{said[f'{of_}_id']}" for of_ in kind.streams if f"{of_}_id" in said), None)
    subject = said.get("subject")
    named = stream or f"{subject['kind'] if subject['kind'] in kind.streams else 'run'}/{subject['id']}"
    return Draft(id=new_id(), type=kind.type, stream=named, payload=body, actor=BY)


def test_an_answer_waits_for_what_was_just_written(tmp_path: Path) -> None:
    with served(tmp_path / "home") as doors:
        asking, found = Runs(Connection(doors.channel, "test")), []
        size = doors.size() + 1
        asked = threading.Thread(target=lambda: found.append(asking.run("late", at(min_size=size))))
        asked.start()
        doors.append(*told(declared("late")))
        asked.join(20)
        assert found[0].run.summary.id == "late"
        assert found[0].coordinates.size >= size
