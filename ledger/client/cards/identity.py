"""What a card says first: which run it is, of which campaign and why, and from which models it descends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ledger.client.cards.record import Record
from ledger.client.cards.text import Missing, Parts, code, known, listed, number, prose, said, words
from ledger.wire import provenance_pb2

_LIMITS: Final = ("checkpoint_interval", "export_interval", "max_checkpoints_kept", "time_budget_seconds")
_COMPARES: Final = {
    "sources": "data sources",
    "setting": "one setting",
    "other": "something else than sources or a setting",
}


def what_it_is(record: Record) -> Parts:
    run = record.run
    arm = f", arm {code(run.summary.arm)}" if known(run.summary, "arm") else ""
    campaign = known(run.summary, "campaign_id")
    of = f" of the campaign {code(campaign)}" if campaign is not None else ""
    yield said(f"This card is of the training run {code(run.summary.id)}{arm}{of}", record.declared)
    if not run.HasField("declared"):
        yield Missing("what the run was to be: nobody declared it")
    elif (purpose := known(run.declared, "purpose")) is not None:
        yield said(f"Its purpose, as recorded: {prose(purpose)}", record.declared)
    if run.earlier_declarations:
        yield said("It was declared before, and otherwise", *run.earlier_declarations, record.declared)
    if campaign is None:
        yield Missing("a campaign")
    else:
        yield from _campaign(record)


def _campaign(record: Record) -> Parts:
    campaign = record.dossier.campaign
    if not campaign.HasField("declared") or not campaign.HasField("declared_pos"):
        yield Missing("the campaign's declaration")
        return
    pos, declared = campaign.declared_pos, campaign.declared
    if (title := known(declared, "title")) is not None:
        yield said(f"The campaign is titled {prose(title)}", pos)
    if (purpose := known(declared, "purpose")) is not None:
        yield said(f"The campaign's purpose, as recorded: {prose(purpose)}", pos)
    else:
        yield Missing("the campaign's purpose")
    if (compares := known(declared, "compares")) is not None:
        setting = f", {code(declared.setting)}" if known(declared, "setting") else ""
        yield said(f"Its arms compare {_COMPARES.get(compares, code(compares))}{setting}", pos)


def models(record: Record) -> Parts:
    """RL start and root architecture: two facts, whatever either is called elsewhere."""
    declared = record.run.declared
    if declared.HasField("rl_start"):
        yield said(f"Reinforcement learning started from {_model(declared.rl_start)}", record.declared)
    else:
        yield Missing("the model that reinforcement learning started from")
    if declared.HasField("root_architecture"):
        yield said(f"The root architecture is {_model(declared.root_architecture)}", record.declared)
    else:
        yield Missing("the root architecture")
    if declared.HasField("rl_start") and known(declared.rl_start, "commit") is None:
        yield Missing("the commit of the RL start")
    if syncs := record.run.weight_syncs.count:
        yield from _synced(record, syncs)


def _model(model: provenance_pb2.ModelRef) -> str:
    parts = [code(model.name)]
    if (repository := known(model, "repository")) not in (None, model.name):
        parts.append(f"repository {code(repository)}")
    parts.append(f"commit {code(model.commit)}" if known(model, "commit") else "no commit named")
    if known(model, "digest"):
        parts.append(f"digest of its weight files {code(model.digest)}")
    if (parameters := known(model, "parameters")) is not None:
        parts.append(f"{number(parameters)} parameters")
    if known(model, "license"):
        parts.append(f"licence {code(model.license)}")
    return ", ".join(parts)


def _synced(record: Record, count: int) -> Parts:
    syncs = record.run.weight_syncs
    yield record.derived(
        f"Weights were sent to the rollout engines {count:,} times, {syncs.probed:,} of them probed and "
        f"{syncs.failed:,} found to differ by more than their tolerance",
        *syncs.failed_positions,
    )


def infrastructure(record: Record) -> Parts:
    declared = record.run.declared
    yield from _software(record)
    if declared.HasField("parallelism") and (spread := _spread(declared.parallelism)):
        yield said(f"The work was spread as follows: {spread}", record.declared)
    else:
        yield Missing("strategy, parallelism and devices")
    limits = [(name, known(declared, name)) for name in _LIMITS]
    if told := [f"{name.replace('_', ' ')} {value:,}" for name, value in limits if value is not None]:
        yield said(f"Intervals and limits, as declared: {listed(told)}", record.declared)


def _software(record: Record) -> Parts:
    """What ran, in one sentence; the commits that nobody named are missing."""
    declared = record.run.declared
    if not declared.code:
        yield Missing("the code revisions of trainer, rollout engine, trial runner and data tools")
    told = [software(revision) for revision in declared.code]
    ran = {(revision.role, revision.name) for revision in declared.code}
    for name in ("agent_harness", "sandbox_provider"):
        value = known(declared, name)
        if value is None:
            yield Missing(f"the {words(name)}")
        elif (name, value) not in ran:
            told.append(f"the {words(name)} {code(value)}")
    if told:
        yield said(f"The run used {listed(told)}", record.declared)
    yield from without_commit(declared.code)


def without_commit(revisions: Iterable[provenance_pb2.CodeRevision]) -> Parts:
    if bare := [code(revision.name) for revision in revisions if known(revision, "commit") is None]:
        yield Missing(f"the code revision of {listed(bare)}")


def software(revision: provenance_pb2.CodeRevision) -> str:
    """A piece of software as it ran, as far as it is known."""
    role = "software" if revision.role == "other" else words(revision.role)
    parts = [f"the {role} {code(revision.name)}"]
    if known(revision, "version"):
        parts.append(f"version {code(revision.version)}")
    if known(revision, "repository"):
        parts.append(f"of {code(revision.repository)}")
    if known(revision, "commit"):
        parts.append(f"at commit {code(revision.commit)}")
    if revision.HasField("dirty"):
        parts.append("with changes that were not committed" if revision.dirty else "with a clean working tree")
    return " ".join(parts)


def _spread(spread: provenance_pb2.Parallelism) -> str:
    named = [(f.name.replace("_", " "), known(spread, f.name)) for f in spread.DESCRIPTOR.fields]
    values = [(name, v if isinstance(v, int) else code(v)) for name, v in named if v is not None]
    return (
        listed(f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}" for name, value in values)
        if values
        else ""
    )
