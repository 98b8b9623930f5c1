"""One-line builders of what runs, exports and campaigns tell, and drafts of them on their own streams.

bench.append(*told(declared("a", taken("A:one")), steps("a", {1: 0.5, 2: 0.6}), saved("a", 2)))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel

from ledger.audit.coordinates import At, Clockwork, Moment
from ledger.audit.run_questions import RunQuestions
from ledger.audit.sources import Sources
from ledger.client.drafts import Draft
from ledger.events.checkpoints import CheckpointCommitted, CheckpointDeleted, CheckpointSelected, SelectionRule
from ledger.events.exports import (
    ExportCompleted,
    ExportedCheckpoint,
    ExportStarted,
    LogsPublished,
    ModelPublished,
    TracesPublished,
)
from ledger.events.runs import (
    Algorithm,
    Arm,
    AttemptEnded,
    AttemptStarted,
    CampaignDeclared,
    CodeRevision,
    ConsumedSource,
    ModelRef,
    ResumedFrom,
    RunDeclared,
    RunEnded,
)
from ledger.events.steps import LoggedStep, StepsLogged
from ledger.log.sqlite import SqliteStore
from ledger.rules.ledger_1 import RULES as LEDGER_1
from ledger.rules.sets import DEFAULT_RULES
from ledger.rules.training_1 import RULES
from tests.projections.bench import Bench, empty_sqlite
from tests.projections.bench import bench as bench_of
from tests.rules import builders
from tests.rules.builders import DATA, ORIGIN, SOURCE, VERIFIER, sha
from tests.server.doors import of

OTHER = f"{ORIGIN}:gsm"
REWARD, ENTROPY = "reward/avg_raw_reward", "policy/policy_entropy"
BASE = ModelRef(name="org/base", repository="org/base", commit="c1")
SETTINGS = Algorithm(
    advantage_estimator="rloo_n", loss_reduction="token_mean", train_batch_size=64, policy_mini_batch_size=64,
    micro_train_batch_size_per_gpu=1, update_epochs_per_batch=1, n_samples_per_prompt=8, max_input_length=24576,
    max_generate_length=8192,
)  # fmt: skip
TRAINER = CodeRevision(role="trainer", name="trainer", commit="abc")


def told(*payloads: BaseModel, sample: bool = False) -> list[Draft]:
    """Drafts of what happened, each on the stream that it names."""
    return [of(p, _stream(p), tags=["sample"] if sample else []) for p in payloads]


def _stream(payload: Any) -> str:
    for kind in ("run", "export", "campaign"):
        # A run names its campaign too, and an export its run.
        if type(payload).__name__.startswith("Campaign") and kind != "campaign":
            continue
        if (name := getattr(payload, f"{kind}_id", None)) is not None:
            return f"{kind}/{name}"
    raise AssertionError(f"{type(payload).__name__} names no stream")


def taken(
    source: str | None = SOURCE, data: str | None = DATA, verifier: str | None = VERIFIER, **fields: Any
) -> ConsumedSource:
    known = {"atlas_id": source, "dataset_id": fields.pop("dataset", "org/data")}
    return ConsumedSource(**known, dataset_revision=data, verifier_revision=verifier, **fields)


def declared(run: str, *sources: ConsumedSource, **fields: Any) -> RunDeclared:
    known: dict[str, Any] = {"rl_start": BASE, "algorithm": SETTINGS, "code": [TRAINER], "planned_steps": 80}
    return RunDeclared(run_id=run, sources=list(sources), **{**known, **fields})


def attempt(run: str, number: int = 1, resumed: tuple[int, int] | None = None, **fields: Any) -> AttemptStarted:
    """One start; `resumed` is the attempt and step that it began with."""
    came = None if resumed is None else ResumedFrom(attempt=resumed[0], step=resumed[1])
    return AttemptStarted(run_id=run, attempt=number, **{"resumed_from": came, **fields})


def steps(run: str, rewards: Mapping[int, Any], number: int = 1, **more: Mapping[int, Any]) -> StepsLogged:
    """Steps with their rewards, and further metrics by key, each by step."""
    logged = [
        LoggedStep(step=step, metrics={REWARD: reward, **{key: by[step] for key, by in more.items() if step in by}})
        for step, reward in rewards.items()
    ]
    return StepsLogged(run_id=run, attempt=number, steps=logged)


def saved(run: str, step: int, number: int = 1, **fields: Any) -> CheckpointCommitted:
    return CheckpointCommitted(run_id=run, attempt=number, step=step, **{"digest": sha(f"{run}@{step}"), **fields})


def deleted(run: str, step: int, number: int = 1) -> CheckpointDeleted:
    return CheckpointDeleted(run_id=run, attempt=number, step=step)


def selected(run: str, step: int, number: int = 1, **fields: Any) -> CheckpointSelected:
    rule = SelectionRule(id="trailing-ema", interval=1, first_eligible=1)
    return CheckpointSelected(run_id=run, attempt=number, step=step, **{"purpose": "export", "rule": rule, **fields})


def attempt_ended(run: str, number: int = 1, ending: str = "failed") -> AttemptEnded:
    return AttemptEnded(run_id=run, attempt=number, ending=ending)


def ended(run: str, ending: str = "completed", **fields: Any) -> RunEnded:
    return RunEnded(run_id=run, ending=ending, **fields)


def exporting(export: str, run: str, step: int, **fields: Any) -> ExportStarted:
    of_ = ExportedCheckpoint(run_id=run, step=step, **{"digest": sha(f"{run}@{step}"), **fields})
    return ExportStarted(export_id=export, checkpoint=of_, route="rerun")


def exported(export: str) -> ExportCompleted:
    return ExportCompleted(export_id=export, digest=sha(export))


def model(export: str, repository: str, commit: str | None = "m1") -> ModelPublished:
    return ModelPublished(export_id=export, repository=repository, commit=commit)


def traces(run: str, repository: str = "org/traces") -> TracesPublished:
    return TracesPublished(run_id=run, repository=repository, commit="t1")


def logs(run: str, repository: str = "org/model") -> LogsPublished:
    return LogsPublished(run_id=run, repository=repository, commit="l1")


def campaign(name: str, *arms: Arm, compares: str | None = "sources", **fields: Any) -> CampaignDeclared:
    return CampaignDeclared(campaign_id=name, purpose="to compare", compares=compares, arms=list(arms), **fields)


class Asked:
    """The questions about runs over one bench, whose projector stands at the head."""

    def __init__(self, bench: Bench, *, rows: bool = True) -> None:
        """Answered from the rows of runs, or without them from the log itself."""
        bench.projector.catch_up()
        if rows:
            bench.projector.catch_up(RULES.id)
        assert bench.projector.runs is not None, "the bench folds runs"
        self.bench = bench
        self.sources = Sources(bench.log, bench.projector.generations)
        self.clockwork = Clockwork(bench.log, bench.projector.generations)
        self.questions = RunQuestions(bench.log, bench.projector.runs, RULES, self.clockwork, self.sources)

    def moment(self, size: int | None = None) -> Moment:
        """Where an answer stands, under the rules that a log begins with."""
        return self.clockwork.moment(At(size=size, rules=DEFAULT_RULES))


@contextmanager
def asked() -> Iterator[Bench]:
    """A bench that folds runs, with two sources in the catalogue."""
    with empty_sqlite() as path, bench_of(SqliteStore(path), LEDGER_1, runs=RULES) as bench:
        list_sources(bench)
        yield bench


def list_sources(bench: Bench) -> None:
    parts = [of(builders.declared("c1", id=source), f"source/{source}") for source in (SOURCE, OTHER)]
    bench.append(*parts, of(builders.synced("c1", [part.id for part in parts])))


def review(bench: Bench, name: str, source: str = SOURCE) -> int:
    """Publishes a review that supports Good; gives the log's size after it."""
    parts = [of(part, f"source/{source}") for part in builders.good(name, source_id=source)]
    published = builders.published(name, name, [part.id for part in parts], source_id=source)
    return bench.append(*parts, of(published, f"source/{source}"))


def defect(bench: Bench, name: str = "d1", source: str = SOURCE, **fields: Any) -> int:
    """Confirms a defect; gives its position."""
    return bench.append(of(builders.confirmed(name, **fields), f"source/{source}")) - 1
