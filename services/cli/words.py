"""The words and numbers in which the Atlas page speaks to people, and their colours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from rich.text import Text

from ledger.core import clock
from ledger.core.text import harmless
from ledger.wire import audit_pb2

QUALITY: Final = {
    "good": ("Good", "green"),
    "some_issues": ("Some issues", "yellow"),
    "bad": ("Bad", "red"),
    "unrated": ("Unrated", "dim"),
    "unreviewed": ("Unreviewed", "dim"),
    "needs_re_review": ("Needs re-review", "magenta"),
}
DIFFICULTY: Final = {
    "current": ("Current", ""),
    "historical": ("Historical", "dim"),
    "invalid": ("Protocol mismatch", "yellow"),
    "withheld": ("Withheld · verifier issues", "yellow"),
    "needs_re_review": ("Needs re-review", "magenta"),
    "not_measured": ("Not measured", "dim"),
}
APPLICABILITY: Final = {
    "current": "holds for the present revisions",
    "stale": "the revisions changed since the review",
    "unknown": "unknown whether it holds for the present revisions",
}
DEFECT: Final = {"suspected": "Suspected", "open": "Confirmed", "resolved": "Resolved"}


def quality(value: str) -> Text:
    """Good, Some issues, …; a word of a newer ledger as it is."""
    return _word(QUALITY.get(value, (value, "")))


def difficulty(value: str) -> Text:
    return _word(DIFFICULTY.get(value, (value or "unknown", "")))


def counted(count: int, noun: str) -> str:
    """1 source, 2 sources."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def qualities(sources: Iterable[audit_pb2.Source]) -> str:
    """How many sources are of each quality, the best first."""
    numbers = Counter(source.quality for source in sources)
    known = [*QUALITY, *sorted(numbers.keys() - QUALITY.keys())]
    return " · ".join(f"{quality(name).plain} {numbers[name]:,}" for name in known if numbers[name])


def rated(source: audit_pb2.Source) -> Text:
    """The quality with what limits it, as one cell."""
    text = quality(source.quality)
    if source.HasField("applicability") and source.applicability == "unknown":
        text.append(", applicability unknown", style="dim")
    return text.append(" (sample)", style="dim") if source.sample else text


def measured(source: audit_pb2.Source) -> Text:
    """The difficulty as one cell: solve rates while they are current, a word otherwise."""
    shown = source.difficulty
    rates = " · ".join(f"{m.size} {m.solved}/{m.verified}" for m in shown.models)
    if shown.status == "current" and rates:
        return Text(harmless(rates))
    text = difficulty(shown.status)
    return text.append(f" ({harmless(rates)})") if rates else text


def solve_rate(model: audit_pb2.DifficultyModel) -> str:
    """solved/verified, the percent and its interval, and what stands beside the denominator."""
    parts = [f"{model.solved}/{model.verified} solved/verified"]
    if model.HasField("solve_rate"):
        percent = f"{model.solve_rate:.1%}"
        if model.HasField("wilson_low") and model.HasField("wilson_high"):
            percent += f" (95 % interval {model.wilson_low:.1%} to {model.wilson_high:.1%})"
        parts.append(percent)
    parts.append(f"{model.unverified} unverified" if model.HasField("unverified") else "unverified unknown")
    parts.append(f"{model.attempted} attempted" if model.HasField("attempted") else "attempted unknown")
    return ", ".join(parts)


def defect(found: audit_pb2.Defect) -> str:
    """A defect as one line."""
    issue = found.issue_url if found.HasField("issue_url") else "issue missing"
    state = DEFECT.get(found.status, found.status)
    where = "" if found.status == "suspected" else f" ({issue})"
    return harmless(f"{state} {found.kind} defect {found.id}: {found.summary}{where}")


def moment(us: int | None) -> str:
    """A recorded time, to the second."""
    if us is None:
        return "no time yet"
    return clock.to_text(us)[:19].replace("T", " ") + " UTC"


def _word(pair: tuple[str, str]) -> Text:
    word, style = pair
    return Text(harmless(word), style=style)
