"""What is shown of a run, an export or a campaign: small, and enough to find what was trained on what.

The series is never part of it; what is derived of one stream in full is in `dossier`.
"""

from __future__ import annotations

from typing import Any, Final

from ledger.rules import State
from ledger.rules.training_1 import reading
from ledger.rules.training_1.campaigns import campaign_flags
from ledger.rules.training_1.decoding import plain
from ledger.rules.training_1.exports import checkpoint_of, export_basis, export_flags, files_agree, status_of
from ledger.rules.training_1.history import Save, first_loads, saves
from ledger.rules.training_1.model import Campaign, Export, Fact, Facts, Life
from ledger.rules.training_1.remembering import remembered
from ledger.rules.training_1.selecting import basis_of, is_selected
from ledger.rules.training_1.summary import run_summary

LATEST: Final = 8
"""Checkpoints that are listed whether or not anything came of them; the dossier has them all."""


def show(stream: str, facts: Facts) -> State | None:
    """None before the first event that says something."""
    if facts.first_pos is None:
        return None
    kind, _, id_ = stream.partition("/")
    if kind == "run":
        return {"kind": kind, "summary": run_summary(id_, facts), **_run(facts.run.life)}
    common = {"kind": kind, "id": id_, "first_pos": facts.first_pos, "last_pos": facts.last_pos, "sample": facts.sample}
    return common | (_export(facts.export) if kind == "export" else _campaign(facts.campaign))


@remembered
def _run(life: Life) -> dict[str, Any]:
    """What lineage and blast radius need of a run."""
    declared = life.declared[-1] if life.declared else None
    said = declared.said if declared else None
    return {
        "declared_pos": declared.pos if declared else None,
        "first_declared_pos": life.declared[0].pos if declared else None,
        "selection_pos": life.selections[-1].pos if life.selections else None,
        "ended_pos": life.run_ends[-1].pos if life.run_ends else None,
        "sources": _sources(life),
        "rl_start": _fields(said.rl_start) if said and said.rl_start else None,
        "root_architecture": plain(declared.body).get("root_architecture") if declared else None,
        "resumed_from_runs": _other_runs(life),
        "resumes": _resumes(life),
        "checkpoints": [_checkpoint(life, save) for save in _told(life)],
        "selections": [_selection(fact) for fact in life.selections],
        "traces": [_published(fact) for fact in life.traces],
        "logs": [_published(fact) for fact in life.logs],
    }


def _sources(life: Life) -> list[dict[str, Any]]:
    """Those of the last declaration, then what only earlier ones name.

    What a run was declared on once it may have been trained on: no later declaration takes that back.
    """
    if not life.declared:
        return []
    last = list(life.declared[-1].said.sources)
    earlier = dict.fromkeys(source for fact in reversed(life.declared[:-1]) for source in fact.said.sources)
    withdrawn: list[reading.ConsumedSource] = []
    for source in earlier:
        if not any(_says_as_much(later, source) for later in (*last, *withdrawn)):
            withdrawn.append(source)
    first = _first_named(life)
    return [
        *(_source(source, first[_name(source)], withdrawn=False) for source in last),
        *(_source(source, first[_name(source)], withdrawn=True) for source in withdrawn),
    ]


def _says_as_much(later: reading.ConsumedSource, source: reading.ConsumedSource) -> bool:
    """Whether it is the same source, taken for the same, with nothing known of it changed: only more may be known."""
    pairs = (
        (source.atlas_id or source.dataset_id, later.atlas_id if source.atlas_id else later.dataset_id),
        (source.dataset_revision, later.dataset_revision),
        (source.verifier_revision, later.verifier_revision),
    )
    return source.role == later.role and all(known is None or known == now for known, now in pairs)


def _source(source: reading.ConsumedSource, pos: int, *, withdrawn: bool) -> dict[str, Any]:
    return {
        "atlas_id": source.atlas_id,
        "dataset_id": source.dataset_id,
        "dataset_revision": source.dataset_revision,
        "verifier_revision": source.verifier_revision,
        "role": source.role,
        "pos": pos,
        "withdrawn": withdrawn,
    }


def _first_named(life: Life) -> dict[str, int]:
    """By source the position of the first declaration that names it, at whatever revision."""
    first: dict[str, int] = {}
    for fact in life.declared:
        for source in fact.said.sources:
            first.setdefault(_name(source), fact.pos)
    return first


def _name(source: reading.ConsumedSource) -> str:
    return source.atlas_id or source.dataset_id


def _fields(model: reading.ModelRef) -> dict[str, Any]:
    return {"name": model.name, "repository": model.repository, "commit": model.commit}


def _other_runs(life: Life) -> list[dict[str, Any]]:
    """Checkpoints of other runs that attempts of this one began with."""
    begun: list[tuple[int, str | None, Any]] = [
        (start.pos, start.said.resumed_from.run_id, start.said.resumed_from)
        for start in life.starts
        if start.said.resumed_from
    ]
    begun += [(load.pos, load.said.from_run_id, load.said) for load in first_loads(life).values()]
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for pos, run_id, said in sorted(begun, key=lambda one: one[0]):
        if run_id is not None:
            found.setdefault(
                (run_id, said.step), {"run_id": run_id, "step": said.step, "digest": said.digest, "pos": pos}
            )
    return list(found.values())


def _resumes(life: Life) -> list[dict[str, Any]]:
    """Checkpoints of this run that later attempts began with."""
    return [
        {"attempt": start.said.attempt, "step": resumed.step, "digest": resumed.digest, "pos": start.pos}
        for start in life.starts
        if (resumed := start.said.resumed_from) is not None and resumed.run_id is None
    ]


def _told(life: Life) -> list[Save]:
    """Of many checkpoints the latest, and those that something came of: selected, or resumed from."""
    committed = [save for save in saves(life) if save.committed_pos is not None]
    used = {start.said.resumed_from.step for start in life.starts if start.said.resumed_from}
    latest = {save.pos for save in committed[-LATEST:]}
    return [save for save in committed if save.pos in latest or save.step in used or is_selected(life, save)]


def _checkpoint(life: Life, save: Save) -> dict[str, Any]:
    return {
        "step": save.step,
        "attempt": save.attempt,
        "digest": save.digest,
        "status": save.status,
        "selected": is_selected(life, save),
        "pos": save.pos,
        "basis": basis_of(save.said.basis) if save.said else "recorded",
    }


def _selection(fact: Fact[reading.CheckpointSelected]) -> dict[str, Any]:
    said = fact.said
    return {
        "pos": fact.pos,
        "step": said.step,
        "attempt": said.attempt,
        "digest": said.digest,
        "purpose": said.purpose,
        "basis": basis_of(said.basis),
    }


def _published(fact: Fact[Any]) -> dict[str, Any]:
    said = fact.said
    return {"pos": fact.pos, "repository": said.repository, "commit": said.commit, "basis": basis_of(said.basis)}


@remembered
def _export(export: Export) -> dict[str, Any]:
    checkpoint = checkpoint_of(export)
    started = export.started[-1] if export.started else None
    return {
        "status": status_of(export),
        "checkpoint": None
        if checkpoint is None
        else {
            "run_id": checkpoint.run_id,
            "step": checkpoint.step,
            "attempt": checkpoint.attempt,
            "digest": checkpoint.digest,
        },
        "route": started.said.route if started else None,
        "digest": export.completed[-1].said.digest if export.completed else None,
        "started_pos": started.pos if started else None,
        "basis": export_basis(export),
        "models": [{**_published(model), "files_agree": files_agree(export, model)} for model in export.models],
        "flags": len(export_flags(export)),
    }


@remembered
def _campaign(campaign: Campaign) -> dict[str, Any]:
    declared = campaign.declared[-1] if campaign.declared else None
    said = plain(declared.body) if declared else {}
    return {
        "declared_pos": declared.pos if declared else None,
        "title": said.get("title"),
        "purpose": said.get("purpose"),
        "compares": said.get("compares"),
        "setting": said.get("setting"),
        "arms": said.get("arms", []),
        "flags": len(campaign_flags(campaign)),
    }
