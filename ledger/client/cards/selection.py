"""What a card says of the checkpoint: which one, by what rule, among which, and what its numbers score.

A rule's best is the best among the steps that it could choose. Whatever the choice is called elsewhere is a claim.
"""

from __future__ import annotations

import re
from typing import Final

from ledger.client.cards.record import Record
from ledger.client.cards.text import (
    Missing,
    Parts,
    code,
    counted,
    derived,
    known,
    listed,
    number,
    place,
    prose,
    said,
    words,
)
from ledger.wire import runs_pb2

_STEPS_TOLD: Final = 20
_RECOMPUTED: Final = {
    "agrees": "Computed again over the recorded series, the rule gives what was recorded",
    "differs": "Computed again over the recorded series, the rule gives something else than was recorded",
    "no_series": "No series is recorded by which the rule could be computed again",
    "other_rule": "The ledger does not compute this rule, and keeps it as it was recorded",
}
_BEST: Final = {
    "among_all_steps": "The EMA at step {step} is the highest of all steps",
    "among_eligible_steps": "Step {step} is the best among eligible steps only",
    "not_best": "Step {step} is not the best among the eligible steps",
}
_HIGHER: Final = re.compile(r"the EMA was higher at step \d+ \(\S+\), which is (no saved step|an eligible checkpoint)")
_SCORED: Final = re.compile(r"the reward at step \d+ scores the weights before update \d+")
_LABEL: Final = re.compile(r"the checkpoint labelled \d+ holds update \d+")
"""Remarks of the rules that the sentences here say in other words."""


def selection(record: Record) -> Parts:
    if not record.run.selections:
        yield Missing("the choice of a checkpoint")
    for chosen in record.run.selections:
        checkpoints = checkpoints_of(record, chosen)
        yield from _choice(record, chosen)
        for note in _notes(chosen, checkpoints):
            yield derived(f"Of the selection of step {chosen.step:,}: {prose(note)}", chosen.pos)
        for checkpoint in checkpoints:
            yield from _checkpoint(record, checkpoint, chosen.pos)


def checkpoints_of(record: Record, chosen: runs_pb2.Selection) -> list[runs_pb2.Checkpoint]:
    """What was saved under the step that was chosen."""
    return [checkpoint for checkpoint in record.run.checkpoints if _is_of(checkpoint, chosen)]


def _is_of(checkpoint: runs_pb2.Checkpoint, chosen: runs_pb2.Selection) -> bool:
    """The checkpoint that was chosen: by digest where the choice names one, else by step and attempt."""
    if checkpoint.step != chosen.step:
        return False
    if chosen.HasField("digest"):
        return checkpoint.digest == chosen.digest
    return not chosen.HasField("attempt") or checkpoint.attempt == chosen.attempt


def _choice(record: Record, chosen: runs_pb2.Selection) -> Parts:
    attempt = f" of attempt {chosen.attempt}" if chosen.HasField("attempt") else ""
    numbers = recorded_numbers(chosen)
    yield said(
        f"The checkpoint of step {chosen.step:,}{attempt} was selected for {code(chosen.purpose)} by {_rule(chosen)}"
        f"{f'; the selection names {numbers}' if numbers else ''}",
        chosen.pos,
    )
    if not numbers:
        yield Missing(f"the EMA and reward by which step {chosen.step:,} was selected")
    if chosen.eligible_steps:
        yield derived(f"Step {chosen.step:,} was chosen among {_steps(chosen)}", chosen.pos)
    else:
        yield Missing(f"the steps among which step {chosen.step:,} was chosen")
    yield from _again(record, chosen)
    if (best := best_of(chosen)) is not None:
        yield derived(best, *behind_best(record, chosen))
    if (wording := known(chosen, "wording")) is not None:
        yield said(f"That the choice is called {prose(wording)} is a claim made elsewhere, not a result", chosen.pos)


def recorded_numbers(chosen: runs_pb2.Selection) -> str:
    """EMA and reward as whoever chose names them; nothing where neither is named."""
    numbers = [(what, known(chosen, name)) for what, name in (("EMA", "recorded_ema"), ("reward", "recorded_reward"))]
    told = [f"{what} {number(value)}" for what, value in numbers if value is not None]
    return listed(told) if told else ""


def _notes(chosen: runs_pb2.Selection, checkpoints: list[runs_pb2.Checkpoint]) -> list[str]:
    """What the rules remark, less what another sentence of the card says."""
    told = [_HIGHER] if chosen.best in _BEST and _higher(chosen) else []
    told += [_LABEL] if checkpoints else []
    told += [_SCORED] if any(checkpoint.HasField("scored_by_step") for checkpoint in checkpoints) else []
    return [note for note in chosen.notes if not any(pattern.fullmatch(note) for pattern in told)]


def _rule(chosen: runs_pb2.Selection) -> str:
    rule = chosen.rule
    parts = [f"the rule {code(rule.id)}"]
    parts += [f"{what} {code(getattr(rule, what))}" for what in ("version", "metric", "code") if known(rule, what)]
    if rule.HasField("alpha"):
        parts.append(f"alpha {number(rule.alpha)}")
    if rule.HasField("interval"):
        parts.append(f"among multiples of {rule.interval:,}")
    if rule.HasField("first_eligible"):
        parts.append(f"from step {rule.first_eligible:,} on")
    return ", ".join(parts)


def _steps(chosen: runs_pb2.Selection) -> str:
    steps = list(chosen.eligible_steps)
    told = [f"{step:,}" for step in steps[:_STEPS_TOLD]]
    more = [f"{len(steps) - len(told):,} more"] if len(steps) > len(told) else []
    return f"{counted(len(steps), 'eligible step')}: {listed([*told, *more])}"


def _again(record: Record, chosen: runs_pb2.Selection) -> Parts:
    text = _RECOMPUTED.get(chosen.recomputed)
    if text is None:
        return
    names = (("step", "computed_step"), ("EMA", "computed_ema"), ("reward", "computed_reward"))
    values = [(what, known(chosen, name)) for what, name in names]
    found = [f"{what} {number(value)}" for what, value in values if value is not None]
    yield derived(f"{text}{': ' + listed(found) if found else ''}", chosen.pos, *record.series.ends)


def best_of(chosen: runs_pb2.Selection) -> str | None:
    """Among which steps the choice is the best, and where the EMA was higher."""
    if chosen.best in _BEST:
        higher = _higher(chosen)
        return _BEST[chosen.best].format(step=f"{chosen.step:,}") + (f": {'; '.join(higher)}" if higher else "")
    implied = _higher(chosen)
    return f"Of step {chosen.step:,}, {'; '.join(implied)}" if implied else None


def behind_best(record: Record, chosen: runs_pb2.Selection) -> tuple[int, ...]:
    """The choice, and the series where it was asked."""
    return (chosen.pos, *(record.series.ends if chosen.HasField("best_step_of_all") else ()))


def _higher(chosen: runs_pb2.Selection) -> list[str]:
    told = []
    if chosen.HasField("best_ema_of_all") and chosen.HasField("best_step_of_all"):
        told.append(f"the highest of all steps is {number(chosen.best_ema_of_all)} at step {chosen.best_step_of_all:,}")
    if chosen.HasField("implied_previous_ema"):
        before, recorded = chosen.implied_previous_ema, known(chosen, "recorded_ema")
        falling = ", and so falling at the step chosen" if recorded is not None and before > recorded else ""
        told.append(
            f"EMA and reward of the selection imply that the EMA was {before:.4f} one step before, at step "
            f"{chosen.step - 1:,}{falling}"
        )
    return told


def _checkpoint(record: Record, checkpoint: runs_pb2.Checkpoint, selected: int) -> Parts:
    step, pos = checkpoint.step, _events(checkpoint, selected)
    digest = known(checkpoint, "digest")
    parts = [f"The checkpoint of step {step:,} is {words(checkpoint.status)}", *_kept(checkpoint)]
    yield derived(", ".join([*parts, f"digest {code(digest)} over its files"] if digest else parts), *pos)
    if digest is None:
        yield Missing(f"a digest of the checkpoint of step {step:,}")
    yield from _updates(record, checkpoint, pos)
    if checkpoint.lineage:
        parts = [f"steps {p.first_step:,} to {p.last_step:,} of attempt {p.attempt}" for p in checkpoint.lineage]
        yield derived(f"Its lineage is {listed(parts)}", *pos, *record.series.ends)
    if checkpoint.before_collapse:
        onsets = [onset for anomaly in record.run.anomalies for onset in anomaly.positions]
        yield derived(f"The checkpoint of step {step:,} is a snapshot from before the collapse", *pos, *onsets)
    for reason in checkpoint.not_eligible_because:
        yield derived(f"It is not eligible under the rules of the ledger: {prose(reason)}", *pos)


def _updates(record: Record, checkpoint: runs_pb2.Checkpoint, pos: tuple[int, ...]) -> Parts:
    """What is in the weights, and which step's metrics score them."""
    last = checkpoint.last_update
    label = ", one less than its label says" if checkpoint.off_by_one else ""
    text, scored = f"Its weights hold updates up to {last:,}{label}", known(checkpoint, "scored_by_step")
    if scored is None:
        yield derived(text, *pos)
        return
    yield derived(
        f"{text}: the metrics of step {last:,} score the weights before that update, those of step {scored:,} score "
        "this checkpoint",
        *pos,
        record.series.at(scored),
    )


def _kept(checkpoint: runs_pb2.Checkpoint) -> list[str]:
    """Its form, its size and what it can restore, as far as somebody looked."""
    parts = [f"kept as {code(checkpoint.format)}"] if known(checkpoint, "format") else []
    if checkpoint.HasField("total_bytes"):
        parts.append(counted(checkpoint.total_bytes, "byte"))
    looked = [(f.name, value) for f, value in checkpoint.contents.ListFields()]
    return parts + [f"{'with' if there else 'without'} {words(name)}" for name, there in looked]


def _events(checkpoint: runs_pb2.Checkpoint, selected: int) -> tuple[int, ...]:
    return place(checkpoint, "committed_pos", "replaced_pos", "deleted_pos") or (selected,)
