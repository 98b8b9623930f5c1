"""Ids and filters that no log can hold: each store answers with an error of the table, and neither with a fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ledger.wire import artifacts_pb2, audit_pb2, log_pb2
from tests.server.doors import Doors, failure

NUL = "a\0b"
LONG = "x" * 100_000
Call = Callable[[Doors], Any]

BY_ID: dict[str, Callable[[Doors, str], Any]] = {
    "SourceAsOf": lambda doors, name: doors.source(name),
    "SourceAsOf, folded": lambda doors, name: doors.source(name, rules="atlas-code-1"),
    "Why": lambda doors, name: doors.why(name),
    "Timeline": lambda doors, name: doors.audit.Timeline(audit_pb2.TimelineRequest(id=name), timeout=20),
    "Timeline, folded": lambda doors, name: doors.audit.Timeline(
        audit_pb2.TimelineRequest(id=name, coordinates={"rules": "atlas-code-1"}), timeout=20
    ),
    "GetEvent": lambda doors, name: doors.log.GetEvent(log_pb2.GetEventRequest(id=name), timeout=20),
    "Projections.Diff": lambda doors, name: doors.diff(name),
    "Projections.Promote": lambda doors, name: doors.promote(name, "0" * 64),
    "Projections.Drop": lambda doors, name: doors.drop(name),
    "Projections.Rebuild": lambda doors, name: doors.rebuild(name),
    "coordinates.rules": lambda doors, name: doors.source(rules=name),
}


def judgments(doors: Doors, **fields: Any) -> Any:
    return doors.audit.Judgments(audit_pb2.JudgmentsRequest(filter=fields), timeout=20)


def agreement(doors: Doors, **fields: Any) -> Any:
    return doors.audit.Agreement(audit_pb2.AgreementRequest(filter=fields), timeout=20)


BY_FILTER: dict[str, Call] = {
    **{
        f"{name} by {field}": (lambda doors, ask=ask, field=field: ask(doors, **{field: [NUL]}))
        for name, ask in (("Judgments", judgments), ("Agreement", agreement))
        for field in ("source_ids", "task_ids", "reviewers", "reviews", "verdicts", "methods", "reviewer_kinds")
    },
    **{
        f"ListSources by {field}": (lambda doors, field=field: doors.sources(filter={field: [NUL]}))
        for field in ("origins", "families", "qualities", "difficulties", "atlas_statuses")
    },
    "ListSources by search": lambda doors: doors.sources(filter={"search": NUL}),
    "Queue by kinds": lambda doors: doors.audit.Queue(audit_pb2.QueueRequest(kinds=[NUL]), timeout=20),
    "Queue by search": lambda doors: doors.audit.Queue(audit_pb2.QueueRequest(filter={"search": NUL}), timeout=20),
    "Diff by search": lambda doors: doors.audit.Diff(audit_pb2.DiffRequest(filter={"search": NUL}), timeout=20),
    **{
        f"Read by {field}": (lambda doors, field=field: doors.read(filter={field: [NUL]}))
        for field in ("streams", "types", "tags")
    },
    **{
        f"Subscribe by {field}": (
            lambda doors, field=field: list(doors.log.Subscribe(log_pb2.SubscribeRequest(filter={field: [NUL]})))
        )
        for field in ("streams", "types", "tags")
    },
    "Artifacts.Stat": lambda doors: doors.artifacts.Stat(artifacts_pb2.StatArtifactsRequest(sha256=[NUL])),
    "Artifacts.Get": lambda doors: list(doors.artifacts.Get(artifacts_pb2.GetArtifactRequest(sha256=NUL))),
}


def test_an_id_that_nothing_can_have_is_not_found_on_either_store(either: Doors) -> None:
    answers = {
        (door, name): failure(lambda ask=ask, name=name: ask(either, name))
        for door, ask in BY_ID.items()
        for name in (NUL, LONG, "é", "a\nb")
    }
    assert {key: found.reason for key, found in answers.items() if found.reason != "NOT_FOUND"} == {}
    assert all(found.remedy for found in answers.values())


def test_a_filter_that_nothing_can_pass_is_refused_by_its_place_on_either_store(either: Doors) -> None:
    answers = {door: failure(lambda ask=ask: ask(either)) for door, ask in BY_FILTER.items()}
    assert {door: found.reason for door, found in answers.items() if found.reason != "INVALID_ARGUMENT"} == {}
    filters = {door: found for door, found in answers.items() if " by " in door and "kinds" not in door.split()}
    assert {door: found.text for door, found in filters.items() if "filter." not in found.text} == {}
