"""Disregards at the door: who may say what of which event, and that it counts from there on and never before."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from ledger.events.administration import EventDisregarded
from tests.rules import builders
from tests.server.doors import Doors, failure, of, request

DEFECT_EVIDENCE = ("input-1", "input-2")


@pytest.fixture
def reviewed(either: Doors) -> Doors:
    """A source whose review was published."""
    either.list_source()
    either.put_named(*DEFECT_EVIDENCE)
    either.publish("r1", builders.good("r1"))
    return either


def last(doors: Doors, type_: str) -> int:
    return int(doors.read(filter={"types": [type_]})[-1].pos)


def id_of(doors: Doors, pos: int) -> str:
    return str(orjson.loads(doors.read(pos, limit=1)[0].header)["id"])


def shown(doors: Doors, **coordinates: Any) -> dict[str, Any]:
    source = doors.source(**coordinates).source
    return {"quality": source.quality, "review": source.review.id, "open": [d.id for d in source.open_defects]}


def test_a_disregarded_event_counts_for_nothing_from_there_on_and_never_before(reviewed: Doors) -> None:
    reviewed.append(of(builders.confirmed("d1")))
    then = reviewed.size()
    before = reviewed.source(size=then)
    answer = reviewed.disregard(last(reviewed, "defect.confirmed"))
    assert (answer.size, shown(reviewed, min_size=answer.size)["open"]) == (then + 1, [])
    assert [d.id for d in before.source.open_defects] == ["d1"]
    assert reviewed.source(size=then) == before
    (event,) = reviewed.read(then, limit=1)
    assert orjson.loads(event.header)["stream"] == "ledger"


def test_a_rebuild_gives_what_was_shown_with_the_disregard(reviewed: Doors) -> None:
    reviewed.disregard(last(reviewed, "review.published"))
    now = shown(reviewed, min_size=reviewed.size())
    assert (now["quality"], now["review"]) == ("unreviewed", "")
    assert reviewed.rebuild().equal
    assert shown(reviewed) == now


def test_a_decision_rests_on_nothing_that_was_disregarded(reviewed: Doors) -> None:
    reviewed.append(of(builders.confirmed("d1")))
    assert failure(lambda: reviewed.append(of(builders.confirmed("d1")))).reason == "REFUSED_BY_RULES"
    reviewed.disregard(last(reviewed, "defect.confirmed"))
    assert failure(lambda: reviewed.append(of(builders.reopened("d1")))).reason == "REFUSED_BY_RULES"
    reviewed.append(of(builders.confirmed("d1")))
    assert shown(reviewed, min_size=reviewed.size())["open"] == ["d1"]


def test_a_refresh_that_was_disregarded_lists_nothing_and_takes_no_review(reviewed: Doors) -> None:
    sync = last(reviewed, "catalogue.synced")
    reviewed.disregard(sync)
    assert reviewed.sources({"min_size": reviewed.size()}).total == 0
    failed = failure(lambda: reviewed.publish("r2", builders.good("r2")))
    assert failed.reason == "REFUSED_BY_RULES"
    assert "/source_id" in failed.problems
    reviewed.list_source(collection="c2")
    reviewed.publish("r3", builders.good("r3"))
    assert shown(reviewed, min_size=reviewed.size())["review"]


def test_later_drafts_of_a_request_rest_on_its_disregards(reviewed: Doors) -> None:
    reviewed.append(of(builders.confirmed("d1")))
    pos = last(reviewed, "defect.confirmed")
    gone = of(EventDisregarded(pos=pos, event=id_of(reviewed, pos), reason="twice"), "ledger")
    answer = reviewed.append(gone, of(builders.confirmed("d1")), atomic=True)
    assert len(answer.receipts) == 2
    assert shown(reviewed, min_size=answer.size)["open"] == ["d1"]


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"event": "another"}, "/event"),
        ({"pos": 10_000}, "/pos"),
    ],
)
def test_a_disregard_names_an_event_by_its_place_and_its_id(
    fields: dict[str, Any], place: str, reviewed: Doors
) -> None:
    before = reviewed.size()
    failed = failure(lambda: reviewed.disregard(last(reviewed, "review.published"), **fields))
    assert (failed.reason, list(failed.problems)) == ("REFUSED_BY_RULES", [place])
    assert reviewed.size() == before


def test_an_event_is_disregarded_once(reviewed: Doors) -> None:
    pos = last(reviewed, "review.published")
    gone = of(EventDisregarded(pos=pos, event=id_of(reviewed, pos), reason="a mistake"), "ledger")
    reviewed.append(gone)
    failed = failure(lambda: reviewed.disregard(pos))
    assert (failed.reason, list(failed.problems)) == ("REFUSED_BY_RULES", ["/pos"])
    assert reviewed.append(gone).receipts[0].already_recorded


@pytest.mark.parametrize("type_", ["key.introduced", "projection.promoted", "event.disregarded"])
def test_the_log_s_own_events_are_not_disregarded(type_: str, reviewed: Doors) -> None:
    reviewed.disregard(last(reviewed, "review.published"))
    failed = failure(lambda: reviewed.disregard(last(reviewed, type_)))
    assert (failed.reason, list(failed.problems)) == ("REFUSED_BY_RULES", ["/pos"])
    assert type_ in failed.text


def test_of_many_disregards_of_one_event_at_once_one_is_recorded(reviewed: Doors) -> None:
    pos = last(reviewed, "review.published")
    said = EventDisregarded(pos=pos, event=id_of(reviewed, pos), reason="a mistake")
    calls = [reviewed.log.Append.future(request(of(said, "ledger"))) for _ in range(6)]
    errors = [e for call in calls if (e := call.exception()) is not None]
    assert len(errors) == 5
    assert len(reviewed.read(filter={"types": ["event.disregarded"]})) == 1
