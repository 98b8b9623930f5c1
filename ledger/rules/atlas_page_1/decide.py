"""Decisions, judged before they are recorded: every reason against one, at once.

Facts are recorded whatever they say; these are refused when their conditions do not hold. A place is the JSON pointer
of the field that is at fault. Decisions of the server alone (promotions, redactions) are not judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from ledger.core.errors import Problem
from ledger.core.ids import ids_digest
from ledger.events.catalogue import CatalogueSynced
from ledger.events.defects import DefectConfirmed, DefectReopened, DefectResolved, DefectWithdrawn
from ledger.events.fields import Parts
from ledger.events.policy import ProtocolAdopted, ProtocolDefined, RulesAdopted
from ledger.events.reviews import ReviewPublished, ReviewSuperseded
from ledger.rules import RuleEvent, source_of
from ledger.rules.atlas_page_1.environment import Environment, WaitingPart, terms_of
from ledger.rules.atlas_page_1.growing import items
from ledger.rules.atlas_page_1.listing import listing
from ledger.rules.atlas_page_1.model import Facts, Pending, Tally
from ledger.rules.atlas_page_1.resolution import against_resolution


def decide(event: RuleEvent, facts: Facts, environment: Environment) -> tuple[Problem, ...]:
    judge = _JUDGES.get(type(event.payload))
    return tuple(judge(event, event.payload, facts, environment)) if judge else ()


def _published(event: RuleEvent, payload: ReviewPublished, facts: Facts, environment: Environment) -> Iterator[Problem]:
    if payload.source_id != source_of(event.stream):
        yield Problem("/source_id", f"{payload.source_id!r} is not the source of the stream {event.stream!r}")
    yield from _listed(payload.source_id, facts, environment, retired_is_fine=False)
    if any(review.id == payload.review for review in facts.reviews):
        yield Problem("/review", "this review is published already; publish a new collection")
    if any(review.collection == payload.collection for review in facts.reviews):
        yield Problem("/collection", "this collection is published already; record its parts under a new one")
        return
    pending = facts.pending.get(payload.collection, Pending())
    yield from _parts(payload.parts, list(items(pending.ids)))
    yield from _one_source(payload, pending.tally)
    yield from _present_data(payload, pending.tally, facts, environment)


def _listed(source: str, facts: Facts, environment: Environment, *, retired_is_fine: bool) -> Iterator[Problem]:
    listed = listing(facts, environment)
    if listed is None:
        yield Problem("/source_id", f"{source!r} is not in the catalogue; import the inventory that lists it first")
    elif listed.retired and not retired_is_fine:
        yield Problem("/source_id", f"{source!r} is retired; reinstate it with a catalogue import first")


def _parts(named: Parts, ids: list[str]) -> Iterator[Problem]:
    """The closing event must name exactly the parts that are recorded."""
    if named.count != len(ids):
        yield Problem("/parts/count", f"names {named.count} parts, and {len(ids)} of this collection are recorded")
    if named.digest != ids_digest(ids):
        yield Problem("/parts/digest", "is not the digest of the ids of the recorded parts")
    if named.ids is not None and sorted(named.ids) != sorted(ids):
        yield Problem("/parts/ids", "are not the ids of the recorded parts")


def _one_source(payload: ReviewPublished, tally: Tally) -> Iterator[Problem]:
    if tally.syntheses != 1:
        yield Problem("/collection", f"needs exactly one synthesis of the source, and has {tally.syntheses}")
    if len(tally.subjects) != 1:
        yield Problem("/collection", f"needs exactly one subject of level source, and has {len(tally.subjects)}")
    for subject in tally.subjects:
        if subject.source_id != payload.source_id:
            yield Problem("/source_id", f"the reviewed source is {subject.source_id!r}, not {payload.source_id!r}")


def _present_data(payload: ReviewPublished, tally: Tally, facts: Facts, environment: Environment) -> Iterator[Problem]:
    listed = listing(facts, environment)
    present = listed.revisions.dataset if listed else None
    reviewed = [payload.dataset_revision, *(subject.dataset_revision for subject in tally.subjects)]
    for revision in dict.fromkeys(r for r in reviewed if r and present and r != present):
        yield Problem("/dataset_revision", f"the review is of {revision}, and the source is at {present}: review that")


def _superseded(
    _event: RuleEvent, payload: ReviewSuperseded, facts: Facts, _environment: Environment
) -> Iterator[Problem]:
    known = {review.id: review for review in facts.reviews}
    if payload.review not in known:
        yield Problem("/review", f"no review {payload.review} of this source is published")
    elif known[payload.review].superseded is not None:
        yield Problem("/review", "this review is superseded already")
    if payload.superseded_by == payload.review:
        yield Problem("/superseded_by", "a review cannot supersede itself")
    elif payload.superseded_by is not None and payload.superseded_by not in known:
        yield Problem(
            "/superseded_by", f"no review {payload.superseded_by} of this source is published; publish it first"
        )


def _confirmed(event: RuleEvent, payload: DefectConfirmed, facts: Facts, environment: Environment) -> Iterator[Problem]:
    yield from _listed(source_of(event.stream) or event.stream, facts, environment, retired_is_fine=True)
    if payload.observed.strip() == payload.expected.strip():
        yield Problem("/observed", "is what was expected; a defect is a difference: say what happened instead")
    known = facts.defects.get(payload.defect)
    if known is None:
        return
    if known.status == "open":
        yield Problem("/defect", f"{payload.defect!r} is confirmed and open already")
    if known.kind != payload.kind:
        yield Problem("/kind", f"{payload.defect!r} is known as a {known.kind} defect; give another kind another id")


def _resolved(_event: RuleEvent, payload: DefectResolved, facts: Facts, environment: Environment) -> Iterator[Problem]:
    yield from against_resolution(payload, facts, listing(facts, environment))


def _reopened(_event: RuleEvent, payload: DefectReopened, facts: Facts, _environment: Environment) -> Iterator[Problem]:
    yield from _in_status(payload.defect, facts, ("resolved",), "reopened")


def _withdrawn(
    _event: RuleEvent, payload: DefectWithdrawn, facts: Facts, _environment: Environment
) -> Iterator[Problem]:
    yield from _in_status(payload.defect, facts, ("suspected", "open"), "withdrawn")


def _in_status(defect: str, facts: Facts, statuses: tuple[str, ...], done: str) -> Iterator[Problem]:
    known = facts.defects.get(defect)
    status = known.status if known else "unknown"
    if status not in statuses:
        yield Problem("/defect", f"{defect!r} is {status}; only what is {' or '.join(statuses)} can be {done}")


def _synced(event: RuleEvent, payload: CatalogueSynced, _facts: Facts, environment: Environment) -> Iterator[Problem]:
    if event.stream != f"origin/{payload.origin}":
        yield Problem("/origin", f"{payload.origin!r} is not the origin of the stream {event.stream!r}")
    latest = environment.synced.get(payload.origin)
    if payload.replaces != latest:
        yield Problem(
            "/replaces", f"the latest refresh of this origin is {latest}, not {payload.replaces}: import again"
        )
    if payload.collection in environment.closings:
        yield Problem("/collection", "this refresh is closed already; import again under a new collection")
        return
    parts = list(items(environment.waiting.get(payload.collection, ())))
    yield from _parts(payload.parts, [part.id for part in parts])
    for part in parts:
        yield from _misplaced(part, payload.origin, environment)


def _misplaced(part: WaitingPart, origin: str, environment: Environment) -> Iterator[Problem]:
    if part.row_id is not None and part.row_id != part.source:
        yield Problem("/collection", f"{part.id}: the row of {part.row_id!r} is in the stream of {part.source!r}")
    of = part.origin if part.row_id is not None else environment.origins.get(part.source)
    if of is None:
        yield Problem("/collection", f"{part.id}: {part.source!r} is not in the catalogue, so it cannot be retired")
    elif of != origin:
        yield Problem("/origin", f"{part.id}: {part.source!r} is of the origin {of!r}, not {origin!r}")


def _rules_adopted(
    _event: RuleEvent, payload: RulesAdopted, _facts: Facts, environment: Environment
) -> Iterator[Problem]:
    known = environment.rules.get(payload.rules, payload.digest)
    if known != payload.digest:
        yield Problem("/digest", f"{payload.rules!r} is adopted with the digest {known}; changed rules need a new id")


def _protocol_defined(
    _event: RuleEvent, payload: ProtocolDefined, _facts: Facts, environment: Environment
) -> Iterator[Problem]:
    known = environment.protocols.get(payload.protocol)
    if known is not None and known.terms != terms_of(payload):
        yield Problem("/protocol", f"{payload.protocol!r} is defined otherwise by {known.event}; give it a new id")


def _protocol_adopted(
    _event: RuleEvent, payload: ProtocolAdopted, _facts: Facts, environment: Environment
) -> Iterator[Problem]:
    known = environment.protocols.get(payload.protocol)
    if known is None:
        yield Problem("/protocol", f"{payload.protocol!r} is not defined; define it first")
    elif payload.definition != known.event:
        yield Problem("/definition", f"{payload.protocol!r} is defined by {known.event}, not by {payload.definition}")
    now = environment.adopted.protocol if environment.adopted else None
    if payload.replaces != now:
        yield Problem("/replaces", f"the protocol now adopted is {now}, not {payload.replaces}")


_Judge = Callable[[RuleEvent, Any, Facts, Environment], Iterable[Problem]]

_JUDGES: Final[Mapping[type[BaseModel], _Judge]] = {
    ReviewPublished: _published,
    ReviewSuperseded: _superseded,
    DefectConfirmed: _confirmed,
    DefectResolved: _resolved,
    DefectReopened: _reopened,
    DefectWithdrawn: _withdrawn,
    CatalogueSynced: _synced,
    RulesAdopted: _rules_adopted,
    ProtocolDefined: _protocol_defined,
    ProtocolAdopted: _protocol_adopted,
}
