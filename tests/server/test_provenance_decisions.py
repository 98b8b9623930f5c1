"""Selections and verifications at the doors of a server, under the rules that it ships."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest

from ledger.wire import log_pb2, provenance_pb2
from services.server.provenance_drafts import draft_of
from tests.server.doors import Doors, Failure, failure, request, served
from tests.server.said import asked, door, fact, record

REWARD = "reward/avg_raw_reward"
RULE = {"id": "trailing-ema", "metric": REWARD, "interval": 5}
NUMBERS = {
    "shard_files": 2,
    "shards_named": 2,
    "index_total_size": 800,
    "tensor_bytes": 800,
    "tensors_in_index": 4,
    "tensors_in_shards": 4,
}
CHECKS = [
    {"name": name, "outcome": "passed"}
    for name in ("index_parses", "shards_present", "weight_map_complete", "total_size", "not_truncated")
]


def trained(run: str, last: int = 20, best: int = 15) -> Iterator[provenance_pb2.Fact]:
    """A run whose reward rises until `best` and falls afterwards, saved every five steps."""
    yield fact("run.declared", {"run_id": run, "rl_start": {"name": "base"}, "checkpoint_interval": 5})
    yield fact("attempt.started", {"run_id": run, "attempt": 1})
    for number in range(1, last + 1):
        reward = 0.05 * number if number <= best else 0.0
        logged = {"step": number, "metrics": {REWARD: reward}}
        yield fact("steps.logged", {"run_id": run, "attempt": 1, "steps": [logged]})
        if number % 5 == 0:
            yield fact("checkpoint.committed", {"run_id": run, "attempt": 1, "step": number})


def selected(run: str, step: int = 15, **changed: Any) -> provenance_pb2.Fact:
    said = {"run_id": run, "attempt": 1, "step": step, "purpose": "export", "rule": RULE, **changed}
    return fact("checkpoint.selected", said)


def deleted(run: str, step: int = 15) -> provenance_pb2.Fact:
    return fact("checkpoint.deleted", {"run_id": run, "attempt": 1, "step": step})


def exported(export: str, run: str = "r1") -> Iterator[provenance_pb2.Fact]:
    yield fact("export.started", {"export_id": export, "checkpoint": {"run_id": run, "step": 15}, "route": "rerun"})
    yield fact("export.completed", {"export_id": export, "shard_count": 2, "total_size": 800, "tensor_count": 4})


def verified(export: str, **numbers: Any) -> provenance_pb2.Fact:
    said = {"export_id": export, "numbers": NUMBERS | numbers, "checks": CHECKS}
    return fact("export.verified", said)


def types_of(doors: Doors, stream: str) -> list[str]:
    return [orjson.loads(e.header)["type"] for e in doors.read(filter={"streams": [stream]})]


def test_the_message_of_a_refusal_names_the_field_that_it_speaks_of(either: Doors) -> None:
    record(either, *trained("r1"))
    refused = failure(lambda: record(either, selected("r1", eligible_steps=[10])))
    assert "/eligible_steps: do not hold the selected step 15" in refused.text


def test_the_checkpoint_that_the_rule_gives_is_selected_and_another_is_refused_with_the_numbers(either: Doors) -> None:
    size = record(either, *trained("r1")).size
    worse = failure(lambda: record(either, selected("r1", 20)))
    assert (worse.reason, worse.code) == ("REFUSED_BY_RULES", grpc.StatusCode.FAILED_PRECONDITION)
    assert (worse.metadata["type"], worse.metadata["stream"]) == ("checkpoint.selected", "run/r1")
    assert "/step" in worse.problems
    wrong = failure(lambda: record(either, selected("r1", 15, reward=0.9)))
    assert "0.7500" in wrong.problems["/reward"]
    assert either.size() == size
    assert record(either, selected("r1", 15, reward=0.75)).size == size + 1


def test_a_selection_is_judged_alike_at_both_doors_and_a_retry_may_change_them(either: Doors) -> None:
    record(either, *trained("r1"))
    unsaved, choice = selected("r1", 13), selected("r1", 15)
    said = [failure(lambda: record(either, unsaved)), failure(lambda: either.append(draft_of(unsaved)))]
    assert said[0].problems == said[1].problems != {}
    first = record(either, choice)
    again = either.append(draft_of(choice))
    assert (again.receipts[0].pos, again.receipts[0].already_recorded) == (first.receipts[0].pos, True)


def test_a_run_is_told_and_its_checkpoint_selected_in_one_request(either: Doors) -> None:
    assert record(either, *trained("r1"), selected("r1")).size == either.size()
    assert types_of(either, "run/r1")[-1] == "checkpoint.selected"


def test_on_a_stream_a_selection_rests_on_what_was_sent_before_it(either: Doors) -> None:
    sent = [asked(one, atomic=False) for one in (*trained("r1"), selected("r1", 20), selected("r1", 15))]
    answers = list(door(either).RecordStream(iter(sent), timeout=60))
    refused = [a.response.receipts[0].refusal.reason for a in answers]
    assert refused == [""] * (len(sent) - 2) + ["REFUSED_BY_RULES", ""]


def test_a_verification_that_does_not_add_up_is_refused_and_one_that_does_is_recorded(either: Doors) -> None:
    record(either, *exported("e1"))
    failed = failure(lambda: record(either, verified("e1", tensor_bytes=799, ghost_tensors=["lm_head.weight"])))
    assert failed.reason == "REFUSED_BY_RULES"
    assert {"/numbers/index_total_size", "/numbers/ghost_tensors"} <= set(failed.problems)
    assert "lm_head.weight" in failed.problems["/numbers/ghost_tensors"]
    record(either, verified("e1"))
    assert types_of(either, "export/e1") == ["export.started", "export.completed", "export.verified"]


def test_an_export_that_was_never_completed_is_not_verified(either: Doors) -> None:
    assert "/export_id" in failure(lambda: record(either, verified("e1"))).problems


def test_contradictory_facts_are_recorded_where_a_contradictory_decision_is_not(either: Doors) -> None:
    record(either, *trained("r1"), selected("r1"))
    ended = {"run_id": "r1", "attempt": 7, "ending": "completed", "last_step": 3}
    odd = [
        deleted("r1", 15),
        deleted("r1", 15),
        deleted("r1", 999),
        fact("attempt.ended", ended),
        fact("attempt.ended", ended | {"ending": "failed"}),
        fact("steps.logged", {"run_id": "r1", "attempt": 1, "steps": [{"step": 1, "metrics": {REWARD: "NaN"}}]}),
    ]
    assert [r.refusal.reason for r in record(either, *odd, atomic=False).receipts] == [""] * 6
    assert "deleted" in failure(lambda: record(either, selected("r1"))).text


@pytest.fixture
def two(database: str, tmp_path: Path) -> Iterator[tuple[Doors, Doors]]:
    """Two servers on one database."""
    with served(tmp_path / "one", database) as one, served(tmp_path / "two", database) as two:
        yield one, two


def test_of_a_selection_and_a_deletion_that_race_on_two_servers_one_order_holds(two: tuple[Doors, Doors]) -> None:
    for round_ in range(15):
        run, first, second = f"race{round_}", *(two if round_ % 2 else two[::-1])
        record(first, *trained(run))
        answers = _at_once(
            lambda first=first, run=run: record(first, selected(run)),
            lambda second=second, run=run: second.log.Append(request(draft_of(deleted(run)))),
        )
        assert isinstance(answers[1], log_pb2.AppendResponse), "a deletion is a fact"
        order = tuple(t for t in types_of(first, f"run/{run}") if t in {"checkpoint.selected", "checkpoint.deleted"})
        if isinstance(answers[0], log_pb2.AppendResponse):
            assert order == ("checkpoint.selected", "checkpoint.deleted")
        else:
            assert order == ("checkpoint.deleted",)
            assert "was deleted at position" in Failure(answers[0]).text


def test_of_two_trainers_that_select_on_two_servers_each_is_judged_on_what_the_other_has_left(
    two: tuple[Doors, Doors],
) -> None:
    for round_ in range(5):
        run = f"pair{round_}"
        record(two[0], *trained(run))
        right, wrong = _at_once(
            lambda run=run: record(two[0], selected(run, 15)), lambda run=run: record(two[1], selected(run, 10))
        )
        assert isinstance(right, log_pb2.AppendResponse)
        assert Failure(wrong).reason == "REFUSED_BY_RULES"
        assert types_of(two[1], f"run/{run}").count("checkpoint.selected") == 1


def _at_once(*calls: Any) -> list[Any]:
    """The answers, or the errors, of calls that start together."""
    together, answers = threading.Barrier(len(calls)), [None] * len(calls)

    def run(number: int) -> None:
        together.wait()
        try:
            answers[number] = calls[number]()
        except grpc.RpcError as error:
            answers[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers
