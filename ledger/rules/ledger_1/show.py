"""What is shown of a source: the fields of `Source` in audit.proto, each derived one with its reasons."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ledger.rules import State
from ledger.rules.ledger_1 import resolutions, tags
from ledger.rules.ledger_1.applicability import Applies, applicability, pooled
from ledger.rules.ledger_1.attestations import finding, standing
from ledger.rules.ledger_1.difficulty import Context, Difficulty, difficulty
from ledger.rules.ledger_1.difficulty_fields import difficulty_fields
from ledger.rules.ledger_1.environment import Environment, NamedElsewhere
from ledger.rules.ledger_1.listing import Listing, catalogue_reasons, effective, listing
from ledger.rules.ledger_1.model import Settled
from ledger.rules.ledger_1.quality import Quality, quality
from ledger.rules.ledger_1.resolutions import Resolved
from ledger.rules.ledger_1.review_model import Tag
from ledger.rules.ledger_1.review_reasons import review_reasons
from ledger.rules.ledger_1.reviews import (
    Basis,
    authored_fields,
    basis_of,
    panel_fields,
    pooled_fields,
    review_fields,
)


class _Derived(NamedTuple):
    """Everything that is derived of one source, before it is written as fields."""

    settled: Settled
    listed: Listing
    basis: Basis | None
    applies: Applies
    rated: Quality
    resolved: list[Resolved]
    measured: Difficulty
    aliases: list[tuple[str, NamedElsewhere]]
    tags: list[Tag]


def show(source_id: str, settled: Settled, environment: Environment) -> State | None:
    """What is shown; None while the source is not in the catalogue."""
    listed = listing(settled, environment)
    if listed is None:
        return None
    found = _derived(source_id, settled, environment, listed)
    return {**_catalogue_fields(source_id, listed), **_judged_fields(found)}


def shown_from(source_id: str, settled: Settled, environment: Environment) -> tuple[object, ...]:
    """Everything that `show` reads: of the catalogue only what took effect, of policy only what bears on a report."""
    judged = (environment.protocols, environment.adopted, environment.replaced) if settled.reports else ()
    names = environment.named.get(source_id, ())
    return (
        settled.reviews,
        settled.tags,
        settled.retracted,
        settled.defects,
        settled.last_opened,
        settled.last_closed,
        settled.last_resolved,
        settled.reports,
        settled.followups,
        settled.context,
        settled.attestations,
        *judged,
        names,
        *(environment.aliases[name] for name in names),
        *(one for pair in effective(settled, environment) for one in pair),
    )


def _derived(source_id: str, settled: Settled, environment: Environment, listed: Listing) -> _Derived:
    basis = basis_of(settled, listed)
    applies = applicability(basis, settled, listed)
    rated = quality(settled, basis, applies, listed)
    return _Derived(
        settled=settled,
        listed=listed,
        basis=basis,
        applies=applies,
        rated=rated,
        resolved=resolutions.resolved(settled, listed),
        measured=difficulty(Context(source_id, settled, environment, listed, rated, applies)),
        aliases=[(name, environment.aliases[name]) for name in environment.named.get(source_id, ())],
        tags=tags.in_effect(settled),
    )


def _catalogue_fields(source_id: str, listed: Listing) -> dict[str, Any]:
    row = listed.row
    return {
        "id": source_id,
        "origin": row.origin,
        "name": row.name,
        "family": row.family,
        "dataset_id": row.dataset_id,
        "dataset_revision": row.dataset_revision,
        "revision": row.revision,
        "verifier_revision": row.verifier_revision,
        "atlas_status": row.atlas_status,
        "intended_use": row.intended_use,
        "is_benchmark": row.is_benchmark,
        "input_rows": row.input_rows,
        "retired": listed.retired,
        "row_sha256": row.sha256,
        "url": row.url,
        "counts": [
            {"basis": c.basis, "rows": c.rows, "revision": c.revision, "evidence_sha256": c.evidence, "pos": at}
            for c, at in ((count, listed.stated[0]) for count in row.counts)
        ],
    }


def _judged_fields(found: _Derived) -> dict[str, Any]:
    settled, listed = found.settled, found.listed
    return {
        "quality": found.rated.value,
        "underlying_quality": found.rated.underlying,
        "applicability": found.applies.value,
        "review": review_fields(found.basis, listed),
        "difficulty": difficulty_fields(found.measured, settled),
        "open_defects": resolutions.shown(settled, "open"),
        "suspected_defects": resolutions.shown(settled, "suspected"),
        "resolved_defects": resolutions.shown_resolved(found.resolved),
        "reasons": [
            *found.rated.reasons,
            *(resolutions.why(one) for one in found.resolved),
            *found.applies.reasons,
            *review_reasons(settled, found.basis, listed),
            *found.measured.shown.reasons,
            *catalogue_reasons(listed),
        ],
        "sample": _rests_on_sample(found),
        "attestations": _attestations(found),
        "panel": panel_fields(found.basis),
        "review_pool": _pool(found),
        "aliases": [
            {"alias": name, "status": alias.status, "applicability": alias.applicability, "pos": alias.pos}
            for name, alias in found.aliases
        ],
        "tags": sorted({tag.text for tag in found.tags}),
    }


def _pool(found: _Derived) -> list[dict[str, Any]]:
    """Every published collection, newest first; and the inventory's own rating while it stands in."""
    settled, listed = found.settled, found.listed
    pool = [pooled_fields(review, pooled(review, settled, listed)) for review in reversed(settled.reviews)]
    if found.basis is not None and found.basis.review is None:
        pool.append(authored_fields(found.basis, listed, found.applies.value))
        pool.sort(key=lambda one: -one["pos"])
    return pool


def _attestations(found: _Derived) -> list[dict[str, Any]]:
    if not found.settled.attestations:
        return []
    honoured = {a.id for a in _honoured(found)}
    return [
        {
            "kind": a.kind,
            "subject": a.subject,
            "finding": finding(a, found.listed.row.component_selector),
            "scope": a.scope,
            "pos": a.pos,
            "honoured": a.id in honoured,
        }
        for a in standing(found.settled)
    ]


def _honoured(found: _Derived) -> Iterable[Any]:
    yield from found.applies.honoured
    yield from found.measured.shown.honoured
    for one in found.resolved:
        yield from one.honoured


def _rests_on_sample(found: _Derived) -> bool:
    """Whether anything that is shown was made up for a demonstration."""
    settled = found.settled
    shown: list[Any] = [found.listed, *settled.reviews, *settled.reports, *settled.followups.values(), *found.tags]
    shown += [defect for defect in settled.defects.values() if defect.status != "withdrawn"]
    shown += [*standing(settled), *(alias for _, alias in found.aliases)]
    if settled.context is not None:
        shown.append(settled.context)
    return True in [one.sample for one in shown]
