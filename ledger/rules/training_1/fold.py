"""The fold: one event of a run's, an export's or a campaign's stream at a time, into its facts.

Total: whatever happened was recorded, and is gathered as it was said, also where it contradicts what is known. Events
that no stream of these has change nothing; one that names another stream is told of, and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from ledger.rules import RuleEvent
from ledger.rules.training_1 import export_reading, reading, stepping, working
from ledger.rules.training_1.counting import counted, reported
from ledger.rules.training_1.decoding import DECODE
from ledger.rules.training_1.keys import keys_in_force
from ledger.rules.training_1.model import Campaign, Config, Epoch, Export, Fact, Facts, Run, Series, Work
from ledger.rules.training_1.settings import kept
from ledger.rules.training_1.straying import named_elsewhere, strayed
from ledger.rules.training_1.tail import tail_of

COUNTED_ONLY: Final = frozenset({"engine.sampled"})
"""Their numbers are read from the log where they are asked for; here they are only counted."""

_KINDS: Final = frozenset({"run", "export", "campaign"})


def fold(facts: Facts, event: RuleEvent) -> Facts:
    step = _STEPS.get(event.type)
    if step is None and event.type not in COUNTED_ONLY:
        return facts
    named = named_elsewhere(event)
    if named is not None:
        return _astray(facts, event, named)
    if step is None:
        return _only_counted(facts, event)
    decode, folded = step
    run, export, campaign, epochs = folded(facts, event, decode(event.body))
    producer = event.producer
    if producer is not None:
        epochs = counted(epochs, producer)
    return Facts(
        event.pos if facts.first_pos is None else facts.first_pos,
        event.pos,
        facts.sample or event.sample,
        run,
        export,
        campaign,
        epochs,
        facts.uncounted + (producer is None and event.type == "steps.logged"),
    )


def _astray(facts: Facts, event: RuleEvent, named: str) -> Facts:
    """With an event that names another stream: it is told of, and nothing else of it is."""
    kind = event.stream.partition("/")[0]
    if kind not in _KINDS:
        return facts
    part: Run | Export | Campaign = getattr(facts, kind)
    told = {kind: replace(part, strays=strayed(part.strays, event, named))}
    first = event.pos if facts.first_pos is None else facts.first_pos
    return replace(facts, first_pos=first, last_pos=event.pos, **told)


def _only_counted(facts: Facts, event: RuleEvent) -> Facts:
    if event.producer is None:
        return facts
    epochs = counted(facts.epochs, event.producer)
    return facts if epochs is facts.epochs else replace(facts, epochs=epochs)


_Parts = tuple[Run, Export, Campaign, tuple[Epoch, ...]]
_Folds = Callable[[Facts, RuleEvent, Any], _Parts]


def _steps_logged(facts: Facts, event: RuleEvent, said: reading.StepsLogged) -> _Parts:
    # The road of nearly every event: only what grows is made anew.
    run = facts.run
    series = stepping.logged(run.series, event, said, keys_in_force(run.life))
    if series.tail is None and _goes_on(series, said):
        series = replace(series, tail=tail_of(run.life, series))
    return Run(run.life, series, run.work, run.strays), facts.export, facts.campaign, facts.epochs


def _goes_on(series: Series, said: reading.StepsLogged) -> bool:
    """Whether the newest attempt reached a new step: a log that is read again from its start pays for no new tail."""
    newest = max(series.spans, default=said.attempt)
    return newest == said.attempt and said.steps[-1].step == series.spans[newest].last


def _of_life(name: str, *, whole: bool = False) -> _Folds:
    """Adds to one list of the run's life; with its bytes, where an answer repeats them."""

    def folded(facts: Facts, event: RuleEvent, said: Any) -> _Parts:
        run, life = facts.run, facts.run.life
        fact = Fact(event.pos, said, event.body if whole else b"")
        grown = replace(life, **{name: (*getattr(life, name), fact)})
        return Run(grown, run.series, run.work, run.strays), facts.export, facts.campaign, facts.epochs

    return folded


def _of_lineage(name: str, *, others_only: bool = False) -> _Folds:
    """As any other of the run's life, but which steps lie behind the last ones may be told otherwise now."""
    added = _of_life(name)

    def folded(facts: Facts, event: RuleEvent, said: Any) -> _Parts:
        run, export, campaign, epochs = added(facts, event, _as_own(said, event.stream))
        newest = max(run.series.spans, default=None)
        if run.series.tail is not None and not (others_only and said.attempt == newest):
            run = replace(run, series=replace(run.series, tail=None))
        return run, export, campaign, epochs

    return folded


def _checkpoint_loaded(facts: Facts, event: RuleEvent, said: reading.CheckpointLoaded) -> _Parts:
    """What is read back in the midst of an attempt, for an evaluation or an export, is not what it began with."""
    span = facts.run.series.spans.get(said.attempt)
    if span is None or span.live_pos is None:
        return _LOADED_FIRST(facts, event, said)
    run, export, campaign, epochs = _LOADED(facts, event, _as_own(said, event.stream))
    life = replace(run.life, late_loads=(*run.life.late_loads, event.pos))
    return replace(run, life=life), export, campaign, epochs


def _as_own(said: Any, stream: str) -> Any:
    """Without the run's id where it names the run itself: what names no run means this one."""
    own = stream.partition("/")[2]
    if isinstance(said, reading.AttemptStarted) and said.resumed_from is not None and said.resumed_from.run_id == own:
        return replace(said, resumed_from=replace(said.resumed_from, run_id=None))
    if isinstance(said, reading.CheckpointLoaded) and said.from_run_id == own:
        return replace(said, from_run_id=None)
    return said


def _config_recorded(facts: Facts, event: RuleEvent, said: reading.ConfigRecorded) -> _Parts:
    run, life = facts.run, facts.run.life
    config = Config(event.pos, said.attempt, said.moment, said.digest, kept(bytes(said.settings)))
    grown = replace(life, configs=(*life.configs, config))
    return Run(grown, run.series, run.work, run.strays), facts.export, facts.campaign, facts.epochs


def _of_work(working_out: Callable[[Work, RuleEvent, Any], Work]) -> _Folds:
    def folded(facts: Facts, event: RuleEvent, said: Any) -> _Parts:
        run = facts.run
        grown = Run(run.life, run.series, working_out(run.work, event, said), run.strays)
        return grown, facts.export, facts.campaign, facts.epochs

    return folded


def _of_export(name: str) -> _Folds:
    def folded(facts: Facts, event: RuleEvent, said: Any) -> _Parts:
        fact = Fact(event.pos, said, event.body)
        grown = replace(facts.export, **{name: (*getattr(facts.export, name), fact)})
        return facts.run, grown, facts.campaign, facts.epochs

    return folded


def _campaign_declared(facts: Facts, event: RuleEvent, said: export_reading.CampaignDeclared) -> _Parts:
    declared = (*facts.campaign.declared, Fact(event.pos, said, event.body))
    return facts.run, facts.export, replace(facts.campaign, declared=declared), facts.epochs


def _claim_recorded(facts: Facts, event: RuleEvent, said: reading.ClaimRecorded) -> _Parts:
    """A claim belongs to the stream of what it is about."""
    run, export, campaign = facts.run, facts.export, facts.campaign
    claim = Fact(event.pos, said, event.body)
    kind = event.stream.partition("/")[0]
    if kind == "run":
        run = replace(run, life=replace(run.life, claims=(*run.life.claims, claim)))
    elif kind == "export":
        export = replace(export, claims=(*export.claims, claim))
    elif kind == "campaign":
        campaign = replace(campaign, claims=(*campaign.claims, claim))
    return run, export, campaign, facts.epochs


def _recording_reported(facts: Facts, _event: RuleEvent, said: reading.RecordingReported) -> _Parts:
    return facts.run, facts.export, facts.campaign, reported(facts.epochs, said)


def _hosting_observed(facts: Facts, event: RuleEvent, _said: None) -> _Parts:
    hosting = (*facts.export.hosting, Fact(event.pos, None, event.body))
    return facts.run, replace(facts.export, hosting=hosting), facts.campaign, facts.epochs


_LOADED: Final = _of_life("loads")
_LOADED_FIRST: Final = _of_lineage("loads")
_FOLDS: Final[Mapping[str, _Folds]] = {
    "campaign.declared": _campaign_declared,
    "run.declared": _of_life("declared", whole=True),
    "attempt.started": _of_lineage("starts"),
    "config.recorded": _config_recorded,
    "config.drifted": _of_life("drifts"),
    "anomaly.claimed": _of_life("anomalies"),
    "attempt.ended": _of_life("ends"),
    "run.ended": _of_life("run_ends"),
    "recording.reported": _recording_reported,
    "steps.logged": _steps_logged,
    "weights.synced": _of_work(working.synced),
    "eval.logged": _of_work(working.evaluated),
    "rollouts.summarised": _of_work(working.summarised),
    "groups.disposed": _of_work(working.disposed),
    "checkpoint.save_started": _of_life("begun"),
    # An attempt begins at what earlier ones saved: its own saves move nothing behind it.
    "checkpoint.committed": _of_lineage("commits", others_only=True),
    "checkpoint.loaded": _checkpoint_loaded,
    "checkpoint.deleted": _of_life("deletions"),
    "checkpoint.selected": _of_life("selections", whole=True),
    "claim.recorded": _claim_recorded,
    "export.started": _of_export("started"),
    "export.completed": _of_export("completed"),
    "export.verified": _of_export("verified"),
    "export.failed": _of_export("failed"),
    "model.published": _of_export("models"),
    "traces.published": _of_life("traces", whole=True),
    "logs.published": _of_life("logs", whole=True),
    "hosting.observed": _hosting_observed,
}


def _nothing(_body: bytes) -> None:
    """Of a payload that is kept as its bytes alone."""


_STEPS: Final = {type_: (DECODE.get(type_, _nothing), folded) for type_, folded in _FOLDS.items()}
