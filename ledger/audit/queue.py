"""What a curator has to do, from what is shown: the items whose evidence can be used again come first.

Each kind of item is one function from a state to its items, so that a reader of the rules can check them one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ledger.audit.briefs import SourceFilter
from ledger.audit.coordinates import Moment
from ledger.audit.imports import Imports
from ledger.audit.pages import encode_token, page_size
from ledger.audit.reading import Check, go_on
from ledger.audit.sources import Sources
from ledger.audit.states import State
from ledger.audit.wording import count, quoted, short
from ledger.core.errors import InvalidInput

QUESTION: Final = "queue"


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to do; the fields of `QueueItem` in audit.proto."""

    kind: str
    source_id: str
    text: str
    events: tuple[int, ...] = ()
    reusable: tuple[int, ...] = ()


@dataclass(frozen=True)
class QueueFilter:
    """Which items: of which kinds (empty: all), of which sources."""

    kinds: frozenset[str] = frozenset()
    sources: SourceFilter = field(default_factory=SourceFilter)


@dataclass(frozen=True, slots=True)
class QueuePage:
    """Some of the items, how many there are of each kind, and how to ask for more."""

    items: tuple[Item, ...]
    total: int
    counts: Mapping[str, int]
    next_token: str = ""


class Queue:
    """Answers about what is to be done."""

    def __init__(self, sources: Sources, imports: Imports) -> None:
        self._sources = sources
        self._imports = imports

    def page(
        self, moment: Moment, which: QueueFilter, *, size: int = 0, start: int = 0, check: Check = go_on
    ) -> QueuePage:
        """The items that pass, from the one with the number `start`.

        Raises:
            InvalidInput: an unknown kind.
        """
        kinds = _kinds(which.kinds)
        unpublished = self._imports.unpublished(moment.size, check) if "audit_without_synthesis" in kinds else {}
        found = [
            item
            for state in self._sources.passing(moment, which.sources, check)
            for item in items(state, unpublished.get(state["id"], ()), kinds)
        ]
        found.sort(key=_order)
        end = start + page_size(size)
        token = encode_token(QUESTION, which, [moment], end) if end < len(found) else ""
        counts = Counter(item.kind for item in found)
        return QueuePage(tuple(found[start:end]), len(found), dict(sorted(counts.items())), token)


def items(state: State, unpublished: Iterable[list[int]] = (), kinds: Iterable[str] = ()) -> Iterator[Item]:
    """What is to be done about one source, by kind.

    Args:
        state: What is shown of it.
        unpublished: The parts of each imported audit of it that nothing published.
        kinds: Those that are asked; empty: all.
    """
    for kind in kinds or KINDS:
        if kind == "audit_without_synthesis":
            yield from _audits(state, unpublished)
        else:
            yield from _FINDS[kind](state)


def _kinds(asked: frozenset[str]) -> list[str]:
    if unknown := sorted(asked - set(KINDS)):
        raise InvalidInput(
            f"there is no kind of work {quoted(unknown[0])!r}", remedy=f"The kinds are {', '.join(KINDS)}."
        )
    return [kind for kind in KINDS if not asked or kind in asked]


def _order(item: Item) -> tuple[bool, int, str, tuple[int, ...]]:
    return (not item.reusable, KINDS.index(item.kind), item.source_id, item.events)


def _stale_review(state: State) -> Iterator[Item]:
    if state["applicability"] != "stale":
        return
    reusable = (*_pooled_again(state), *_unchanged(state))
    again = f"{count(len(reusable), 'piece')} of earlier evidence may be used again. " if reusable else ""
    text = f"The source changed since its review. {again}Review it anew: `ledger review publish`."
    yield Item("stale_review", state["id"], text, _behind(state, "applicability"), reusable)


def _defect_without_issue(state: State) -> Iterator[Item]:
    for defect in state["open_defects"]:
        if defect["issue_url"] is None:
            text = (
                f"File an issue for the open defect {defect['id']}. Its record stays as it is: withdraw it "
                "(`ledger defect withdraw`) and confirm it again with the issue (`ledger defect confirm --issue URL`)."
            )
            yield Item("defect_without_issue", state["id"], text, (defect["pos"],))


def _good_without_difficulty(state: State) -> Iterator[Item]:
    status = state["difficulty"]["status"]
    if (state["quality"], state["applicability"]) != ("good", "current") or status not in _UNMEASURED:
        return
    text = f"{_UNMEASURED[status]} Measure it under the protocol in force: `ledger difficulty publish`."
    yield Item("good_without_difficulty", state["id"], text, _behind(state, "difficulty"), tuple(_reports_again(state)))


_UNMEASURED: Final[Mapping[str, str]] = {
    "not_measured": "Good, and its difficulty is not measured.",
    "historical": "Good, and its difficulty is only known from a historical report.",
    "invalid": "Good, and its difficulty report breaks the protocol that it names.",
}


def _judges_in_conflict(state: State) -> Iterator[Item]:
    panel, review = state.get("panel"), state["review"]
    if not panel or not review or not panel["tasks_in_conflict"] or _judged_again(state, review["pos"]):
        return
    tasks = count(panel["tasks_in_conflict"], "task")
    text = (
        f"The judges of the review {short(review['id'])} differ on {tasks}. "
        "Look with `ledger audit judgments`, and have them judged again."
    )
    yield Item("judges_in_conflict", state["id"], text, (review["pos"],))


def _judged_again(state: State, pos: int) -> bool:
    """Whether a later review, still standing, judged the source once more."""
    return any(r["pos"] > pos and r["judgments"] and r["superseded"] is None for r in state["review_pool"])


def _audits(state: State, unpublished: Iterable[list[int]]) -> Iterator[Item]:
    for parts in unpublished:
        text = (
            f"An imported audit of {count(len(parts), 'part')} was never published. "
            "Bring it together in a source synthesis: `ledger review publish`."
        )
        yield Item("audit_without_synthesis", state["id"], text, tuple(parts), tuple(parts))
    for review in state.get("review_pool") or ():
        if review["role"] == "reused" and review["rating"] is None and review["superseded"] is None:
            text = f"The reused review {short(review['id'])} gives no rating: add a source synthesis and publish it."
            yield Item("audit_without_synthesis", state["id"], text, (review["pos"],), (review["pos"],))


def _resolution_not_current(state: State) -> Iterator[Item]:
    for defect in state["resolved_defects"]:
        applies = defect.get("applicability")
        if applies in {"stale", "unknown"}:
            text = (
                f"The defect {defect['id']} was resolved, and whether that holds now is {_HOLDS[applies]}: "
                "run its saved inputs again (`ledger defect validation`), or reopen it (`ledger defect reopen`)."
            )
            yield Item("resolution_not_current", state["id"], text, (defect["pos"],), tuple(_unchanged(state)))


_HOLDS: Final[Mapping[str, str]] = {
    "stale": "not shown, since the source changed",
    "unknown": "unknown",
}


def _applicability_unknown(state: State) -> Iterator[Item]:
    if (state["quality"], state["applicability"]) == ("good", "unknown"):
        text = "Good, and nothing shows that the review covers the present revisions: attest it (`ledger attest`)."
        reusable = (*_pooled_again(state), *_unchanged(state))
        yield Item("applicability_unknown", state["id"], text, _behind(state, "applicability"), reusable)


def _suspected_defect(state: State) -> Iterator[Item]:
    for defect in state["suspected_defects"]:
        text = (
            f"Reproduce the suspected defect {defect['id']} on native inputs and confirm it "
            "(`ledger defect confirm`), or withdraw it (`ledger defect withdraw`)."
        )
        yield Item("suspected_defect", state["id"], text, (defect["pos"],))


_FINDS: Final[Mapping[str, Callable[[State], Iterator[Item]]]] = {
    "stale_review": _stale_review,
    "defect_without_issue": _defect_without_issue,
    "good_without_difficulty": _good_without_difficulty,
    "judges_in_conflict": _judges_in_conflict,
    "resolution_not_current": _resolution_not_current,
    "applicability_unknown": _applicability_unknown,
    "suspected_defect": _suspected_defect,
}

KINDS: Final = (
    "stale_review",
    "defect_without_issue",
    "good_without_difficulty",
    "judges_in_conflict",
    "audit_without_synthesis",
    "resolution_not_current",
    "applicability_unknown",
    "suspected_defect",
)
"""In the order in which they are told."""


def _behind(state: State, field: str) -> tuple[int, ...]:
    """The events that the reasons of a field name."""
    return tuple(sorted({pos for r in state["reasons"] if r["field"] == field for pos in r["events"]}))


def _present_data(state: State) -> str | None:
    present: str | None = state["dataset_revision"] or state["revision"]
    return present


def _pooled_again(state: State) -> Iterator[int]:
    """Other collections, superseded or not, that reviewed the data as it is now; unknown is equal to nothing."""
    shown = state["review"] and state["review"]["id"]
    for review in state.get("review_pool") or ():
        same = review["dataset_revision"] is not None and review["dataset_revision"] == _present_data(state)
        if same and review["id"] != shown:
            yield review["pos"]


def _unchanged(state: State) -> Iterator[int]:
    """Attestations that found nothing changed."""
    yield from (a["pos"] for a in state.get("attestations") or () if a["finding"] == "unchanged")


def _reports_again(state: State) -> Iterator[int]:
    """Earlier reports, the shown one among them, that measured the data as it is now."""
    difficulty: Mapping[str, Any] = state["difficulty"]
    reports = [difficulty, *(difficulty.get("history") or ())]
    for report in reports:
        revision, pos = report.get("source_revision"), report.get("pos")
        if revision is not None and revision == _present_data(state) and pos is not None:
            yield pos
