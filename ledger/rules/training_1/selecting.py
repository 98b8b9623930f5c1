"""Selections beside what the rule gives, and checkpoints with what the rule sees of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ledger.rules.training_1 import reading
from ledger.rules.training_1.anomalies import anomalies, onset
from ledger.rules.training_1.decoding import plain
from ledger.rules.training_1.growing import items
from ledger.rules.training_1.history import Save, names, resumes, rule_saves, saves
from ledger.rules.training_1.keys import keys_in_force
from ledger.rules.training_1.model import Fact, Life, Run, Series
from ledger.rules.training_1.recomputing import Recomputed, Selected, recompute
from ledger.rules.training_1.remembering import remembered_briefly
from ledger.rules.training_1.selection import (
    Candidate,
    Saved,
    before_collapse,
    committed_steps,
    eligible,
    pre_collapse,
    scored_by_step,
)
from ledger.rules.training_1.series import Lineages, Part, Point, on_lineage
from ledger.rules.training_1.standing import standing
from ledger.rules.training_1.values import measured, written


def interval_of(life: Life) -> int | None:
    """From one save that can be exported to the next: the exports' own interval, else that of the saves."""
    declared = life.declared[-1].said if life.declared else None
    return None if declared is None else declared.export_interval or declared.checkpoint_interval


def recomputed(run: Run, said: reading.CheckpointSelected, pos: int | None = None) -> Recomputed:
    """The selection, made at a position or now, against everything that the run's facts say."""
    return recompute(
        _as_selected(said),
        rule_saves(run.life),
        _points(run.series),
        resumes(run.life),
        interval=interval_of(run.life),
        metric=keys_in_force(run.life, before=pos).reward,
    )


def _as_selected(said: reading.CheckpointSelected) -> Selected:
    return Selected(
        step=said.step,
        rule=said.rule.id,
        attempt=said.attempt,
        digest=said.digest,
        metric=said.rule.metric,
        alpha=said.rule.alpha,
        interval=said.rule.interval,
        first_eligible=said.rule.first_eligible,
        cap_step=said.cap_step,
        ema=measured(said.ema),
        reward=measured(said.reward),
        eligible_steps=said.eligible_steps,
    )


@remembered_briefly
def _points(series: Series) -> tuple[Point, ...]:
    return tuple(items(series.points))


def written_selections(run: Run) -> list[dict[str, Any]]:
    """As `Selection` in runs.proto."""
    return [_selection(run, fact) for fact in run.life.selections]


def _selection(run: Run, fact: Fact[reading.CheckpointSelected]) -> dict[str, Any]:
    said, again = fact.said, recomputed(run, fact.said, fact.pos)
    notes = [*again.notes]
    unsaid = [reason for reason in again.not_eligible_because if not any(reason in note for note in notes)]
    if unsaid:
        notes.append(f"step {said.step} is not eligible: {'; '.join(unsaid)}")
    optional = {
        "attempt": said.attempt,
        "digest": said.digest,
        "recorded_ema": measured(said.ema),
        "recorded_reward": measured(said.reward),
        "computed_ema": again.computed_ema,
        "computed_reward": again.computed_reward,
        "computed_step": again.computed_step,
        "best_step_of_all": again.best_step_of_all,
        "best_ema_of_all": again.best_ema_of_all,
        "implied_previous_ema": again.implied_previous_ema,
        "wording": said.wording,
    }
    return {
        "pos": fact.pos,
        "step": said.step,
        "purpose": said.purpose,
        "rule": plain(fact.body)["rule"],
        "recomputed": again.recomputed,
        # The recorded list where there is one: it is part of the decision.
        "eligible_steps": list(again.eligible_steps if said.eligible_steps is None else said.eligible_steps),
        "best": again.best,
        "basis": basis_of(said.basis),
        "notes": list(dict.fromkeys(notes)),
        **{name: _plain(value) for name, value in optional.items() if value is not None},
    }


def written_checkpoints(run: Run) -> list[dict[str, Any]]:
    """As `Checkpoint` in runs.proto, in the order of their first events."""
    known = saves(run.life)
    candidates = dict(zip((s.pos for s in known if s.committed_pos is not None), _candidates(run), strict=True))
    failures = _Failures(run)
    salvage = failures.salvage(candidates.values())
    return [_checkpoint(run.life, save, candidates.get(save.pos), failures, salvage) for save in known]


def _candidates(run: Run) -> list[Candidate]:
    return eligible(rule_saves(run.life), _points(run.series), resumes(run.life), interval=interval_of(run.life))


class _Failures:
    """Where the failure began that came after a save, and was not recovered from: on the last lineage for what lies on
    it. What was left behind is judged by what its own attempt came to, since no later attempt grew out of it."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lineages = Lineages(resumes(run.life), _points(run.series), committed_steps(rule_saves(run.life)))
        self._last = {part.attempt: part.last_step for part in self._lineages.final()}
        self._left_behind: dict[int, int | None] = {}

    def onset(self, candidate: Candidate) -> int | None:
        if not candidate.parts:
            return None
        if self._is_on_last(candidate):
            return standing(self._run).onset
        own = candidate.parts[-1]
        if own.attempt not in self._left_behind:
            self._left_behind[own.attempt] = self._onset_of(own)
        return self._left_behind[own.attempt]

    def salvage(self, candidates: Iterable[Candidate]) -> Saved | None:
        """The last save before the collapse of the last lineage that still exists."""
        return pre_collapse((each.saved for each in candidates if self._is_on_last(each)), standing(self._run).onset)

    def _is_on_last(self, candidate: Candidate) -> bool:
        own = candidate.parts[-1] if candidate.parts else None
        return own is not None and own.last_step <= self._last.get(own.attempt, -1)

    def _onset_of(self, own: Part) -> int | None:
        """Of everything that the attempt logged."""
        logged = self._run.series.spans.get(own.attempt)
        parts = self._lineages.of(own.attempt, own.last_step if logged is None else logged.last)
        return onset(anomalies(on_lineage(_points(self._run.series), parts)))


def _checkpoint(
    life: Life, save: Save, candidate: Candidate | None, failures: _Failures, salvage: Saved | None
) -> dict[str, Any]:
    said = save.said
    state: dict[str, Any] = {
        "step": save.step,
        "last_update": save.last_update,
        "off_by_one": save.last_update == save.step - 1,
        "status": save.status,
        "eligible": candidate is not None and candidate.eligible,
        "not_eligible_because": list(candidate.reasons) if candidate is not None else ["it was never committed"],
        "selected": is_selected(life, save),
        "basis": basis_of(said.basis) if said is not None else "recorded",
    }
    optional: dict[str, Any] = {
        "attempt": save.attempt,
        "digest": save.digest,
        "committed_pos": save.committed_pos,
        "deleted_pos": save.deleted_pos,
        "replaced_pos": save.replaced_pos,
        "format": said.format if said is not None else None,
        "total_bytes": said.total_bytes if said is not None else None,
        "contents": _contents(said),
    }
    if candidate is not None:
        optional |= {
            "scored_by_step": scored_by_step(candidate.saved),
            "reward": candidate.reward,
            "ema": candidate.ema,
            "lineage": [
                {"attempt": part.attempt, "first_step": part.first_step, "last_step": part.last_step}
                for part in candidate.parts
            ],
            "before_collapse": before_collapse(candidate.saved, failures.onset(candidate)),
            "last_before_collapse": True if candidate.saved == salvage else None,
        }
    return state | {name: _plain(value) for name, value in optional.items() if value is not None}


def is_selected(life: Life, save: Save) -> bool:
    """Whether some selection was of it: of the bytes that were there then."""
    return save.committed_pos is not None and any(
        save.pos < fact.pos and names(fact.said, save) and not _gone_before(save, fact.pos) for fact in life.selections
    )


def _gone_before(save: Save, pos: int) -> bool:
    return any(gone is not None and gone < pos for gone in (save.deleted_pos, save.replaced_pos))


def _contents(said: reading.CheckpointCommitted | None) -> dict[str, bool] | None:
    contents = said.contents if said is not None else None
    if contents is None:
        return None
    parts = {name: getattr(contents, name) for name in ("weights", "optimizer", "scheduler", "rng", "data_state")}
    return {name: value for name, value in parts.items() if value is not None}


def basis_of(basis: reading.Basis | None) -> str:
    return "recorded" if basis is None else basis.kind


def _plain(value: Any) -> Any:
    return written(value) if isinstance(value, float) else value
