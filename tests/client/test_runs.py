"""The client's questions about runs, each against a ledger that answers them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ledger.client import connect
from ledger.client.reader import coordinates
from ledger.client.runs import Runs
from ledger.core.errors import InvalidInput, NotFound
from ledger.wire import runs_pb2
from services.server.app import in_process
from services.server.settings import Settings
from tests.audit.running import campaign, declared, saved, steps, taken, told
from tests.rules import builders
from tests.rules.builders import SOURCE
from tests.server.doors import Doors, of, opened


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("client") / "home"
    with in_process(Settings(home=home)) as bound, opened(bound) as doors:
        doors.list_source()
        tell(doors)
        yield bound


def tell(doors: Doors) -> None:
    arms = (declared(name, taken(), campaign_id="sweep") for name in ("a", "b", "c"))
    doors.append(*told(campaign("sweep"), *arms, steps("a", {1: 0.1, 2: 0.2}), saved("a", 2)))
    doors.append(of(builders.suspected("d1")))
    doors.source(min_size=doors.size())


@pytest.fixture
def runs(address: str) -> Iterator[Runs]:
    with connect(address) as connection:
        yield Runs(connection)


def test_pages_of_a_list_follow_one_another_to_the_end(runs: Runs) -> None:
    pages = list(runs.list(page_size=2))
    assert [[run.id for run in page.runs] for page in pages] == [["a", "b"], ["c"]]
    assert [page.next_page_token == "" for page in pages] == [False, True]
    failed = runs_pb2.RunFilter(statuses=["failed"])
    assert [page.total for page in runs.list(failed)] == [0]


def test_a_run_and_its_steps_are_asked_for_by_its_id(runs: Runs) -> None:
    found = runs.run("a")
    assert [checkpoint.step for checkpoint in found.run.checkpoints] == [2]
    at = coordinates(found.coordinates.size)
    rows = [row for page in runs.steps("a", at, keys=["none"], lineage_of_step=2) for row in page.rows]
    assert [(row.step, dict(row.metrics)) for row in rows] == [(1, {}), (2, {})]
    assert [row.step for page in runs.steps("a", lineage_of_step=1, lineage_of_attempt=1) for row in page.rows] == [1]


def test_a_sweep_can_be_asked_to_compare_what_is_unlike(runs: Runs) -> None:
    assert len(runs.sweep("sweep").groups) == 1
    (group,) = runs.sweep("sweep", compare_unlike=True).groups
    assert list(group.ranking) == ["a", "b", "c"]


def test_a_lineage_goes_as_far_and_in_the_direction_that_is_asked(runs: Runs) -> None:
    near = runs.lineage("run/a", depth=1, direction="up")
    assert {node.node for node in near.nodes} == {"run/a", f"source/{SOURCE}", "base/org/base"}
    assert {node.distance for node in runs.lineage("run/a").nodes} == {-1, 0, 1}


def test_a_blast_radius_is_asked_of_a_source_or_of_an_event(runs: Runs) -> None:
    of_source = runs.blast_radius(SOURCE)
    of_event = runs.blast_radius(int(runs.turned().turns[0].pos))
    assert [one.run.id for one in of_source.affected] == [one.run.id for one in of_event.affected] == ["a", "b", "c"]
    assert (of_source.event_type, of_event.event_type) == ("", "defect.suspected")


def test_turns_are_asked_of_some_runs_and_since_a_size(runs: Runs) -> None:
    (turn,) = runs.turned(["b"]).turns
    assert list(turn.runs) == ["b"]
    assert not runs.turned(["b"], since=turn.pos + 1).turns


def test_a_check_sends_the_requirement_and_the_revisions(runs: Runs) -> None:
    assert not runs.check([SOURCE]).passed
    pinned = {"dataset_revisions": {SOURCE: builders.DATA}, "verifier_revisions": {SOURCE: builders.VERIFIER}}
    assert runs.check([SOURCE], require="any", **pinned).passed
    other = {"dataset_revisions": {SOURCE: "another"}, "verifier_revisions": {SOURCE: "another"}}
    (verdict,) = runs.check([SOURCE], require="any", **other).verdicts
    assert [reason.partition(" is ")[0] for reason in verdict.reasons] == ["The data", "The verifier"]


def test_what_a_ledger_refuses_is_raised_with_its_remedy(runs: Runs) -> None:
    with pytest.raises(NotFound) as missing:
        runs.run("none")
    assert missing.value.remedy
    with pytest.raises(NotFound):
        next(iter(runs.steps("none")))
    with pytest.raises(InvalidInput):
        runs.check([])
