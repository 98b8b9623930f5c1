"""Rollouts, groups, evaluations and weight transfers, as they are counted.

Counts are summed as they were recorded: a count that nobody made stays unknown, and none is derived from another.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from ledger.rules import RuleEvent
from ledger.rules.training_1 import reading
from ledger.rules.training_1.growing import grown
from ledger.rules.training_1.model import Counter, Disposed, Evaluated, Failed, Odd, Synced, Work
from ledger.rules.training_1.oddities import noted
from ledger.rules.training_1.values import measured, shown

COUNTED: Final = ("started", "finished", "verified", "consumed", "trained", "masked")
AT_MOST: Final = (("finished", "started"), ("verified", "finished"), ("consumed", "finished"), ("trained", "consumed"))
"""Of one summary, which count cannot exceed which."""

ROLLOUTS_DO_NOT_ADD_UP: Final = "ROLLOUTS_DO_NOT_ADD_UP"
WEIGHTS_NOT_IN_ENGINES: Final = "WEIGHTS_NOT_IN_ENGINES"
WEIGHT_VERSION_WENT_BACK: Final = "WEIGHT_VERSION_WENT_BACK"


def summarised(work: Work, event: RuleEvent, said: reading.RolloutsSummarised) -> Work:
    if said.phase == "eval":
        return replace(work, of_evaluations=work.of_evaluations + 1)
    return replace(
        work,
        counters=_counters(work.counters, said),
        errors=_errors(work.errors, said.errors),
        positions=grown(work.positions, event.pos),
        of_steps=work.of_steps + (said.step is not None),
        of_no_step=work.of_no_step + (said.step is None),
        odd=_adds_up(work.odd, event.pos, said),
    )


def _counters(known: dict[str, Counter], said: reading.RolloutsSummarised) -> dict[str, Counter]:
    sums = dict(known)
    for name in COUNTED:
        count = getattr(said, name)
        if count is not None:
            before = sums.get(name, Counter(0, 0))
            sums[name] = Counter(before.total + count, before.summaries + 1)
    return sums


def _errors(known: tuple[Failed, ...], said: Iterable[reading.ErrorCount]) -> tuple[Failed, ...]:
    sums = {(one.exception_type, one.treatment): one.count for one in known}
    for error in said:
        key = (error.exception_type, error.treatment)
        sums[key] = sums.get(key, 0) + error.count
    return tuple(Failed(type_, treatment, count) for (type_, treatment), count in sums.items())


def _adds_up(odd: tuple[Odd, ...], pos: int, said: reading.RolloutsSummarised) -> tuple[Odd, ...]:
    for less, more in AT_MOST:
        fewer, all_ = getattr(said, less), getattr(said, more)
        if fewer is not None and all_ is not None and fewer > all_:
            where = "a summary" if said.step is None else f"the summary of step {said.step}"
            message = f"{where} counts {fewer} {less} rollouts, and only {all_} {more}"
            odd = noted(odd, ROLLOUTS_DO_NOT_ADD_UP, 0, message, pos)
    return odd


def disposed(work: Work, event: RuleEvent, said: reading.GroupsDisposed) -> Work:
    sums = {(one.disposition, one.reason): (one.groups, one.samples) for one in work.groups}
    for group in said.groups:
        _add(sums, (group.disposition, group.reason), 1, group.samples)
    for count in said.counts:
        _add(sums, (count.disposition, count.reason), count.groups, count.samples)
    groups = tuple(Disposed(disposition, reason, *counts) for (disposition, reason), counts in sums.items())
    return replace(work, groups=groups, positions=grown(work.positions, event.pos))


def _add(
    sums: dict[tuple[str, str | None], tuple[int, int | None]],
    key: tuple[str, str | None],
    groups: int,
    samples: int | None,
) -> None:
    """Samples are unknown as soon as they are unknown for some."""
    if key not in sums:
        sums[key] = (groups, samples)
        return
    before, known = sums[key]
    sums[key] = (before + groups, None if known is None or samples is None else known + samples)


def evaluated(work: Work, event: RuleEvent, said: reading.EvalLogged) -> Work:
    evaluations = work.evaluations
    for one in said.evaluations:
        evaluations = grown(evaluations, Evaluated(event.pos, said.attempt, said.step, bytes(one)))
    return replace(work, evaluations=evaluations)


def synced(work: Work, event: RuleEvent, said: reading.WeightsSynced) -> Work:
    highest = work.versions.get(said.attempt, said.weight_version)
    odd = work.odd
    if said.weight_version < highest:
        message = f"attempt {said.attempt} sent weights {said.weight_version} to the engines, after weights {highest}"
        odd = noted(odd, WEIGHT_VERSION_WENT_BACK, said.attempt, message, event.pos)
    failed = _over_tolerance(said)
    if failed is not None:
        odd = noted(odd, WEIGHTS_NOT_IN_ENGINES, said.attempt, failed, event.pos)
    known = work.synced
    counts = Synced(
        known.count + 1,
        known.probed + (measured(said.probe_difference) is not None),
        known.failed if failed is None else (*known.failed, event.pos),
    )
    versions = {**work.versions, said.attempt: max(highest, said.weight_version)}
    return replace(work, synced=counts, versions=versions, odd=odd)


def _over_tolerance(said: reading.WeightsSynced) -> str | None:
    """Why the engines had other weights than the trainer; None where nothing says so."""
    difference, tolerance = measured(said.probe_difference), said.probe_tolerance
    # A difference that is no number is not within any tolerance.
    if difference is None or tolerance is None or difference <= tolerance:
        return None
    return (
        f"after step {said.step} of attempt {said.attempt} a probe differed by {shown(difference)} between engine and "
        f"trainer, over its tolerance of {shown(tolerance)}"
    )
