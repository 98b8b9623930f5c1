"""All that is known and derived of one stream, in the fields of `Run`, `Export` and `Campaign` in runs.proto.

What is not known is left out. A number that is not finite stands by name, as JSON has it.
"""

from __future__ import annotations

from typing import Any

from ledger.rules.training_1 import completeness, coverage, objective
from ledger.rules.training_1.campaigns import written_campaign
from ledger.rules.training_1.claims import run_claims
from ledger.rules.training_1.decoding import plain
from ledger.rules.training_1.exports import written_export
from ledger.rules.training_1.flagging import written_flag
from ledger.rules.training_1.flags import run_flags
from ledger.rules.training_1.growing import items
from ledger.rules.training_1.history import resumes, rule_saves
from ledger.rules.training_1.model import Config, Fact, Facts, Life, Run
from ledger.rules.training_1.selecting import basis_of, written_checkpoints, written_selections
from ledger.rules.training_1.selection import committed_steps
from ledger.rules.training_1.series import abandoned
from ledger.rules.training_1.standing import reward_summary, written_anomalies
from ledger.rules.training_1.summary import attempts_of, run_summary


def dossier(stream: str, facts: Facts) -> dict[str, Any]:
    """Of a run, an export or a campaign, by the kind of its stream."""
    kind, _, id_ = stream.partition("/")
    if kind == "export":
        return written_export(id_, facts.export, sample=facts.sample)
    if kind == "campaign":
        return written_campaign(id_, facts.campaign, sample=facts.sample)
    return _run(id_, facts)


def _run(id_: str, facts: Facts) -> dict[str, Any]:
    run, life = facts.run, facts.run.life
    state: dict[str, Any] = {
        "summary": run_summary(id_, facts),
        "earlier_declarations": _earlier(life),
        "attempts": _attempts(run),
        "configs": _configs(life),
        "drifts": [_drift(fact) for fact in life.drifts],
        "checkpoints": written_checkpoints(run),
        "selections": written_selections(run),
        "anomalies": written_anomalies(run),
        "reward": reward_summary(run),
        "completeness": completeness.written(facts),
        "coverage": coverage.written(life, run.work),
        "objective": objective.written(run),
        "claims": run_claims(run),
        "traces": [_published(fact) for fact in life.traces],
        "logs": [_published(fact) for fact in life.logs],
        "flags": [written_flag(flag) for flag in run_flags(run)],
        "evaluations": [
            {"attempt": one.attempt, "step": one.step, "evaluation": plain(one.body), "pos": one.pos}
            for one in items(run.work.evaluations)
        ],
    }
    if life.declared:
        state |= {"declared": plain(life.declared[-1].body), "declared_pos": life.declared[-1].pos}
    if life.run_ends:
        state["ended_pos"] = life.run_ends[-1].pos
    synced = run.work.synced
    if synced.count:
        state["weight_syncs"] = {
            "count": synced.count,
            "probed": synced.probed,
            "failed": len(synced.failed),
            "failed_positions": list(synced.failed),
        }
    return state


def _earlier(life: Life) -> list[int]:
    """Declarations that say something else than the last one."""
    return [fact.pos for fact in life.declared[:-1] if plain(fact.body) != plain(life.declared[-1].body)]


def _attempts(run: Run) -> list[dict[str, Any]]:
    lost: dict[int, int] = {}
    points = tuple(items(run.series.points))
    for attempt, _ in abandoned(points, resumes(run.life), committed=committed_steps(rule_saves(run.life))):
        lost[attempt] = lost.get(attempt, 0) + 1
    return [_attempt(run, attempt, lost.get(attempt, 0)) for attempt in sorted(attempts_of(run))]


def _attempt(run: Run, attempt: int, abandoned_steps: int) -> dict[str, Any]:
    start = next((fact for fact in reversed(run.life.starts) if fact.said.attempt == attempt), None)
    end = next((fact for fact in reversed(run.life.ends) if fact.said.attempt == attempt), None)
    span, resume = run.series.spans.get(attempt), resumes(run.life).get(attempt)
    optional = {
        "started_pos": start.pos if start else None,
        "started_at": start.said.started_at if start else None,
        "resumed_from_step": resume.step if resume else _foreign_step(start),
        "resumed_from_attempt": resume.attempt if resume else None,
        "first_step": span.first if span else None,
        # With no series of its own, what somebody names as the last step.
        "last_step": span.last if span else (end.said.last_step if end else None),
        "reason": end.said.reason if end else None,
        "error_type": end.said.error_type if end else None,
        "ended_pos": end.pos if end else None,
    }
    return {
        "attempt": attempt,
        "steps": span.steps if span else 0,
        "status": end.said.ending if end else "open",
        "abandoned_steps": abandoned_steps,
        **{name: value for name, value in optional.items() if value is not None},
    }


def _foreign_step(start: Fact[Any] | None) -> int | None:
    """Of a checkpoint of another run."""
    resumed = start.said.resumed_from if start else None
    return None if resumed is None else int(resumed.step)


def _configs(life: Life) -> list[dict[str, Any]]:
    before: list[Config | None] = [None, *life.configs]
    return [
        {
            "attempt": config.attempt,
            "moment": config.moment,
            "digest": config.digest,
            "pos": config.pos,
            "settings": plain(config.settings),
            "drifted": last is not None and last.digest != config.digest,
        }
        for last, config in zip(before, life.configs, strict=False)
    ]


def _drift(fact: Fact[Any]) -> dict[str, Any]:
    changes = [
        {name: value for name in ("path", "before", "after") if (value := getattr(change, name)) is not None}
        for change in fact.said.changes
    ]
    return {"attempt": fact.said.attempt, "pos": fact.pos, "changes": changes}


_PUBLISHED = ("repository", "commit", "url", "episodes", "coverage", "files", "redactions", "redaction_stated")


def _published(fact: Fact[Any]) -> dict[str, Any]:
    said = plain(fact.body)
    kept = {name: said[name] for name in _PUBLISHED if said.get(name) is not None}
    return {"pos": fact.pos, "basis": basis_of(fact.said.basis), **kept}
