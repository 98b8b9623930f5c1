"""Histories of real events in any order, sensible or not: what a log may come to hold.

A step is small numbers; telling it gives the drafts of one append. So a history shrinks to its simplest form.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel

from ledger.client.drafts import Draft
from ledger.events.administration import EventDisregarded
from ledger.events.reviews import TagRetracted
from ledger.rules.atlas_page_1 import V2
from tests.rules import builders, ledger_1_builders
from tests.server.doors import alias, of

SOURCES = (builders.SOURCE, f"{builders.ORIGIN}:two", "Elsewhere:three")
ORIGINS = (builders.ORIGIN, "Elsewhere")
DEFECTS = ("d1", "d2")
REVIEWS = (ledger_1_builders.good, builders.some_issues, builders.bad, builders.fixed)


@dataclass(frozen=True)
class Step:
    """What happens, to which source, in which of a few variants; and whether the projector moves after it."""

    kind: str
    source: int
    variant: int
    fold: bool
    restart: bool
    target: int = 0
    """Of a disregard: which earlier event it names."""


class Teller:
    """Turns steps into drafts, and remembers what later ones may refer to. The log must have been empty before."""

    def __init__(self) -> None:
        self._count = 0
        self._ids: list[str] = []
        """Of every event, by position."""
        self._refreshes: dict[str, int] = defaultdict(int)
        self._parts: dict[str, list[str]] = defaultdict(list)
        self._closed: dict[str, str] = {}
        self._reviews: dict[str, list[str]] = defaultdict(list)
        self._validations: dict[str, str] = {}
        self._definition = "none"

    def tell(self, step: Step) -> list[Draft]:
        kinds: dict[str, Callable[[str, int], list[Draft]]] = {
            "list": self._list, "revise": self._revise, "retire": self._retire, "reinstate": self._reinstate,
            "close": self._close, "review": self._review, "unclosed review": self._unclosed_review,
            "supersede": self._supersede, "suspect": self._suspect, "confirm": self._confirm,
            "withdraw": self._withdraw, "reopen": self._reopen, "validate": self._validate, "resolve": self._resolve,
            "measure": self._measure, "define": self._define, "adopt": self._adopt, "alias": self._alias,
            "attest": self._attest, "follow up": self._follow_up, "give context": self._give_context,
            "tag": self._tag, "untag": self._untag,
        }  # fmt: skip
        if step.kind == "disregard":
            drafts = [self._disregard(step.target, step.variant)]
        else:
            drafts = kinds[step.kind](SOURCES[step.source], step.variant)
        self._ids += [draft.id for draft in drafts]
        return drafts

    def _disregard(self, target: int, variant: int) -> Draft:
        """Of any event before; of one that is not there yet, or of another id than stands there, now and then."""
        last = len(self._ids)
        pos = last + target % 3 if variant == 3 and target % 2 else target % max(last, 1)
        named = self._ids[pos] if pos < last and not (variant == 3 and target % 4 == 0) else "another"
        return self._draft(EventDisregarded(pos=pos, event=named, reason="It was wrong."), "ledger")

    def _draft(self, payload: BaseModel, stream: str, *, sample: bool = False) -> Draft:
        self._count += 1
        return of(payload, stream, id=f"h{self._count}", tags=["sample"] if sample else [])

    def _origin(self, source: str) -> str:
        return source.partition(":")[0]

    def _collection(self, source: str) -> str:
        origin = self._origin(source)
        return f"{origin}-{self._refreshes[origin]}"

    def _part(self, make: Callable[..., BaseModel], source: str, variant: int, **fields: Any) -> list[Draft]:
        draft = self._draft(make(self._collection(source), **fields), f"source/{source}", sample=variant == 3)
        self._parts[self._collection(source)].append(draft.id)
        return [draft]

    def _list(self, source: str, variant: int) -> list[Draft]:
        return self._part(builders.declared, source, variant, **self._row(source, variant))

    def _revise(self, source: str, variant: int) -> list[Draft]:
        return self._part(builders.revised, source, variant, **self._row(source, variant))

    def _reinstate(self, source: str, variant: int) -> list[Draft]:
        return self._part(builders.reinstated, source, variant, **self._row(source, variant))

    def _retire(self, source: str, variant: int) -> list[Draft]:
        return self._part(builders.retired, source, variant)

    def _row(self, source: str, variant: int) -> dict[str, Any]:
        revisions = ((builders.DATA, builders.VERIFIER), ("data-2", builders.VERIFIER), (None, None), ("data-1", "v-2"))
        data, verifier = revisions[variant]
        return {
            "id": source,
            "origin": self._origin(source),
            "dataset_revision": data,
            "verifier_revision": verifier,
        }

    def _close(self, source: str, variant: int) -> list[Draft]:
        """Closes the refresh; a variant names other parts than there are."""
        origin, collection = self._origin(source), self._collection(source)
        ids = self._parts[collection] if variant != 2 else ["other"]
        closing = builders.synced(collection, ids, replaces=self._closed.get(origin), origin=origin)
        draft = self._draft(closing, f"origin/{origin}")
        self._closed[origin] = draft.id
        if variant != 1:  # else the next parts come into a refresh that is closed
            self._refreshes[origin] += 1
        return [draft]

    def _review_parts(self, source: str, variant: int) -> tuple[str, list[Draft]]:
        name = f"review-{self._count}"
        parts = REVIEWS[variant](name)
        return name, [self._draft(part, f"source/{source}") for part in parts]

    def _review(self, source: str, variant: int) -> list[Draft]:
        name, parts = self._review_parts(source, variant)
        self._reviews[source].append(name)
        closing = builders.published(name, name, [p.id for p in parts], source_id=source)
        return [*parts, self._draft(closing, f"source/{source}")]

    def _unclosed_review(self, source: str, variant: int) -> list[Draft]:
        return self._review_parts(source, variant)[1]

    def _supersede(self, source: str, variant: int) -> list[Draft]:
        reviews = self._reviews[source]
        name = reviews[variant % len(reviews)] if reviews else "never published"
        return [self._draft(builders.superseded(name), f"source/{source}")]

    def _suspect(self, source: str, variant: int) -> list[Draft]:
        return [self._draft(builders.suspected(DEFECTS[variant % 2]), f"source/{source}", sample=variant == 3)]

    def _confirm(self, source: str, variant: int) -> list[Draft]:
        issue = None if variant == 3 else builders.ISSUE
        return [self._draft(builders.confirmed(DEFECTS[variant % 2], issue=issue), f"source/{source}")]

    def _withdraw(self, source: str, variant: int) -> list[Draft]:
        return [self._draft(builders.withdrawn(DEFECTS[variant % 2]), f"source/{source}")]

    def _reopen(self, source: str, variant: int) -> list[Draft]:
        return [self._draft(builders.reopened(DEFECTS[variant % 2]), f"source/{source}")]

    def _validate(self, source: str, variant: int) -> list[Draft]:
        draft = self._draft(builders.validation(DEFECTS[variant % 2]), f"source/{source}")
        self._validations[source] = draft.id
        return [draft]

    def _resolve(self, source: str, variant: int) -> list[Draft]:
        review = self._reviews[source][-1] if self._reviews[source] else "none"
        said = builders.resolved(self._validations.get(source, "none"), review, DEFECTS[variant % 2])
        return [self._draft(said, f"source/{source}")]

    def _measure(self, source: str, variant: int) -> list[Draft]:
        protocol = (V2.protocol, "other")[variant == 1]
        return [self._draft(builders.report(protocol=protocol, atlas_id=source), f"source/{source}")]

    def _define(self, _source: str, variant: int) -> list[Draft]:
        name = (V2.protocol, "other")[variant % 2]
        draft = self._draft(builders.defined(name), "policy/protocols")
        self._definition = draft.id
        return [draft]

    def _adopt(self, _source: str, variant: int) -> list[Draft]:
        name = (V2.protocol, "other")[variant % 2]
        return [self._draft(builders.adopted(self._definition, name), "policy/protocols")]

    def _alias(self, source: str, variant: int) -> list[Draft]:
        """A fact that no rule looks at, or a name of one source, then of others."""
        if variant == 3:
            self._count += 1
            return [alias("x", f"h{self._count}")]
        mapped = ledger_1_builders.alias("mirror", *(source, *SOURCES)[: variant + 1], status="ambiguous")
        return [self._draft(mapped, "alias/mirror")]

    def _attest(self, source: str, variant: int) -> list[Draft]:
        """Equal data, then other data of the same subject, code that changed, and code that did not."""
        revisions = {"executed_revision": builders.DATA, "current_revision": "data-2"}
        said = (
            lambda: ledger_1_builders.same_data(**revisions),
            lambda: ledger_1_builders.same_data(equal=False, **revisions),
            lambda: ledger_1_builders.same_execution(equal=False),
            ledger_1_builders.same_code,
        )[variant]()
        return [self._draft(said, f"source/{source}")]

    def _follow_up(self, source: str, variant: int) -> list[Draft]:
        state = "incomplete" if variant == 3 else "complete"
        return [self._draft(ledger_1_builders.followup(f"f{variant}", state=state), f"source/{source}")]

    def _give_context(self, source: str, variant: int) -> list[Draft]:
        return [self._draft(ledger_1_builders.context(solved=variant), f"source/{source}")]

    def _tag(self, source: str, variant: int) -> list[Draft]:
        """Without a collection; the second assignment supersedes the first."""
        said = ledger_1_builders.tagged(None, f"t{variant}", f"value {variant}", "t0" if variant == 1 else None)
        return [self._draft(said, f"source/{source}")]

    def _untag(self, source: str, variant: int) -> list[Draft]:
        return [self._draft(TagRetracted(assignment_id=f"t{variant}", reason=None), f"source/{source}")]


KINDS = ("list", "revise", "retire", "reinstate", "close", "close", "review", "unclosed review", "supersede", "suspect",
         "confirm", "withdraw", "reopen", "validate", "resolve", "measure", "define", "adopt", "alias", "attest",
         "follow up", "give context", "tag", "untag", "disregard", "disregard")  # fmt: skip

steps = st.builds(
    Step,
    kind=st.sampled_from(KINDS),
    source=st.sampled_from((0, 0, 1, 2)),
    variant=st.integers(0, 3),
    fold=st.booleans(),
    restart=st.sampled_from((False, False, True)),
    target=st.integers(0, 200),
)
histories = st.lists(steps, min_size=3, max_size=40)

LISTED = (Step("define", 0, 0, fold=False, restart=False), Step("adopt", 0, 0, fold=False, restart=False),
          Step("list", 0, 0, fold=False, restart=False), Step("close", 0, 0, fold=True, restart=False))  # fmt: skip
"""Puts the first source into the catalogue and the protocol into use: a start from which most steps show."""
