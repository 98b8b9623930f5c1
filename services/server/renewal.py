"""At every start: what the log has in force is what this release computes, whatever it would begin a new log with.

- A rule set that was changed without a new id is refused, and so is one that this release does not carry: old answers
  would change, or be gone, under the same name.
- A changed fold or upcaster computes the same rules in another way. A generation of the new identity is built from the
  first event, a promotion records what it moves, and it takes over; until then the old one answers.
- Other generations that another release computed are built anew once the doors are open, if their rules were ever in
  force; the rest is dropped, since nobody was ever answered by it. Those of rules that this release does not carry are
  left for whoever does.
- Runs are folded by the rules of the release, which nothing in the log puts in force. What another release computed of
  them, or an older one did not, is built once the doors are open; until then the log itself is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import structlog

from ledger.core.errors import LedgerError, Refused
from ledger.projections.generations import BUILDING, KEPT, LIVE, GenerationRow, Identity, Moved
from ledger.projections.projector import Projector
from ledger.projections.subjects import RUNS
from services.server.first_start import SERVER_ACTOR
from services.server.promoting import Promoter, answers_already
from services.server.standing import Standing, Standings

log = structlog.get_logger(__name__)

_NOTE: Final = "The rules are the same; this release computes them otherwise."


def check_rules(standing: Standing, identities: Mapping[str, Identity]) -> None:
    """Compares every rule set that the log adopted or promoted with the release's.

    Raises:
        Refused: reason RULES_CHANGED.
    """
    named = {(a.rules, a.digest) for a in standing.adoptions}
    named |= {(p.identity.rules, p.identity.rules_digest) for p in standing.promotions}
    for rules, digest in sorted(named):
        carried = identities.get(rules)
        if carried is None:
            raise _changed(f"the log has adopted the rules {rules!r}, and this release does not carry them", rules)
        if carried.rules_digest != digest:
            raise _changed(
                f"the log has adopted the rules {rules!r} with the digest {digest}, and this release's have "
                f"{carried.rules_digest}",
                rules,
            )


def renew(projector: Projector, standings: Standings, promoter: Promoter, identities: Mapping[str, Identity]) -> None:
    """Lets a generation of the rules in force, as this release computes them, answer; the projector must be open."""
    in_force = standings.now().in_force
    assert in_force is not None, "the first events put rules in force"
    rules = in_force.identity.rules
    promoter.settle()
    live = projector.generations.live()
    if live is not None and live.identity == identities[rules] and answers_already(live, standings.now()):
        return
    log.info("the projection is computed otherwise by this release; building it again", rules=rules)
    built = _rebuilt(projector, rules)
    _promote(projector, promoter, rules)
    if live is not None and live.identity != identities[rules]:
        _drop(projector, live)
    log.info("the new generation has taken over", size=built.size)


def _rebuilt(projector: Projector, rules: str) -> GenerationRow:
    """A new generation; when another server's rebuild is in the way, once more."""
    while True:
        with suppress(Moved):
            return projector.rebuild(rules=rules).generation


def _promote(projector: Projector, promoter: Promoter, rules: str) -> None:
    """Whatever it moves: the rules are the same, and the promotion records what it was."""
    while True:
        _, _, impact = projector.impact(rules)
        try:
            promoter.promote(rules, impact.digest, by=SERVER_ACTOR, note=_NOTE)
        except LedgerError as error:
            if error.reason != "DIFF_MOVED":
                raise
        else:
            return


def renew_the_rest(projector: Projector, standings: Standings, identities: Mapping[str, Identity]) -> None:
    """Builds what answers for runs; builds anew, or drops, what another release computed and does not answer now."""
    renew_runs(projector)
    generations = projector.generations
    for row in generations.all():
        identity = identities.get(row.identity.rules)
        if identity in {None, row.identity} or row.status in {LIVE, BUILDING}:
            continue
        assert identity is not None
        if standings.now().promoted(identity.rules_digest) and generations.same_as(identity) is None:
            log.info("building a kept generation again", rules=identity.rules, generation=row.id)
            _rebuilt(projector, identity.rules)
        log.info("dropping a generation of another release", rules=identity.rules, generation=row.id)
        _drop(projector, row)


def renew_runs(projector: Projector) -> None:
    """Lets a generation of runs, as this release computes them, answer; drops what other releases kept of them."""
    built = None
    with suppress(Moved):  # another server was faster
        built = projector.build_runs()
    if built is not None:
        log.info("built the runs", size=built.generation.size, keys=built.keys)
    for row in projector.generations.all():
        if row.identity.projection == RUNS.name and row.status == KEPT and not projector.generations.computes(row):
            _drop(projector, row)


def _drop(projector: Projector, row: GenerationRow) -> None:
    """Another server that starts may have done it, or may need it still."""
    try:
        projector.drop(row.id)
    except LedgerError as error:
        log.info("the generation was left to another server", generation=row.id, reason=error.reason)


def _changed(message: str, rules: str) -> Refused:
    return Refused(
        message,
        reason="RULES_CHANGED",
        remedy="Start the release that wrote the log, or one that carries those rules unchanged; changed rules need "
        "a new id.",
        details={"rules": rules},
    )
