"""A run in one line: its summary, as lists of runs show it."""

from __future__ import annotations

from typing import Any

from ledger.rules.training_1.attempt_flags import planned_steps
from ledger.rules.training_1.completeness import verdict
from ledger.rules.training_1.flags import run_flags
from ledger.rules.training_1.history import saves
from ledger.rules.training_1.model import Facts, Life, Run
from ledger.rules.training_1.remembering import remembered
from ledger.rules.training_1.selecting import basis_of
from ledger.rules.training_1.tail import Outcome, outcome
from ledger.rules.training_1.values import written


def run_summary(id_: str, facts: Facts) -> dict[str, Any]:
    """As `RunSummary` in runs.proto."""
    run = facts.run
    return {
        "id": id_,
        **_of_life(run.life),
        **_of_series(run),
        "attempts": len(attempts_of(run)),
        "completeness": verdict(facts.epochs, facts.uncounted).verdict,
        "flags": len(run_flags(run)),
        "first_pos": facts.first_pos or 0,
        "last_pos": facts.last_pos,
        "sample": facts.sample,
    }


@remembered
def _of_life(life: Life) -> dict[str, Any]:
    declared = life.declared[-1].said if life.declared else None
    over = life.run_ends[-1].said if life.run_ends else None
    there = [save for save in saves(life) if save.there]
    optional = {
        "campaign_id": declared.campaign_id if declared else None,
        "arm": declared.arm if declared else None,
        "rl_start": declared.rl_start.name if declared and declared.rl_start else None,
        "planned_steps": planned_steps(life),
        "reason": over.reason if over else None,
        "last_durable_step": max((save.step for save in there), default=None),
    }
    return {
        "sources": [s.atlas_id or s.dataset_id for s in declared.sources if s.role == "train"] if declared else [],
        "status": over.ending if over else "open",
        "checkpoints": len(there),
        "selected_steps": sorted({fact.said.step for fact in life.selections}),
        "basis": basis_of(declared.basis) if declared else "recorded",
        **{name: value for name, value in optional.items() if value is not None},
    }


def _of_series(run: Run) -> dict[str, Any]:
    found: Outcome = outcome(run)
    claimed = [fact.said for fact in run.life.anomalies]
    # What is derived stands before what is claimed.
    onsets = (found.onset, *[said.onset_step for said in claimed])
    optional = {
        "last_step": last_step(run),
        "last_reward": None if found.reward is None else written(found.reward),
        "last_ema": found.ema,
        "anomaly_onset": next((onset for onset in onsets if onset is not None), None),
        "claimed_anomalies": list(dict.fromkeys(said.kind for said in claimed if said.kind not in found.kinds)) or None,
    }
    return {
        "anomalies": list(dict.fromkeys((*found.kinds, *[said.kind for said in claimed]))),
        **{name: value for name, value in optional.items() if value is not None},
    }


def last_step(run: Run) -> int | None:
    """The highest step that was logged; with no series, the highest that somebody names as the last."""
    if run.series.spans:
        return max(span.last for span in run.series.spans.values())
    named = [fact.said.last_step for fact in run.life.ends] + [fact.said.last_step for fact in run.life.run_ends]
    return max((step for step in named if step is not None), default=None)


def attempts_of(run: Run) -> set[int]:
    life = run.life
    return {*run.series.spans, *(fact.said.attempt for fact in life.starts), *(fact.said.attempt for fact in life.ends)}
