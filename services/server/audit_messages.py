"""The messages of the service `Audit`, made of what the questions answer, and the questions made of its requests."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Final

from ledger.audit.agreement import Agreement
from ledger.audit.briefs import SourceFilter
from ledger.audit.coordinates import At, Moment
from ledger.audit.opinions import Judgment, JudgmentFilter
from ledger.audit.queue import Item, QueueFilter
from ledger.audit.reading import header_of
from ledger.audit.states import State
from ledger.audit.timeline import Entry
from ledger.audit.why import Node
from ledger.core import clock
from ledger.core.errors import InvalidInput, Problem
from ledger.log.model import StoredEvent
from ledger.projections.outcomes import Change, Move
from ledger.wire import audit_pb2

_NOT_SENT: Final = frozenset({"subject_id"})
"""Fields of a judgment that its message does not have."""


def at(wire: audit_pb2.Coordinates) -> At:
    which, policy = wire.WhichOneof("at"), wire.WhichOneof("policy")
    if which == "recorded_at_us":
        _check_time("coordinates.recorded_at_us", wire.recorded_at_us)
    return At(
        size=wire.size if which == "size" else None,
        recorded_at_us=wire.recorded_at_us if which == "recorded_at_us" else None,
        rules=wire.rules,
        min_size=wire.min_size,
        policy_size=wire.policy_size if policy == "policy_size" else None,
        policy_at_head=policy == "policy_at_head" and wire.policy_at_head,
    )


def _check_time(name: str, us: int) -> None:
    if not clock.MIN_US <= us <= clock.MAX_US:
        raise InvalidInput(
            f"{name} lies outside the years 1 to 9999", remedy="Give microseconds since 1970-01-01T00:00Z."
        )


def source_filter(wire: audit_pb2.SourceFilter) -> SourceFilter:
    theirs = {"origins": wire.origins, "families": wire.families, "atlas_statuses": wire.atlas_statuses}
    _check_texts({**theirs, "search": [wire.search]})
    return SourceFilter(
        origins=frozenset(wire.origins),
        families=frozenset(wire.families),
        qualities=frozenset(wire.qualities),
        difficulties=frozenset(wire.difficulties),
        atlas_statuses=frozenset(wire.atlas_statuses),
        has_open_defects=wire.has_open_defects if wire.HasField("has_open_defects") else None,
        is_benchmark=wire.is_benchmark if wire.HasField("is_benchmark") else None,
        search=wire.search,
        include_retired=wire.include_retired,
    )


def _check_texts(fields: Mapping[str, Iterable[str]]) -> None:
    """Recorded text has no U+0000, and a database may not take it: it is a slip, and is said to be one."""
    wrong = [f"filter.{name}" for name, texts in fields.items() if any("\0" in text for text in texts)]
    if wrong:
        raise InvalidInput(
            f"{wrong[0]}: no recorded text holds U+0000",
            remedy="Leave the character out.",
            problems=[Problem(place, "it holds U+0000") for place in wrong],
        )


def judgment_filter(wire: audit_pb2.JudgmentFilter) -> JudgmentFilter:
    _check_texts({"task_ids": wire.task_ids, "reviewers": wire.reviewers, "reviews": wire.reviews})
    bounds: dict[str, int | None] = {"reviewed_from_us": None, "reviewed_before_us": None}
    for name in bounds:
        if wire.HasField(name):  # type: ignore[arg-type]  # a name of the message
            bounds[name] = getattr(wire, name)
            _check_time(f"filter.{name}", getattr(wire, name))
    return JudgmentFilter(
        source_ids=frozenset(wire.source_ids),
        task_ids=frozenset(wire.task_ids),
        reviewers=frozenset(wire.reviewers),
        reviewer_kinds=frozenset(wire.reviewer_kinds),
        verdicts=frozenset(wire.verdicts),
        severities=frozenset(wire.severities),
        methods=frozenset(wire.methods),
        superseded=wire.superseded if wire.HasField("superseded") else None,
        applicabilities=frozenset(wire.applicabilities),
        include_unpublished=wire.include_unpublished,
        reviews=frozenset(wire.reviews),
        **bounds,
    )


def queue_filter(wire: audit_pb2.QueueRequest) -> QueueFilter:
    return QueueFilter(frozenset(wire.kinds), source_filter(wire.filter))


def source(state: State) -> audit_pb2.Source:
    """The message of a state: the fold wrote its fields under the message's own names."""
    return audit_pb2.Source(**state)


def coordinates(moment: Moment) -> audit_pb2.AnswerCoordinates:
    return audit_pb2.AnswerCoordinates(
        size=moment.size,
        recorded_at_us=moment.recorded_at_us,
        final=moment.final,
        rules=moment.rules,
        rules_digest=moment.rules_digest,
        redactions_through=moment.redactions_through,
        policy_size=moment.policy_size,
    )


def event(stored: StoredEvent) -> audit_pb2.WhyEvent:
    header = header_of(stored.header)
    return audit_pb2.WhyEvent(
        pos=stored.pos,
        id=stored.id,
        type=stored.type,
        stream=stored.stream,
        actor=header.actor.id,
        recorded_at_us=stored.recorded_at_us,
        occurred_at_us=None if header.occurred_at is None else clock.from_text(header.occurred_at),
        sample=header.sample,
    )


def judgment(found: Judgment) -> audit_pb2.Judgment:
    fields = dataclasses.asdict(found)
    return audit_pb2.Judgment(**{name: value for name, value in fields.items() if name not in _NOT_SENT})


def agreement(found: Agreement) -> audit_pb2.Agreement:
    return audit_pb2.Agreement(**dataclasses.asdict(found))


def entry(found: Entry) -> audit_pb2.TimelineEntry:
    return audit_pb2.TimelineEntry(
        event=event(found.event),
        text=found.text,
        changes=[_change(c) for c in found.changes],
        parts=found.parts,
        disregarded_by=found.disregarded_by,
        elsewhere=found.elsewhere,
    )


def source_change(move: Move, runs: Iterable[str]) -> audit_pb2.SourceChange:
    """A source that is shown otherwise, and the runs that took it."""
    return audit_pb2.SourceChange(
        id=move.key,
        fields=[_change(c) for c in move.changes],
        before=[audit_pb2.Reason(**reason) for reason in move.before],
        after=[audit_pb2.Reason(**reason) for reason in move.after],
        runs=runs,
    )


def _change(change: Change) -> audit_pb2.FieldChange:
    return audit_pb2.FieldChange(field=change.field, before=change.before, after=change.after)


def node(found: Node) -> audit_pb2.WhyNode:
    return audit_pb2.WhyNode(
        kind=found.kind,
        text=found.text,
        rule=found.rule,
        pos=found.pos,
        sha256=found.sha256,
        children=[node(child) for child in found.children],
    )


def item(found: Item) -> audit_pb2.QueueItem:
    return audit_pb2.QueueItem(**dataclasses.asdict(found))
