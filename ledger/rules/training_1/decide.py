"""Decisions about runs, judged before they are recorded: every reason against one, at once.

What happened is recorded whatever it says; a selection or a verification is refused where what is known contradicts it.
A place is the JSON pointer of the field that is at fault. Where nothing is recorded to judge by, nothing stands against
a decision: a story that is told afterwards has no series, and its selection says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ledger.core.errors import Problem
from ledger.rules import RuleEvent
from ledger.rules.training_1 import reading
from ledger.rules.training_1.decoding import read
from ledger.rules.training_1.history import Save, names, saves
from ledger.rules.training_1.model import Facts, Life, Run
from ledger.rules.training_1.recomputing import RULE, TOLERANCE, Recomputed
from ledger.rules.training_1.selecting import interval_of, recomputed
from ledger.rules.training_1.selection import FIRST_MULTIPLE
from ledger.rules.training_1.straying import FIELDS, named_elsewhere
from ledger.rules.training_1.values import measured
from ledger.rules.training_1.verifying import against_verification


def decide(event: RuleEvent, facts: Facts) -> tuple[Problem, ...]:
    judge = _JUDGES.get(event.type)
    if judge is None:
        return ()
    named = named_elsewhere(event)
    if named is not None:
        place = f"/{FIELDS[named.partition('/')[0]]}"
        return (Problem(place, f"names {named}, and the decision would be recorded in {event.stream}"),)
    return tuple(judge(read(event), facts))


def _selected(said: reading.CheckpointSelected, facts: Facts) -> Iterator[Problem]:
    at_fault = tuple(_checkpoint(said, facts.run.life))
    yield from at_fault
    if said.rule.id == RULE:
        yield from _eligible(said, facts.run.life)
        # What is not there has no lineage whose numbers could be compared.
        if not at_fault:
            yield from _by_rule(said, facts.run)


# The checkpoint


def _checkpoint(said: reading.CheckpointSelected, life: Life) -> Iterator[Problem]:
    """It was committed, is still there, and is the one that is meant."""
    at_step = [save for save in saves(life) if save.step == said.step and said.attempt in {None, save.attempt}]
    committed = [save for save in at_step if save.committed_pos is not None]
    if not committed:
        yield Problem("/step", _never_committed(said, at_step))
        return
    alike = [save for save in committed if names(said, save)]
    if not alike:
        known = ", ".join(sorted({str(save.digest) for save in committed}))
        yield Problem("/digest", f"is {said.digest}, and the checkpoint at step {said.step} was committed as {known}")
        return
    if all(save.lacks_weights for save in alike):
        yield Problem("/step", f"the checkpoint at step {said.step} was committed without weights: it holds no weights")
        return
    if not any(save.there for save in alike):
        yield Problem("/digest" if _replaced(alike) and said.digest else "/step", _gone(said, alike))
        return
    # What was deleted can be meant by nobody; what was written over may be.
    candidates = [save for save in alike if save.deleted_pos is None]
    if said.digest is None and any(save.digest != candidates[0].digest for save in candidates):
        digests = " and ".join(str(save.digest or "unknown") for save in candidates)
        yield Problem("/digest", f"step {said.step} was committed with digests {digests}: name the one that is meant")


def _never_committed(said: reading.CheckpointSelected, at_step: list[Save]) -> str:
    of = f"attempt {said.attempt}" if said.attempt is not None else "any attempt"
    if at_step:
        return f"a save of step {said.step} was begun at position {at_step[-1].pos} and never committed"
    return f"no checkpoint at step {said.step} of {of} was committed"


def _replaced(alike: list[Save]) -> bool:
    return any(save.replaced_pos is not None for save in alike)


def _gone(said: reading.CheckpointSelected, alike: list[Save]) -> str:
    last = alike[-1]
    if last.deleted_pos is not None:
        return f"the checkpoint at step {said.step} was deleted at position {last.deleted_pos}"
    return f"the checkpoint at step {said.step} was written over with other bytes at position {last.replaced_pos}"


# The rule


def _by_rule(said: reading.CheckpointSelected, run: Run) -> Iterator[Problem]:
    again = recomputed(run, said)
    if again.recomputed in {"agrees", "differs"}:
        yield from _numbers(said, again)
        yield from _best(said, again)


def _eligible(said: reading.CheckpointSelected, life: Life) -> Iterator[Problem]:
    """What the step and the rule's own parameters say."""
    interval = said.rule.interval or interval_of(life)
    first = said.rule.first_eligible
    if interval:
        whose = "the rule's" if said.rule.interval else "the run's"
        if said.step % interval:
            yield Problem("/step", f"{said.step} is no multiple of {whose} interval {interval}")
        first = FIRST_MULTIPLE * interval if first is None else first
    if first is not None and said.step < first:
        yield Problem("/step", f"{said.step} is before step {first}, the first eligible one")
    if said.cap_step is not None and said.step > said.cap_step:
        yield Problem("/step", f"{said.step} is after the cap at step {said.cap_step}")
    if said.eligible_steps is not None and said.step not in said.eligible_steps:
        yield Problem("/eligible_steps", f"do not hold the selected step {said.step}")


def _numbers(said: reading.CheckpointSelected, again: Recomputed) -> Iterator[Problem]:
    """What is recorded beside what the series on the checkpoint's own lineage gives."""
    for place, recorded, computed in (
        ("/ema", measured(said.ema), again.computed_ema),
        ("/reward", measured(said.reward), again.computed_reward),
    ):
        # Written so that NaN, which is near to nothing, is refused.
        if recorded is not None and computed is not None and not abs(recorded - computed) <= TOLERANCE:
            yield Problem(
                place, f"is {recorded:.4f}, and the checkpoint's own lineage gives {computed:.4f} at {said.step}"
            )


def _best(said: reading.CheckpointSelected, again: Recomputed) -> Iterator[Problem]:
    """The rule takes the highest EMA of the eligible saves; what it gives is named."""
    given = again.computed_step
    if given is not None and given != said.step:
        yield Problem("/step", f"is not what the rule gives: {'; '.join(again.notes[:1])}")


_JUDGES: Final[Mapping[str, Callable[[Any, Facts], Iterator[Problem]]]] = {
    "checkpoint.selected": _selected,
    "export.verified": against_verification,
}
