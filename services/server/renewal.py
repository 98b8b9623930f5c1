"""At every start: what is in force must be what this release computes.

- A rule set that was changed without a new id is refused: old answers would change under the same name.
- A changed fold or upcaster computes the same rules in another way. A generation of the new identity is built from the
  first event, a promotion records what it moves, and it takes over; until then the old one answers.

The promotion is recorded before the generation takes over. A server that is killed in between finds at its next start
that the live generation is not the promoted one, and builds it again without promoting it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import structlog

from ledger.client.drafts import draft
from ledger.core.errors import LedgerError, Refused
from ledger.events.administration import ProjectionPromoted
from ledger.events.policy import RulesAdopted
from ledger.log.conditions import StreamVersion
from ledger.log.log import Log
from ledger.log.model import Filter
from ledger.projections.differences import Difference
from ledger.projections.generations import SOURCES, Identity
from ledger.projections.projector import Projector, Rebuilt
from ledger.projections.promotions import in_force
from services.server.first_start import SERVER_ACTOR

log = structlog.get_logger(__name__)


def check_rules(ledger: Log, identity: Identity) -> None:
    """Compares the rules that the log names with the release's.

    Raises:
        Refused: reason RULES_CHANGED.
    """
    promotion = in_force(ledger)
    if promotion is not None and promotion.identity.rules != identity.rules:
        raise _changed(
            f"the rules in force are {promotion.identity.rules!r}, and this release serves {identity.rules!r}", identity
        )
    recorded = set(_adopted(ledger, identity.rules))
    if promotion is not None:
        recorded.add(promotion.identity.rules_digest)
    for digest in sorted(recorded - {identity.rules_digest}):
        raise _changed(
            f"the log has adopted the rules {identity.rules!r} with the digest {digest}, and this release's have "
            f"{identity.rules_digest}",
            identity,
        )


def renew(ledger: Log, projector: Projector) -> Rebuilt | None:
    """Lets a generation of this release's identity take over, if another one answers; the projector must be open."""
    identity = projector.identity
    live, promotion = projector.generations.live(), in_force(ledger)
    if live is not None and live.identity == identity and promotion is not None and promotion.identity == identity:
        return None
    log.info("the projection is computed otherwise by this release; building it again", size=ledger.head().size)
    rebuilt = projector.rebuild(promote=_promoter(ledger, identity))
    log.info("the new generation has taken over", size=rebuilt.generation.size, equal=rebuilt.equal)
    return rebuilt


def _promoter(ledger: Log, identity: Identity) -> Callable[[Difference], None]:
    """Records the promotion, once however many servers start together."""

    def promote(found: Difference) -> None:
        while True:
            version = ledger.store.stream_version("ledger")
            promotion = in_force(ledger)
            if promotion is not None and promotion.identity == identity:
                return
            promoted = draft("projection.promoted", "ledger", _promoted(identity, found), by=SERVER_ACTOR)
            try:
                ledger.append([promoted], conditions=[StreamVersion("ledger", version)]).result()
            except LedgerError as error:
                if error.reason != "CONDITION_FAILED":
                    raise
            else:
                return

    return promote


def _promoted(identity: Identity, found: Difference) -> ProjectionPromoted:
    return ProjectionPromoted(
        projection=SOURCES,
        rules=identity.rules,
        rules_digest=identity.rules_digest,
        fold_digest=identity.fold_digest,
        upcaster_digest=identity.upcaster_digest,
        size=found.size,
        diff_digest=found.digest,
        moved=len(found.moved),
        note="The rules are the same; this release computes them otherwise.",
    )


def _adopted(ledger: Log, rules: str) -> Iterator[str]:
    """The digests under which a rule set was adopted."""
    match = Filter(types=("rules.adopted",))
    for event in ledger.store.read_all(0, ledger.head().size, match=match):
        said = ledger.registry.read(event.type, 1, event.payload or b"")
        assert isinstance(said, RulesAdopted)
        if said.rules == rules:
            yield said.digest


def _changed(message: str, identity: Identity) -> Refused:
    return Refused(
        message,
        reason="RULES_CHANGED",
        remedy="Start the release that wrote the log, or one that carries those rules unchanged; changed rules need "
        "a new id.",
        details={"rules": identity.rules, "digest": identity.rules_digest},
    )
