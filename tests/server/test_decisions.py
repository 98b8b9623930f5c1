"""Decisions at the door: judged on what the log holds, once, whoever asks at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import grpc
import pytest

from ledger.client.drafts import Draft
from ledger.events.administration import EventDisregarded, ProjectionPromoted
from ledger.projections.promotions import in_force
from ledger.rules import RuleEvent
from ledger.rules.atlas_page_1.model import Facts
from ledger.rules.atlas_page_1.rule_set import AtlasPage1
from ledger.wire import log_pb2
from services.server.app import Application
from services.server.appending import DECISION_TRIES, Appender
from services.server.decisions import Decider, Decision
from services.server.settings import Settings
from tests.rules import builders
from tests.server.doors import Doors, alias, failure, of, request, served

EVIDENCE = ("input-1", "input-2")


@pytest.fixture
def listed(either: Doors) -> Doors:
    """A source in the catalogue, and the evidence of a defect stored."""
    either.list_source()
    either.put_named(*EVIDENCE)
    return either


def test_a_decision_that_the_rules_refuse_says_every_reason_and_records_nothing(listed: Doors) -> None:
    listed.put_named("quality-reviews.json")
    before = listed.size()
    failed = failure(lambda: listed.append(of(builders.published("r", "r", ["nothing"]))))
    assert (failed.reason, failed.code) == ("REFUSED_BY_RULES", grpc.StatusCode.FAILED_PRECONDITION)
    assert {"/parts/count", "/parts/digest", "/parts/ids", "/collection"} <= set(failed.problems)
    assert (failed.metadata["type"], failed.metadata["stream"]) == ("review.published", f"source/{builders.SOURCE}")
    assert listed.size() == before


def test_a_review_is_published_with_its_parts_in_one_request(listed: Doors) -> None:
    answer = listed.publish("r1", builders.good("r1"))
    assert listed.source(min_size=answer.size).source.quality == "good"


def test_parts_may_go_first_and_the_closing_event_alone_after_them(listed: Doors) -> None:
    listed.put_named("trace", "quality-reviews.json")
    parts = [of(part) for part in builders.good("r1")]
    size = listed.append(*parts, atomic=False).size
    assert listed.source(min_size=size).source.quality == "unreviewed"
    answer = listed.append(of(builders.published("r1", "r1", [p.id for p in parts])))
    assert listed.source(min_size=answer.size).source.quality == "good"


def test_a_closing_event_that_cites_missing_bytes_is_refused_whole(listed: Doors) -> None:
    listed.put_named("quality-reviews.json")
    parts = [of(part) for part in builders.good("r1")]
    closing = of(builders.published("r1", "r1", [p.id for p in parts]))
    before = listed.size()
    failed = failure(lambda: listed.append(*parts, closing))
    assert failed.reason == "ARTIFACT_MISSING"
    assert set(failed.problems) == {f"event {p.id}" for p in parts}
    assert builders.sha("trace") in failed.text
    assert listed.size() == before
    listed.put_named("trace")
    assert listed.append(*parts, closing).size == before + len(parts) + 1


def test_parts_that_are_stored_already_are_looked_through_for_missing_bytes(listed: Doors) -> None:
    listed.put_named("quality-reviews.json")
    parts = [of(part) for part in builders.good("r1")]
    size = listed.append(*parts, atomic=False).size
    failed = failure(lambda: listed.append(of(builders.published("r1", "r1", [p.id for p in parts]))))
    assert failed.reason == "ARTIFACT_MISSING"
    assert listed.size() == size


def test_a_size_that_is_not_the_stored_one_counts_as_missing(listed: Doors) -> None:
    confirmed = builders.confirmed()
    wrong = confirmed.native_inputs[0].model_copy(update={"size": 999})
    bad = confirmed.model_copy(update={"native_inputs": [wrong, *confirmed.native_inputs[1:]]})
    assert failure(lambda: listed.append(of(bad))).reason == "ARTIFACT_MISSING"


def test_a_decision_sent_twice_is_answered_twice_though_the_rules_would_refuse_it_now(listed: Doors) -> None:
    decision = of(builders.confirmed())
    first = listed.append(decision)
    again = listed.append(decision)
    assert (again.receipts[0].already_recorded, again.receipts[0].pos) == (True, first.receipts[0].pos)
    refused = failure(lambda: listed.append(of(builders.confirmed())))
    assert "confirmed and open already" in refused.text
    twice = listed.append(decision, decision, atomic=False)
    assert [r.already_recorded for r in twice.receipts] == [True, True]


def test_a_decision_that_stands_twice_in_one_request_is_recorded_once(listed: Doors) -> None:
    decision = of(builders.confirmed())
    answer = listed.append(decision, decision, atomic=False)
    assert [(r.pos, r.already_recorded, r.refusal.reason) for r in answer.receipts] == [
        (answer.size - 1, False, ""),
        (answer.size - 1, True, ""),
    ]


def test_of_two_confirmations_at_once_one_wins_and_the_other_hears_the_rules(listed: Doors) -> None:
    for round_ in range(20):
        drafts = [of(builders.confirmed(f"race{round_}")) for _ in range(2)]
        calls = [listed.log.Append.future(request(d)) for d in drafts]
        errors = [error for call in calls if (error := call.exception()) is not None]
        assert len(errors) == 1, round_
        failed = failure(lambda errors=errors: _raise(errors[0]))
        assert failed.reason == "REFUSED_BY_RULES"
        assert "confirmed and open already" in failed.text


def test_of_two_servers_on_one_database_one_wins_and_the_other_hears_the_rules(database: str, tmp_path: Path) -> None:
    with served(tmp_path / "one", database) as one, served(tmp_path / "two", database) as two:
        one.list_source()
        one.put_named(*EVIDENCE)
        two.put_named(*EVIDENCE)
        for round_ in range(20):
            calls = [d.log.Append.future(request(of(builders.confirmed(f"race{round_}")))) for d in (one, two)]
            errors = [error for call in calls if (error := call.exception()) is not None]
            assert len(errors) == 1, round_
            assert failure(lambda errors=errors: _raise(errors[0])).reason == "REFUSED_BY_RULES"


def _raise(error: BaseException) -> None:
    raise error


def test_a_refused_decision_is_a_refusal_of_its_own_when_the_request_is_not_atomic(listed: Doors) -> None:
    drafts = [alias(), of(builders.reopened("d1")), of(builders.confirmed("d1"))]
    answer = listed.append(*drafts, atomic=False)
    assert [r.refusal.reason for r in answer.receipts] == ["", "REFUSED_BY_RULES", ""]
    assert answer.receipts[1].refusal.details["problem.0.place"] == "/defect"


def test_nothing_rests_on_an_earlier_draft_that_was_refused(listed: Doors) -> None:
    unlisted = f"source/{builders.ORIGIN}:unlisted"
    refused_first = [of(builders.confirmed("d1"), unlisted), of(builders.withdrawn("d1"), unlisted)]
    answer = listed.append(*refused_first, atomic=False)
    assert [r.refusal.reason for r in answer.receipts] == ["REFUSED_BY_RULES", "REFUSED_BY_RULES"]


def test_nothing_rests_on_an_earlier_draft_that_the_log_does_not_take(listed: Doors) -> None:
    malformed = of(builders.suspected("d1"), tags=["not ASCII: é"])
    answer = listed.append(malformed, of(builders.withdrawn("d1")), atomic=False)
    assert [r.refusal.reason for r in answer.receipts] == ["INVALID_ARGUMENT", "REFUSED_BY_RULES"]
    good = listed.append(of(builders.suspected("d1")), of(builders.withdrawn("d1")), atomic=False)
    assert [r.refusal.reason for r in good.receipts] == ["", ""]


def test_facts_are_recorded_whatever_they_say(listed: Doors) -> None:
    odd = [
        of(builders.validation("never-heard-of")),
        of(builders.suspected("d1"), f"source/{builders.ORIGIN}:unlisted"),
        of(builders.report(), f"source/{builders.ORIGIN}:unlisted"),
    ]
    assert [r.refusal.reason for r in listed.append(*odd, atomic=False).receipts] == ["", "", ""]


class _Interrupted(Decider):
    """A decider before whose answer something else is recorded, for so many times."""

    def __init__(self, application: Application, *, times: int, drafts: list[Draft]) -> None:
        super().__init__(application.log, application.projector.generations, application.artifacts)
        self.left = times
        self.judged_times = 0
        self._drafts = drafts

    def decide(self, drafts: Sequence[log_pb2.Draft]) -> Decision:
        decision = super().decide(drafts)
        self.judged_times += 1
        if self.left:
            self.left -= 1
            self.log.append([self._drafts.pop()]).result()
        return decision


@pytest.fixture
def application(tmp_path: Path) -> Any:
    made = Application(Settings(tmp_path / "home", first_rules="atlas-page-1"))
    made.start()
    part = of(builders.declared())
    made.log.append([part, of(builders.synced("c1", [part.id]))]).result()
    for name in EVIDENCE:
        with made.artifacts.put(builders.sha(name), len(name)) as upload:
            upload.write(name.encode())
            upload.finish()
    yield made
    made.close()


def _decide(application: Application, decider: Decider, decision: Draft) -> Any:
    return asyncio.run(Appender(application.log, decider).append(request(decision)))


def test_a_decision_whose_source_moved_meanwhile_is_judged_again(application: Application) -> None:
    decider = _Interrupted(application, times=3, drafts=[of(builders.suspected(f"d{n}")) for n in range(3)])
    outcome = _decide(application, decider, of(builders.confirmed()))
    assert (outcome.receipts[0].pos, decider.judged_times) == (outcome.size - 1, 4)


def test_a_decision_is_judged_again_when_a_refresh_of_another_origin_is_closed_meanwhile(
    application: Application,
) -> None:
    synced = of(builders.synced("other", origin="Elsewhere"))
    decider = _Interrupted(application, times=1, drafts=[synced])
    outcome = _decide(application, decider, of(builders.confirmed()))
    assert (outcome.receipts[0].pos, decider.judged_times) == (outcome.size - 1, 2)


def test_a_decision_is_judged_again_when_other_rules_are_promoted_or_an_event_is_disregarded_meanwhile(
    application: Application,
) -> None:
    first = application.log.store.event(0)
    assert first is not None
    gone = EventDisregarded(pos=first.pos, event=first.id, reason="it names what cannot be disregarded")
    promoted = in_force(application.log)
    assert promoted is not None
    said = ProjectionPromoted(**asdict(promoted.identity), size=0, diff_digest="0" * 64, moved=0)
    for number, moved in enumerate((of(gone, "ledger"), of(said, "ledger"))):
        decider = _Interrupted(application, times=1, drafts=[moved])
        outcome = _decide(application, decider, of(builders.confirmed(f"d{number}")))
        assert (outcome.receipts[0].pos, decider.judged_times) == (outcome.size - 1, 2)


def test_rules_that_this_server_does_not_carry_judge_nothing(application: Application) -> None:
    decider = Decider(application.log, application.projector.generations, application.artifacts, rule_sets={})
    refused = decider.decide([of(builders.confirmed())]).refused[0]
    assert refused.reason == "RULES_CHANGED"
    assert "'atlas-page-1'" in refused.message
    assert decider.decide([of(builders.suspected())]).refused == {}


def test_a_decision_is_not_judged_again_when_another_source_moves(application: Application) -> None:
    elsewhere = of(builders.suspected("d9"), f"source/{builders.ORIGIN}:other")
    decider = _Interrupted(application, times=1, drafts=[elsewhere])
    _decide(application, decider, of(builders.confirmed()))
    assert decider.judged_times == 1


def test_a_decision_that_was_overtaken_is_refused_by_the_rules(application: Application) -> None:
    decider = _Interrupted(application, times=1, drafts=[of(builders.confirmed())])
    with pytest.raises(Exception, match="confirmed and open already"):
        _decide(application, decider, of(builders.confirmed()))
    assert decider.judged_times == 2


def test_a_decision_that_is_always_overtaken_gives_up_and_says_so(application: Application) -> None:
    drafts = [of(builders.suspected(f"d{n}")) for n in range(DECISION_TRIES)]
    decider = _Interrupted(application, times=DECISION_TRIES, drafts=drafts)
    with pytest.raises(Exception, match="keep moving"):
        _decide(application, decider, of(builders.confirmed()))
    assert decider.judged_times == DECISION_TRIES


def test_twins_of_one_request_that_race_are_both_answered_with_its_receipt(listed: Doors) -> None:
    for round_ in range(10):
        decision = request(of(builders.confirmed(f"twin{round_}")))
        together = threading.Barrier(4)
        answers: list[Any] = []

        def send(decision: log_pb2.AppendRequest = decision, together: threading.Barrier = together) -> None:
            together.wait()
            answers.append(listed.log.Append(decision))  # noqa: B023  # joined within the round

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len({a.receipts[0].pos for a in answers}) == 1
        assert sorted(a.receipts[0].already_recorded for a in answers) == [False, True, True, True]


class _Stumbling(AtlasPage1):
    """Rules that cannot take a suspicion."""

    def fold(self, facts: Facts, event: RuleEvent) -> Facts:
        if event.type == "defect.suspected":
            raise ValueError("a rule with a fault")
        return super().fold(facts, event)


def test_an_event_that_the_rules_cannot_take_bars_no_later_decision(application: Application) -> None:
    application.log.append([of(builders.suspected("d1"))]).result()
    rules = {"atlas-page-1": _Stumbling()}
    decider = Decider(application.log, application.projector.generations, application.artifacts, rules)
    assert decider.decide([of(builders.confirmed("d1"))]).refused == {}
    assert decider.decide([of(builders.withdrawn("d1"))]).refused[0].reason == "REFUSED_BY_RULES"
