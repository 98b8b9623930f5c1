"""Decisions about runs and exports: judged by the rules of runs on their own stream, whoever sends them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ledger.client.drafts import Draft
from ledger.core.errors import LedgerError, Problem, Refused
from ledger.core.ids import sha256_hex
from ledger.events.administration import EventDisregarded
from ledger.log.conditions import NoMatch, StreamVersion
from ledger.rules import RuleEvent
from ledger.wire import log_pb2, provenance_pb2
from services.server.app import Application
from services.server.appending import Appender
from services.server.decisions import Decider, Decision
from services.server.provenance import Facts
from services.server.provenance_drafts import draft_of
from services.server.settings import Settings
from tests.rules import builders
from tests.server.doors import alias, of, request
from tests.server.said import asked, fact, step
from tests.server.toy_runs import ToyRuns

RULE = {"id": "by-hand"}
SHA = sha256_hex(b"a page")


def saved(number: int = 5, run: str = "r1", **fields: Any) -> provenance_pb2.Fact:
    return fact("checkpoint.committed", {"run_id": run, "attempt": 1, "step": number}, **fields)


def deleted(number: int = 5, run: str = "r1", **fields: Any) -> provenance_pb2.Fact:
    return fact("checkpoint.deleted", {"run_id": run, "step": number}, **fields)


def selected(number: int = 5, run: str = "r1", *, basis: Any = None, **fields: Any) -> provenance_pb2.Fact:
    said = {"run_id": run, "step": number, "purpose": "export", "rule": RULE}
    return fact("checkpoint.selected", said | ({"basis": basis} if basis else {}), **fields)


def completed(export: str = "e1") -> provenance_pb2.Fact:
    return fact("export.completed", {"export_id": export})


def verified(export: str = "e1") -> provenance_pb2.Fact:
    counts = dict.fromkeys(("shard_files", "shards_named", "tensors_in_index", "tensors_in_shards"), 1)
    numbers = {**counts, "index_total_size": 8, "tensor_bytes": 8}
    checks = [{"name": "index", "outcome": "passed"}]
    return fact("export.verified", {"export_id": export, "numbers": numbers, "checks": checks})


@pytest.fixture(params=["sqlite", "postgres"])
def application(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Application]:
    db = request.getfixturevalue("database") if request.param == "postgres" else None
    made = Application(Settings(tmp_path / "home", db=db))
    made.start()
    yield made
    made.close()


def decider(application: Application, **fields: Any) -> Decider:
    fields = {"run_rules": ToyRuns(), **fields}
    return Decider(application.log, application.projector.generations, application.artifacts, **fields)


class Interrupted(Decider):
    """A decider before whose answer something else is recorded: once for each draft that it is given."""

    def __init__(self, application: Application, *drafts: Draft) -> None:
        super().__init__(application.log, application.projector.generations, application.artifacts, run_rules=ToyRuns())
        self.judged_times = 0
        self._drafts = list(drafts)

    def decide(self, drafts: Sequence[log_pb2.Draft]) -> Decision:
        decision = super().decide(drafts)
        self.judged_times += 1
        if self._drafts:
            self.log.append([self._drafts.pop(0)]).result()
        return decision


def send(
    application: Application, judge: Decider, *facts: provenance_pb2.Fact, typed: bool = True, **fields: Any
) -> Any:
    appender = Appender(application.log, judge)
    if typed:
        return asyncio.run(Facts(appender).append(asked(*facts, **fields)))
    return asyncio.run(appender.append(request(*map(draft_of, facts), **fields)))


def refusal(call: Callable[[], Any]) -> LedgerError:
    with pytest.raises(Refused) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("typed", [True, False])
def test_a_selection_is_judged_through_either_door(application: Application, typed: bool) -> None:
    judge = decider(application)
    before = application.log.head().size
    refused = refusal(lambda: send(application, judge, selected(5), typed=typed))
    assert (refused.reason, refused.details["stream"]) == ("REFUSED_BY_RULES", "run/r1")
    assert refused.problems[0].place == "/step"
    assert application.log.head().size == before
    send(application, judge, saved(5), typed=typed)
    assert send(application, judge, selected(5), typed=typed).size == before + 2


def test_a_verification_is_judged_on_the_stream_of_its_export(application: Application) -> None:
    judge = decider(application)
    send(application, judge, completed("another"))
    assert "nothing was completed" in refusal(lambda: send(application, judge, verified("e1"))).message
    send(application, judge, completed("e1"))
    send(application, judge, verified("e1"))


def test_nothing_that_another_run_has_saved_can_be_selected(application: Application) -> None:
    judge = decider(application)
    send(application, judge, saved(5, "r1"))
    assert refusal(lambda: send(application, judge, selected(5, "r2"))).details["stream"] == "run/r2"


def test_a_selection_may_rest_on_earlier_facts_of_its_request_and_on_no_later_ones(application: Application) -> None:
    judge = decider(application)
    send(application, judge, saved(5, "r1"), selected(5, "r1"))
    refused = send(application, judge, selected(5, "r2"), saved(5, "r2"), atomic=False).receipts
    assert [isinstance(r, LedgerError) for r in refused] == [True, False]
    gone = send(application, judge, saved(5, "r3"), deleted(5, "r3"), selected(5, "r3"), atomic=False).receipts
    assert [isinstance(r, LedgerError) for r in gone] == [False, False, True]


def test_nothing_rests_on_a_fact_that_cannot_be_a_draft(application: Application) -> None:
    newer = saved(5)
    newer.checkpoint_committed.MergeFromString(b"\xb8\x3e\x01")
    answers = send(application, decider(application), newer, selected(5), saved(6), atomic=False).receipts
    assert [a.reason if isinstance(a, LedgerError) else "" for a in answers] == [
        "INVALID_ARGUMENT",
        "REFUSED_BY_RULES",
        "",
    ]


def test_a_refused_selection_leaves_the_facts_beside_it_recorded(application: Application) -> None:
    answers = send(application, decider(application), step(1), selected(5), step(2), atomic=False).receipts
    assert [isinstance(a, LedgerError) for a in answers] == [False, True, False]
    events = application.log.store.read_all(0, application.log.head().size)
    assert [e.type for e in events if e.stream == "run/r1"] == ["steps.logged"] * 2


def test_a_selection_sent_twice_is_answered_twice_though_the_rules_would_refuse_it_now(
    application: Application,
) -> None:
    judge, choice = decider(application), selected(5)
    first = send(application, judge, saved(5), choice)
    again = send(application, judge, choice)
    assert again.receipts[0].pos == first.receipts[1].pos
    assert again.receipts[0].already_recorded
    assert "selected already" in refusal(lambda: send(application, judge, selected(5))).message


def test_of_two_trainers_that_select_at_once_one_wins_and_the_other_hears_of_it(application: Application) -> None:
    send(application, decider(application), saved(5), saved(10))
    judge = Interrupted(application, draft_of(selected(10)))
    assert "step 10 is selected already" in refusal(lambda: send(application, judge, selected(5))).message
    assert judge.judged_times == 2


def test_a_checkpoint_that_is_deleted_while_it_is_selected_is_not_selected(application: Application) -> None:
    send(application, decider(application), saved(5))
    judge = Interrupted(application, draft_of(deleted(5)))
    assert "no checkpoint of step 5" in refusal(lambda: send(application, judge, selected(5))).message
    assert judge.judged_times == 2


def test_a_checkpoint_may_be_deleted_after_it_was_selected_since_that_is_a_fact(application: Application) -> None:
    judge = decider(application)
    send(application, judge, saved(5), selected(5))
    send(application, judge, deleted(5))
    types = [e.type for e in application.log.store.read_all(0, application.log.head().size) if e.stream == "run/r1"]
    assert types == ["checkpoint.committed", "checkpoint.selected", "checkpoint.deleted"]


def test_many_that_race_to_select_and_to_delete_leave_one_order_that_the_rules_allow(application: Application) -> None:
    judge = decider(application)
    typed = Facts(Appender(application.log, judge))

    async def race(run: str) -> list[Any]:
        calls = [selected(5, run), selected(5, run), deleted(5, run), selected(5, run)]
        return await asyncio.gather(*(typed.append(asked(c)) for c in calls), return_exceptions=True)

    async def races() -> None:
        for number in range(8):
            run = f"race{number}"
            await typed.append(asked(saved(5, run)))
            answers = await race(run)
            assert all(not isinstance(a, Exception) or isinstance(a, Refused) for a in answers)
            events = application.log.store.read_all(0, application.log.head().size)
            order = [e.type.partition(".")[2] for e in events if e.stream == f"run/{run}"]
            assert order in (["committed", "deleted"], ["committed", "selected", "deleted"])
            assert sum(not isinstance(a, Exception) for a in answers) == len(order) - 1

    asyncio.run(races())


def test_what_moves_elsewhere_does_not_disturb_a_selection(application: Application) -> None:
    send(application, decider(application), saved(5))
    judge = Interrupted(application, draft_of(deleted(5, "r2")), alias())
    send(application, judge, selected(5))
    assert judge.judged_times == 1


def test_a_selection_is_guarded_by_its_stream_and_by_what_is_disregarded_and_by_nothing_of_sources(
    application: Application,
) -> None:
    judge = decider(application)
    size = send(application, judge, saved(5), saved(10)).size
    guards = judge.decide([draft_of(selected(5))]).guards
    assert guards[0] == StreamVersion("run/r1", 2)
    assert guards[1:] == [NoMatch(("event.disregarded", "projection.promoted"), (), size)]


def test_a_selection_is_judged_without_the_events_that_count_for_nothing(application: Application) -> None:
    judge = decider(application)
    made = saved(5)
    pos = send(application, judge, made).receipts[0].pos
    gone = EventDisregarded(pos=pos, event=made.id, reason="it was another run's")
    racing = Interrupted(application, of(gone, "ledger"))
    assert "no checkpoint of step 5" in refusal(lambda: send(application, racing, selected(5))).message
    assert racing.judged_times == 2
    assert "no checkpoint of step 5" in refusal(lambda: send(application, judge, selected(5))).message


def test_a_disregard_in_the_same_request_counts_for_the_selection_after_it(application: Application) -> None:
    judge = decider(application)
    made = saved(5)
    pos = send(application, judge, made).receipts[0].pos
    gone = of(EventDisregarded(pos=pos, event=made.id, reason="it was another run's"), "ledger")
    drafts = [draft_of(selected(5, id="before")), gone, draft_of(selected(5, id="after"))]
    assert list(judge.decide(drafts).refused) == [2]
    assert list(judge.decide(drafts[:1]).refused) == []


def test_an_event_that_the_rules_cannot_take_bars_no_selection(application: Application) -> None:
    judge = decider(application)
    odd = {"run_id": "r1", "kind": "other", "statement": "it looked odd"}
    send(application, judge, saved(5), fact("anomaly.claimed", odd))
    send(application, judge, fact("anomaly.claimed", odd), selected(5))


def test_a_selection_cites_only_what_is_stored(application: Application) -> None:
    judge = decider(application)
    basis = {"kind": "claimed", "document": {"name": "README.md", "sha256": SHA, "size": 6}}
    refused = refusal(lambda: send(application, judge, saved(5), selected(5, basis=basis)))
    assert refused.reason == "ARTIFACT_MISSING"
    with application.artifacts.put(SHA, 6) as upload:
        upload.write(b"a page")
        upload.finish()
    send(application, judge, saved(5), selected(5, basis=basis))


def test_a_log_whose_source_rules_this_server_does_not_carry_still_takes_selections(application: Application) -> None:
    judge = decider(application, rule_sets={})
    send(application, judge, saved(5), selected(5))
    drafts = [of(builders.confirmed()), *map(draft_of, (saved(5, "r2"), selected(5, "r2")))]
    assert {index: error.reason for index, error in judge.decide(drafts).refused.items()} == {0: "RULES_CHANGED"}


def test_a_source_s_decision_does_not_ask_the_rules_of_runs(application: Application) -> None:
    class Silent(ToyRuns):
        def initial_environment(self) -> None:
            raise AssertionError("nobody asked about a run")

    judge = decider(application, run_rules=Silent())
    assert judge.decide([of(builders.reopened("d1"))]).refused[0].reason == "REFUSED_BY_RULES"
    with pytest.raises(AssertionError, match="nobody asked"):
        judge.decide([draft_of(selected(5))])


def test_rules_that_stumble_over_a_decision_refuse_it_alone(application: Application) -> None:
    class Stumbling(ToyRuns):
        def decide(self, event: RuleEvent, facts: Any, environment: None) -> tuple[Problem, ...]:
            raise KeyError(event.type)

    judge = decider(application, run_rules=Stumbling())
    answers = send(application, judge, step(1), selected(5), step(2), atomic=False).receipts
    assert [a.reason if isinstance(a, LedgerError) else "" for a in answers] == ["", "INTERNAL", ""]
    assert "toy-runs cannot judge checkpoint.selected on run/r1: KeyError" in answers[1].message
    assert refusal(lambda: send(application, judge, selected(5))).reason == "INTERNAL"


def test_facts_of_a_run_are_not_judged_at_all(application: Application) -> None:
    class Unasked(Decider):
        def decide(self, drafts: Sequence[log_pb2.Draft]) -> Decision:
            raise AssertionError("a fact was judged")

    judge = Unasked(application.log, application.projector.generations, application.artifacts, run_rules=ToyRuns())
    send(application, judge, step(1), saved(5), deleted(5), completed())
    with pytest.raises(AssertionError, match="was judged"):
        send(application, judge, selected(5))
