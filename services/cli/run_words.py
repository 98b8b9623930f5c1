"""The words and numbers in which runs are told, and their colours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rich.text import Text

from ledger.client.cards.text import number
from ledger.core.text import harmless
from ledger.wire import provenance_pb2, runs_pb2

STATUS: Final = {
    "open": ("open", ""),
    "completed": ("completed", "green"),
    "failed": ("failed", "red"),
    "cancelled": ("cancelled", "yellow"),
    "preempted": ("preempted", "yellow"),
    "unknown": ("ended, nobody knows how", "magenta"),
}
ANOMALIES: Final = ("entropy_runaway", "entropy_collapse", "reward_collapse", "non_finite", "other")
COMPLETENESS: Final = {
    "complete": "complete: everything that its recorders were given is here",
    "complete_except": "complete, except:",
    "unknown": "unknown whether it is complete:",
}
RECOMPUTED: Final = {
    "agrees": "computed again over the recorded series, the rule gives what was recorded",
    "differs": "computed again over the recorded series, the rule gives something else than was recorded",
    "no_series": "no series is recorded by which the rule could be computed again",
    "other_rule": "the ledger does not compute this rule; it is kept as it was recorded",
}
FOUR_PLACES: Final = 1e6
"""Below it a figure is told to four places; nothing that is not finite is below it."""
MATCH: Final = {
    "same_revision": "same revision",
    "other_revision": "other revision",
    "unknown_revision": "unknown revision",
}


def status(value: str) -> Text:
    """How a run, an attempt or an export stands; a word of a newer ledger as it is."""
    word, style = STATUS.get(value, (value.replace("_", " "), ""))
    return Text(harmless(word), style=style)


def ended(run: runs_pb2.RunSummary) -> Text:
    """How the run ended, where, and why."""
    if run.status == "open":
        last = f"; the last step is {run.last_step:,}" if run.HasField("last_step") else ""
        return Text(f"no end is recorded{last}")
    text = status(run.status)
    if run.HasField("last_step"):
        of = f" of {run.planned_steps:,} planned" if run.HasField("planned_steps") else ""
        text.append(f" at step {run.last_step:,}{of}")
    if run.HasField("reason"):
        text.append(f": {harmless(run.reason)}")
    return text


def spaced(name: str) -> str:
    """`entropy_runaway` is "entropy runaway"."""
    return name.replace("_", " ")


def known(message: Any, name: str) -> Any:
    """The field's value, or None where it is absent."""
    return getattr(message, name) if message.HasField(name) else None


def value(message: Any, name: str) -> str | None:
    """An optional number as text; None is shown as unknown."""
    found = known(message, name)
    return None if found is None else number(found)


def metric(metrics: Mapping[str, float], key: str) -> str:
    """One metric of a step; a step that did not log it has none, which is not 0."""
    return number(metrics[key]) if key in metrics else "-"


def average(found: float | None) -> str | None:
    """An EMA or a reward: to four places, as such figures are told. What would not fit so is a number like others."""
    if found is None:
        return None
    return f"{found:.4f}" if abs(found) < FOUR_PLACES else number(found)


def figures(chosen: runs_pb2.Selection, how: str) -> list[str]:
    """EMA and reward of a choice, as they were `recorded` or `computed`; nothing where neither is known."""
    told = (("EMA", known(chosen, f"{how}_ema")), ("reward", known(chosen, f"{how}_reward")))
    return [f"{what} {average(found)}" for what, found in told if found is not None]


def events(positions: Iterable[int]) -> str:
    """Events by their positions."""
    told = ", ".join(map(str, positions))
    return f"events {told}" if "," in told else f"event {told}"


def numbers(found: Iterable[runs_pb2.NamedNumber]) -> str:
    return ", ".join(f"{spaced(one.name)} {number(one.value)}" for one in found)


def anomaly(found: runs_pb2.Anomaly) -> str:
    """An anomaly as one line: what is said of it."""
    by = f"derived by {found.rule}" if found.HasField("rule") else found.origin
    parts = [f"{spaced(found.kind)}, {by}"]
    if found.HasField("onset_step"):
        parts.append(f"from step {found.onset_step:,} on")
    if found.HasField("seen_at_step"):
        parts.append(f"seen at step {found.seen_at_step:,}")
    line = ", ".join(parts)
    return f"{line}: {found.statement}" if found.HasField("statement") else line


def best(chosen: runs_pb2.Selection) -> str:
    """Whether the choice was the best, among which steps, and what was better."""
    better = _higher(chosen)
    return {
        "among_all_steps": "best of all steps",
        "among_eligible_steps": f"best among eligible saves only{better}",
        "not_best": f"not the best among eligible saves{better}",
    }.get(chosen.best, f"unknown whether it was the best{better}")


def rule(chosen: provenance_pb2.SelectionRule) -> str:
    """By what a checkpoint was chosen, with its parameters."""
    parts = [chosen.id]
    parts += [f"{name} {getattr(chosen, name)}" for name in ("version", "metric") if chosen.HasField(name)]
    if chosen.HasField("alpha"):
        parts.append(f"alpha {number(chosen.alpha)}")
    if chosen.HasField("interval"):
        parts.append(f"every {chosen.interval:,} steps")
    if chosen.HasField("first_eligible"):
        parts.append(f"from step {chosen.first_eligible:,} on")
    return ", ".join(parts)


def _higher(chosen: runs_pb2.Selection) -> str:
    """Where the EMA was higher: by the series, or by what EMA and reward of the choice imply of the step before."""
    step, ema = chosen.step, None
    if chosen.HasField("best_ema_of_all") and chosen.HasField("best_step_of_all"):
        step, ema = chosen.best_step_of_all, chosen.best_ema_of_all
    elif chosen.HasField("implied_previous_ema") and chosen.implied_previous_ema > chosen.recorded_ema:
        step, ema = chosen.step - 1, chosen.implied_previous_ema
    return f": the EMA was higher at step {step:,} ({average(ema)})" if step != chosen.step else ""
