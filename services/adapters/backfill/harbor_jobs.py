"""A Harbor job into summaries of its rollouts: what started, what finished, what was verified, and what came of it.

Whether a trial was taken into a batch, masked or trained on, no trial says: these counts stay unknown. An archive of
trials names its step, a folder does not. Everything that was kept of each trial, several named rewards and times
without a zone among it, goes into an evidence file beside the summary.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Any, Final, Literal

from ledger.client import faults
from ledger.client.drafts import Actor, Upload
from ledger.core import strictjson
from ledger.core.errors import InvalidInput
from ledger.core.ids import sha256_hex
from ledger.core.secrets import redact
from ledger.events.fields import ArtifactRef
from ledger.events.steps import ErrorCount, RewardCount, RolloutsSummarised, Treatment, Trial
from services.adapters.backfill import metrics
from services.adapters.backfill.accounts import Account
from services.adapters.backfill.books import Book
from services.adapters.backfill.clocks import LogClock
from services.adapters.backfill.documents import Document, harmless_name, read_document
from services.adapters.backfill.harbor_models import JobResult
from services.adapters.backfill.harbor_trials import FoundTrial, archive_trials, archives, folder_trials, trial_fields
from services.adapters.backfill.imports import Import

MAX_TRIALS: Final = 1_000
"""Trials that a summary names; of more, only the evidence file does."""


@dataclass(frozen=True)
class Treatments:
    """What a trainer's configuration does with each exception of a trial."""

    by_type: dict[str, Treatment]
    otherwise: Treatment | None

    def of(self, exception_type: str) -> Treatment | None:
        return self.by_type.get(exception_type, self.otherwise)


@dataclass(frozen=True)
class HarborOptions:
    """What a job's folder does not say."""

    attempt: int | None = None
    phase: Literal["train", "eval"] | None = None
    treatments: Treatments | None = None
    zone: tzinfo | None = None


def read_treatments(path: Path) -> Treatments:
    """A trainer's lists of exceptions, as its configuration names them.

    Raises:
        InvalidInput: reason INVALID_FILE.
    """
    try:
        said = strictjson.parse(path.read_bytes())
    except OSError as error:
        raise faults.unreadable(path, error) from None
    except InvalidInput as error:
        raise faults.refused(path, "list of treatments", error.problems, remedy="Mend the JSON.") from None
    kinds: dict[str, Treatment] = {
        "mask_exceptions": "mask",
        "zero_exceptions": "zero",
        "passthrough_exceptions": "passthrough",
    }
    lists = {key: said.get(key, []) for key in kinds} if isinstance(said, dict) else {}
    otherwise = said.get("default_error_treatment") if isinstance(said, dict) else None
    if not lists or not all(isinstance(v, list) for v in lists.values()) or otherwise not in (None, *kinds.values()):
        raise InvalidInput(
            f"{path} is no list of treatments",
            reason="INVALID_FILE",
            remedy="Give an object with the lists mask_exceptions, zero_exceptions, passthrough_exceptions and with "
            "default_error_treatment: mask, zero or passthrough.",
        )
    return Treatments({str(name): kind for key, kind in kinds.items() for name in lists[key]}, otherwise)


def plan_harbor(job: Path, *, run_id: str, by: Actor, options: HarborOptions | None = None) -> Import:
    """Reads a job's folder: its trials, its archives of trials, and its own result.

    Raises:
        InvalidInput: reason NO_ROWS, if there is no trial; or INVALID_FILE, if it is no folder, or an archive is
            damaged.
    """
    if not job.is_dir():
        raise InvalidInput(
            f"{job} is no folder", reason="INVALID_FILE", remedy="Name a job's folder, the one that holds its trials."
        )
    importer = _Importer(run_id, by, options or HarborOptions())
    for step, path in archives(job):
        importer.summarise(archive_trials(path, importer.account), read_document(path, "application/gzip"), step=step)
    trials = list(folder_trials(job, importer.account))
    if trials:
        importer.summarise(trials, _folder_document(job, trials), step=None)
    importer.compare(job / "result.json", len(trials))
    if not importer.account.found.get("trials"):
        raise InvalidInput(
            f"{job} holds no trial",
            reason="NO_ROWS",
            remedy="Name a job's folder: its trials are folders with config.json and result.json, or archives named "
            "trials_stepN_….tar.gz. Nothing was appended.",
        )
    return Import(f"run/{run_id}", importer.book, importer.account, importer.uploads)


def _folder_document(job: Path, trials: Sequence[FoundTrial]) -> Document:
    """The folder, by one digest over what was read of its trials."""
    said = strictjson.dumps([_evidence(trial, None) for trial in trials])
    return Document(Path(harmless_name(job.resolve().name)), hashlib.sha256(said).hexdigest(), len(said))


class _Importer:
    """Counts trials and makes the summaries."""

    def __init__(self, run_id: str, by: Actor, options: HarborOptions) -> None:
        self.account = Account()
        self.book = Book(by)
        self.uploads: list[Upload] = []
        self._run = run_id
        self._options = options
        self._clock = LogClock(options.zone)

    def summarise(self, found: Iterable[FoundTrial], document: Document, *, step: int | None) -> None:
        """Adds the summary of some trials; none of it if there are none."""
        trials = list(found)
        self.account.documents.append(document)
        if not trials:
            self.account.note(f"{document.name} holds no trial.")
            return
        self._count(trials, step)
        evidence = self._keep(trials, step)
        options = self._options
        errors = Counter(t.exception_type for t in trials if t.exception_type is not None)
        rewards = Counter(t.reward for t in trials if t.reward is not None)
        said = RolloutsSummarised(
            run_id=self._run,
            attempt=options.attempt,
            step=step,
            phase=options.phase,
            started=len(trials),
            finished=sum(t.finished for t in trials),
            verified=sum(t.verified for t in trials),
            errors=[
                ErrorCount(exception_type=self._clean(e), treatment=self._treatment(e), count=n)
                for e, n in sorted(errors.items())
            ],
            rewards=[RewardCount(reward=r, count=n) for r, n in sorted(rewards.items(), key=lambda item: str(item[0]))],
            trials=[self._trial(t, step) for t in trials] if len(trials) <= MAX_TRIALS else [],
            evidence=evidence,
            basis=document.basis("Consumed and trained are not known: no trial says it."),
        )
        self.book.add(
            "rollouts.summarised",
            f"run/{self._run}",
            said,
            place=[options.attempt, step, options.phase],
            says=[[t.name, t.finished, dict(t.rewards), t.exception_type] for t in trials],
        )

    def compare(self, path: Path, folders: int) -> None:
        """Tells where the job's own counts and the trials that are here differ."""
        if path.is_symlink() or not path.is_file():
            return
        try:
            job = JobResult.model_validate(metrics.loads(path.read_bytes().decode()))
        except ValueError:
            self.account.unreadable("result.json", "the job's result is no JSON object")
            return
        if job.finished_at is None:
            self.account.note("The job is not over: a later import of it would count these trials once more.")
        stats = job.stats
        here = self.account.found.get("trials", 0)
        self.account.found["trials the job planned"] = job.n_total_trials
        self.account.found["trials the job counts"] = stats.n_trials if stats else None
        if stats is not None and stats.n_trials is not None and stats.n_trials != here:
            self.account.note(
                f"The job counts {stats.n_trials} trials, and {here} are here ({folders} in folders): "
                "a retry takes the place of a trial in the job's counts, and archives may have been moved."
            )
        counted = _rewarded(job)
        verified = self.account.found.get("verified", 0)
        if counted is not None and counted != verified:
            self.account.note(f"The job has rewards of {counted} trials, and {verified} that are here were verified.")

    def _count(self, trials: Sequence[FoundTrial], step: int | None) -> None:
        found = self.account.found
        found["trials"] = found.get("trials", 0) + len(trials)
        found["finished"] = found.get("finished", 0) + sum(t.finished for t in trials)
        found["verified"] = found.get("verified", 0) + sum(t.verified for t in trials)
        if step is not None:
            self.account.saw_step(step)

    def _keep(self, trials: Sequence[FoundTrial], step: int | None) -> ArtifactRef:
        """Stores what is known of each trial, a line each."""
        lines = [strictjson.dumps(self._cleaned(_evidence(t, self._treatment(t.exception_type)))) for t in trials]
        content = b"\n".join(lines) + b"\n"
        name = "trials.jsonl" if step is None else f"trials_step{step}.jsonl"
        upload = Upload(sha256_hex(content), len(content), content)
        self.uploads.append(upload)
        return ArtifactRef(name=name, sha256=upload.sha256, size=upload.size, media_type="application/jsonl")

    def _trial(self, trial: FoundTrial, step: int | None) -> Trial:
        treatment = self._treatment(trial.exception_type)
        return Trial(step=step, **trial_fields(trial, self._clean, self._clock, treatment))

    def _treatment(self, exception_type: str | None) -> Treatment | None:
        treatments = self._options.treatments
        return treatments.of(exception_type) if treatments is not None and exception_type is not None else None

    def _clean(self, text: str) -> str:
        cleaned, found = redact(harmless_name(text))
        self.account.redactions.update(found)
        return cleaned[:512]

    def _cleaned(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._clean(k): self._cleaned(v) for k, v in value.items()}
        return self._clean(value) if isinstance(value, str) else value


def _evidence(trial: FoundTrial, treatment: Treatment | None) -> dict[str, Any]:
    """Everything that was read of a trial, times as they were written."""
    result = (
        trial.result.model_dump(mode="json", exclude_none=True, exclude={"verifier_result"}) if trial.result else {}
    )
    return {
        "trial": trial.name,
        "finished": trial.finished,
        "verified": trial.verified,
        "rewards": dict(trial.rewards),
        "treatment": treatment,
        "result": result,
    }


def _rewarded(job: JobResult) -> int | None:
    """How many trials the job has a reward of, whose values are its keys."""
    evals = job.stats.evals if job.stats is not None else None
    if not evals:
        return None
    named = {
        str(trial)
        for each in evals.values()
        for by_value in (each.reward_stats or {}).values()
        for value, trials in by_value.items()
        if metrics.from_text(value) is not None
        for trial in trials
    }
    return len(named)
