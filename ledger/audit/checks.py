"""Whether sources may be trained on: a verdict for each, and everything that stands against it.

What is shown of a source decides, as it is shown there, and nothing else. A rating holds for data that a review covers:
that this is unknown is said, and under `good` it stands against the source as much as a stale rating does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson

from ledger.audit.coordinates import Moment
from ledger.audit.states import Shelf, State
from ledger.audit.wording import count, quoted, revision
from ledger.core.errors import InvalidInput, Problem
from ledger.core.text import is_header_text
from ledger.log import limits

GOOD: Final = "good"
SOME_ISSUES: Final = "some_issues"
ANY: Final = "any"
REQUIREMENTS: Final = (GOOD, SOME_ISSUES, ANY)
MAX_SOURCES: Final = 1_000
EXCLUDED: Final = "excluded"

QUALITY: Final[Mapping[str, str]] = {
    "good": "Good",
    "some_issues": "Some issues",
    "bad": "Bad",
    "unrated": "Unrated",
    "unreviewed": "Unreviewed",
    "needs_re_review": "Needs re-review",
}
_ENOUGH: Final[Mapping[str, frozenset[str]]] = {
    GOOD: frozenset({"good"}),
    SOME_ISSUES: frozenset({"good", "some_issues"}),
    ANY: frozenset(QUALITY),
}
_DIFFICULTY: Final[Mapping[str, str]] = {
    "withheld": "Difficulty is withheld while verifier issues are open.",
    "historical": "Difficulty is only known from a historical report.",
    "invalid": "The difficulty report breaks the protocol that it names.",
    "needs_re_review": "Difficulty needs re-review.",
    "not_measured": "Difficulty is not measured.",
}
_PINS: Final = (("data", "dataset_revision"), ("verifier", "verifier_revision"))


@dataclass(frozen=True)
class Demand:
    """What is to be trained on, and what is asked of it.

    Raises:
        InvalidInput: no source, an unknown requirement, or a revision of a source that is not asked about.
    """

    sources: tuple[str, ...]
    require: str = GOOD
    dataset_revisions: Mapping[str, str] = field(default_factory=dict)
    verifier_revisions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.sources:
            raise InvalidInput("no source is named", remedy="Name the sources that the run is to train on.")
        if problems := list(self._problems()):
            raise InvalidInput(
                f"{problems[0].place}: {problems[0].message}",
                remedy="Correct the request; `ledger source list` shows the ids.",
                problems=problems,
            )

    def _problems(self) -> Iterator[Problem]:
        if self.require not in REQUIREMENTS:
            yield Problem("require", f"{quoted(self.require)!r} is none of {', '.join(REQUIREMENTS)}")
        if len(self.sources) > MAX_SOURCES:
            yield Problem("source_ids", f"{len(self.sources)} sources, at most {MAX_SOURCES}")
        if "" in self.sources:
            yield Problem("source_ids", "an id is empty")
        for place in ("dataset_revisions", "verifier_revisions"):
            given: Mapping[str, str] = getattr(self, place)
            for source in sorted(given.keys() - set(self.sources)):
                yield Problem(place, f"{quoted(source)!r} is not among the sources that are asked about")
            for source in sorted(s for s, pinned in given.items() if not pinned):
                yield Problem(place, f"the revision of {quoted(source)!r} is empty; leave out what is unknown")

    def pinned(self, source: str, field_: str) -> str | None:
        """The revision that will be consumed, if it was given."""
        given = self.dataset_revisions if field_ == "dataset_revision" else self.verifier_revisions
        return given.get(source)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of one source; its state is None where there is no such source."""

    source: str
    state: State | None
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.reasons


@dataclass(slots=True)
class _Findings:
    """What speaks against a source, and what a reader should know all the same."""

    reasons: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def say(self, text: str, *, against: bool) -> None:
        (self.reasons if against else self.warnings).append(text)


def check_sources(demand: Demand, moment: Moment, shelf: Shelf) -> tuple[Verdict, ...]:
    """A verdict for each source once, in the order asked."""
    asked = list(dict.fromkeys(demand.sources))
    states = _states(asked, moment, shelf)
    return tuple(verdict(source, states.get(source), demand) for source in asked)


def _states(asked: Sequence[str], moment: Moment, shelf: Shelf) -> dict[str, State]:
    # What no source can be called is not asked of the database, which might not even take it.
    names = [source for source in asked if is_header_text(source, limits.STREAM_BYTES)]
    return {source: orjson.loads(state) for source, state in shelf.states(moment).some(names).items()}


def verdict(source: str, state: State | None, demand: Demand) -> Verdict:
    """The verdict on what is shown of a source."""
    if state is None:
        return Verdict(source, None, ("The Atlas does not list it: nothing is known of it.",))
    found = _Findings()
    _judge_listing(state, found)
    _judge_quality(state, demand, found)
    _judge_applicability(state, demand, found)
    _judge_defects(state, demand, found)
    _judge_revisions(source, state, demand, found)
    _note_the_rest(state, found)
    return Verdict(source, state, tuple(found.reasons), tuple(found.warnings))


def _judge_listing(state: State, found: _Findings) -> None:
    if state["retired"]:
        found.say("Retired: the catalogue no longer offers it.", against=True)
    if (state["atlas_status"] or "").casefold() == EXCLUDED:
        found.say("Excluded from the Atlas.", against=True)


def _judge_quality(state: State, demand: Demand, found: _Findings) -> None:
    quality = state["quality"]
    if quality not in _ENOUGH[demand.require]:
        wanted = " or ".join(QUALITY[q] for q in QUALITY if q in _ENOUGH[demand.require])
        found.say(f"Quality is {QUALITY.get(quality, quoted(quality))}; {wanted} is required.", against=True)
    elif quality != "good":
        found.say(f"Quality is {QUALITY.get(quality, quoted(quality))}.", against=False)


def _judge_applicability(state: State, demand: Demand, found: _Findings) -> None:
    """Whether the rating is of the data as it is now; without a review there is no rating to ask about."""
    applies, quality = state["applicability"], QUALITY.get(state["quality"], quoted(state["quality"]))
    if state["review"] is None and applies is None:
        if state["quality"] in {"good", "some_issues"}:
            found.say(f"{quality}, and no review says of which revisions.", against=demand.require == GOOD)
    elif applies == "stale":
        found.say("Stale: the source changed since its review.", against=demand.require != ANY)
    elif applies != "current":
        text = f"{quality}, applicability unknown: nothing shows that the review covers the present revisions."
        found.say(text, against=demand.require == GOOD)


def _judge_defects(state: State, demand: Demand, found: _Findings) -> None:
    for defect in state["open_defects"]:
        issue = defect.get("issue_url")
        where = f" ({quoted(issue)})" if issue else " (no issue filed)"
        text = f"Open {quoted(defect['kind'])} defect {quoted(defect['id'])}: {quoted(defect['summary'])}{where}"
        found.say(text, against=demand.require == GOOD)
    if state["suspected_defects"]:
        suspected = count(len(state["suspected_defects"]), "suspected defect")
        found.say(f"{suspected}, not confirmed: {_ids(state['suspected_defects'])}.", against=False)


def _ids(defects: Sequence[Mapping[str, str]]) -> str:
    return ", ".join(quoted(defect["id"]) for defect in defects)


def _judge_revisions(source: str, state: State, demand: Demand, found: _Findings) -> None:
    for what, name in _PINS:
        given, present = demand.pinned(source, name), _present(state, name)
        if given is None:
            if name == "dataset_revision":
                found.say(
                    "No data revision was given: nobody can say that what is trained on was reviewed.", against=False
                )
        elif present is None:
            text = f"The present {what} revision is not known, so {what} {revision(given)} cannot be compared with it."
            found.say(text, against=demand.require == GOOD)
        elif given != present:
            found.say(_differs(what, name, given, present, state), against=True)


def _present(state: State, name: str) -> str | None:
    """The revision that the source stands at; of its data the inventory may only say one of all."""
    present: str | None = state[name]
    return present or (state["revision"] if name == "dataset_revision" else None)


def _differs(what: str, name: str, given: str, present: str, state: State) -> str:
    reviewed = state["review"] and state["review"].get(name)
    text = f"The {what} is {revision(given)}, and the source stands at {revision(present)}"
    if reviewed == given:
        return f"{text}; the review shown is of {revision(given)}."
    return f"{text}; the review shown is of {revision(reviewed)}." if reviewed else f"{text}."


def _note_the_rest(state: State, found: _Findings) -> None:
    if (said := _DIFFICULTY.get(state["difficulty"]["status"])) is not None:
        found.say(said, against=False)
    if state["is_benchmark"]:
        found.say("It is a benchmark: what is trained on it cannot be measured by it.", against=False)
    if state.get("sample"):
        found.say("What is shown rests on sample events, made up for a demonstration.", against=False)
