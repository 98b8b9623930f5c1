"""Decisions, judged before they are recorded: every reason against one, at once.

Facts are recorded whatever they say; these are refused when their conditions do not hold. A place is the JSON pointer
of the field that is at fault. Decisions of the server alone (promotions, redactions) are not judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from ledger.core.errors import Problem
from ledger.core.ids import ids_digest
from ledger.rules import RuleEvent, source_of
from ledger.rules.ledger_1 import environment_reading, reading
from ledger.rules.ledger_1.applicability import supporting
from ledger.rules.ledger_1.attestations import Covered, coverage
from ledger.rules.ledger_1.decoding import read
from ledger.rules.ledger_1.environment import Environment, WaitingPart
from ledger.rules.ledger_1.growing import items
from ledger.rules.ledger_1.listing import Listing, listing
from ledger.rules.ledger_1.model import Facts, Settled
from ledger.rules.ledger_1.policy import against_adoption, against_definition
from ledger.rules.ledger_1.resolution import against_resolution
from ledger.rules.ledger_1.review_model import Pending, Tally
from ledger.rules.ledger_1.tallies import tally


def decide(event: RuleEvent, facts: Facts, environment: Environment) -> tuple[Problem, ...]:
    judge = _JUDGES.get(event.type)
    return tuple(judge(event, read(event), facts, environment)) if judge else ()


def _published(
    event: RuleEvent, said: reading.ReviewPublished, facts: Facts, environment: Environment
) -> Iterator[Problem]:
    settled = facts.settled
    listed = listing(settled, environment)
    if said.source_id != source_of(event.stream):
        yield Problem("/source_id", f"{said.source_id!r} is not the source of the stream {event.stream!r}")
    yield from _listed(said.source_id, listed, retired_is_fine=False)
    yield from _supported(said, settled, listed)
    if any(review.id == said.review for review in settled.reviews):
        yield Problem("/review", "this review is published already; publish a new collection")
    if any(review.collection == said.collection for review in settled.reviews):
        yield Problem("/collection", "this collection is published already; record its parts under a new one")
        return
    pending = facts.pending.get(said.collection, Pending())
    found = tally(items(pending.parts))
    yield from _parts(said.parts, [*(p.id for p in items(pending.parts)), *(t.id for t in items(pending.tags))])
    yield from _one_source(said, found)
    yield from _present_data(said, found, settled, listed)


def _supported(said: reading.ReviewPublished, settled: Settled, listed: Listing | None) -> Iterator[Problem]:
    """A publication rests only on attestations that show what it needs."""
    for number, event_id in enumerate(said.rests_on):
        _, wrong = supporting(event_id, settled, listed)
        if wrong is not None:
            yield Problem(f"/rests_on/{number}", wrong)


def _listed(source: str, listed: Listing | None, *, retired_is_fine: bool) -> Iterator[Problem]:
    if listed is None:
        yield Problem("/source_id", f"{source!r} is not in the catalogue; import the inventory that lists it first")
    elif listed.retired and not retired_is_fine:
        yield Problem("/source_id", f"{source!r} is retired; reinstate it with a catalogue import first")


def _parts(named: reading.Parts, ids: list[str]) -> Iterator[Problem]:
    """The closing event must name exactly the parts that are recorded."""
    if named.count != len(ids):
        yield Problem("/parts/count", f"names {named.count} parts, and {len(ids)} of this collection are recorded")
    if named.digest != ids_digest(ids):
        yield Problem("/parts/digest", "is not the digest of the ids of the recorded parts")
    if named.ids is not None and sorted(named.ids) != sorted(ids):
        yield Problem("/parts/ids", "are not the ids of the recorded parts")


def _one_source(said: reading.ReviewPublished, found: Tally) -> Iterator[Problem]:
    if found.syntheses != 1:
        yield Problem("/collection", f"needs exactly one synthesis of the source, and has {found.syntheses}")
    if len(found.subjects) != 1:
        yield Problem("/collection", f"needs exactly one subject of level source, and has {len(found.subjects)}")
    for subject in found.subjects:
        if subject.source_id != said.source_id:
            yield Problem("/source_id", f"the reviewed source is {subject.source_id!r}, not {said.source_id!r}")


def _present_data(
    said: reading.ReviewPublished, found: Tally, settled: Settled, listed: Listing | None
) -> Iterator[Problem]:
    """A review of other data than the present is refused, unless an attestation shows that the bytes are the same."""
    present = listed.revisions.dataset if listed else None
    reviewed = [said.dataset_revision, *(subject.dataset_revision for subject in found.subjects)]
    for revision in dict.fromkeys(r for r in reviewed if r and present and r != present):
        if listed and coverage(Covered(revision, None), settled, listed).dataset != "same":
            yield Problem(
                "/dataset_revision", f"the review is of {revision}, and the source is at {present}: review that"
            )


def _superseded(
    _event: RuleEvent, said: reading.ReviewSuperseded, facts: Facts, _environment: Environment
) -> Iterator[Problem]:
    known = {review.id: review for review in facts.settled.reviews}
    if said.review not in known:
        yield Problem("/review", f"no review {said.review} of this source is published")
    elif known[said.review].superseded is not None:
        yield Problem("/review", "this review is superseded already")
    if said.superseded_by == said.review:
        yield Problem("/superseded_by", "a review cannot supersede itself")
    elif said.superseded_by is not None and said.superseded_by not in known:
        yield Problem("/superseded_by", f"no review {said.superseded_by} of this source is published; publish it first")


def _confirmed(
    event: RuleEvent, said: reading.DefectConfirmed, facts: Facts, environment: Environment
) -> Iterator[Problem]:
    listed = listing(facts.settled, environment)
    yield from _listed(source_of(event.stream) or event.stream, listed, retired_is_fine=True)
    if said.observed.strip() == said.expected.strip():
        yield Problem("/observed", "is what was expected; a defect is a difference: say what happened instead")
    known = facts.settled.defects.get(said.defect)
    if known is None:
        return
    if known.status == "open":
        yield Problem("/defect", f"{said.defect!r} is confirmed and open already")
    if known.kind != said.kind:
        yield Problem("/kind", f"{said.defect!r} is known as a {known.kind} defect; give another kind another id")


def _resolved(
    _event: RuleEvent, said: reading.DefectResolved, facts: Facts, environment: Environment
) -> Iterator[Problem]:
    yield from against_resolution(said, facts.settled, listing(facts.settled, environment))


def _reopened(
    _event: RuleEvent, said: reading.DefectReopened, facts: Facts, _environment: Environment
) -> Iterator[Problem]:
    yield from _in_status(said.defect, facts, ("resolved",), "reopened")


def _withdrawn(
    _event: RuleEvent, said: reading.DefectWithdrawn, facts: Facts, _environment: Environment
) -> Iterator[Problem]:
    yield from _in_status(said.defect, facts, ("suspected", "open"), "withdrawn")


def _in_status(defect: str, facts: Facts, statuses: tuple[str, ...], done: str) -> Iterator[Problem]:
    known = facts.settled.defects.get(defect)
    status = known.status if known else "unknown"
    if status not in statuses:
        yield Problem("/defect", f"{defect!r} is {status}; only what is {' or '.join(statuses)} can be {done}")


def _synced(
    event: RuleEvent, said: environment_reading.CatalogueSynced, _facts: Facts, environment: Environment
) -> Iterator[Problem]:
    if event.stream != f"origin/{said.origin}":
        yield Problem("/origin", f"{said.origin!r} is not the origin of the stream {event.stream!r}")
    latest = environment.synced.get(said.origin)
    if said.replaces != latest:
        yield Problem("/replaces", f"the latest refresh of this origin is {latest}, not {said.replaces}: import again")
    if said.collection in environment.closings:
        yield Problem("/collection", "this refresh is closed already; import again under a new collection")
        return
    parts = list(items(environment.waiting.get(said.collection, ())))
    yield from _parts(said.parts, [part.id for part in parts])
    for part in parts:
        yield from _misplaced(part, said.origin, environment)


def _misplaced(part: WaitingPart, origin: str, environment: Environment) -> Iterator[Problem]:
    if part.row_id is not None and part.row_id != part.source:
        yield Problem("/collection", f"{part.id}: the row of {part.row_id!r} is in the stream of {part.source!r}")
    of = part.origin if part.row_id is not None else environment.origins.get(part.source)
    if of is None:
        yield Problem("/collection", f"{part.id}: {part.source!r} is not in the catalogue, so it cannot be retired")
    elif of != origin:
        yield Problem("/origin", f"{part.id}: {part.source!r} is of the origin {of!r}, not {origin!r}")


def _rules_adopted(
    _event: RuleEvent, said: environment_reading.RulesAdopted, _facts: Facts, environment: Environment
) -> Iterator[Problem]:
    known = environment.rules.get(said.rules, said.digest)
    if known != said.digest:
        yield Problem("/digest", f"{said.rules!r} is adopted with the digest {known}; changed rules need a new id")


def _protocol_defined(
    _event: RuleEvent, said: environment_reading.ProtocolDefined, _facts: Facts, environment: Environment
) -> Iterator[Problem]:
    yield from against_definition(said, environment)


def _protocol_adopted(
    _event: RuleEvent, said: environment_reading.ProtocolAdopted, _facts: Facts, environment: Environment
) -> Iterator[Problem]:
    yield from against_adoption(said, environment)


_Judge = Callable[[RuleEvent, Any, Facts, Environment], Iterable[Problem]]

_JUDGES: Final[Mapping[str, _Judge]] = {
    "review.published": _published,
    "review.superseded": _superseded,
    "defect.confirmed": _confirmed,
    "defect.resolved": _resolved,
    "defect.reopened": _reopened,
    "defect.withdrawn": _withdrawn,
    "catalogue.synced": _synced,
    "rules.adopted": _rules_adopted,
    "protocol.defined": _protocol_defined,
    "protocol.adopted": _protocol_adopted,
}
