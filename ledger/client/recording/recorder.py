"""The trainer's recorder: a word for each thing that every training loop does.

    with Recorder("127.0.0.1:7410", run="taco-arm-3") as rec:
        rec.declare_run(rl_start={"name": "Qwen/Qwen3-8B"}, sources=[{"atlas_id": "O:taco", "dataset_id": "taco"}])
        rec.start_attempt()
        rec.config(config)                      # before anything changes it
        for step in range(1, steps + 1):
            metrics = train(step)
            rec.step(step, metrics, weight_version=step - 1)
            rec.checkpoint(step, folder)
        rec.end_attempt("completed")

Fields that are not named here are given as keywords, by the names of the event's model. What `recording` promises holds
for every word. An exception that leaves the block is recorded as the end of the attempt, and raised on.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from numbers import Integral, Real
from types import MappingProxyType, TracebackType
from typing import Any, Final

from ledger.client.recording import folders, payloads
from ledger.client.recording.configs import Config, drift
from ledger.client.recording.files import read_files
from ledger.client.recording.recording import Recording
from ledger.client.recording.reports import Report
from ledger.client.recording.streams import check_attempt
from ledger.core.errors import InvalidInput
from ledger.events import REGISTRY

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
_STEPS: Final = "steps.logged"
_LOGGED: Final = REGISTRY.latest(_STEPS)


class Recorder(Recording):
    """Records a run. See `Recording` for the arguments and for what holds of all of it."""

    _saved_in: Mapping[int, int] = MappingProxyType({})
    """The attempt of each checkpoint that was recorded here, by its step."""
    _config: Config | None = None
    _resumed = False
    _attempt_ended = False
    _last_step: int | None = None
    _hashing: ThreadPoolExecutor | None = None

    def declare_run(self, **fields: Any) -> str | None:
        """What the run is: `sources` and `rl_start` at least; see `run.declared`."""
        return self.record("run.declared", {"rl_start": None, **fields})

    def start_attempt(self, attempt: int | None = None, *, resumed_from: Any = None, **fields: Any) -> str | None:
        """A start of the run's program, of which all that follows is part.

        Args:
            attempt: Its number; by default the recorder's.
            resumed_from: The checkpoint that it begins with: a step, or a mapping as `attempt.started` has it.
        """

        def start() -> str | None:
            if attempt is not None:
                check_attempt(attempt)
                self.attempt = attempt
            self._resumed, self._attempt_ended = resumed_from is not None, False
            resumed = {"step": int(resumed_from)} if isinstance(resumed_from, Integral) else resumed_from
            if resumed is not None and self.attempt == 1 and "run_id" not in resumed:
                self._warn(
                    "FIRST_ATTEMPT",
                    "attempt 1 begins with a checkpoint of its own run: its spool knows of no earlier start. "
                    "On another machine, or with another spool, give `attempt`",
                )
            return self.record("attempt.started", {"resumed_from": resumed, **fields})

        return self._attempted("attempt.started", start)

    def config(self, settings: Mapping[str, Any], *, moment: str | None = None) -> str | None:
        """The configuration as it is now; call it before anything changes it, and again whenever it may have changed.

        Call it after `start_attempt`, by which it is known to be that of a start or of a resume.

        The first time it is recorded, with its digest. A later time, or a later start of the run on the same spool,
        records what drifted, if anything did. Gives the digest.
        """

        def configure() -> str:
            cleaner = payloads.Cleaner()
            now = Config.of(self._cleaned(cleaner, settings))
            self._record_config(now, cleaner, moment)
            return now.digest

        return self._attempted("config.recorded", configure)

    def step(
        self,
        step: int,
        metrics: Mapping[str, Any],
        *,
        weight_version: int | None = None,
        epoch: float | None = None,
    ) -> str | None:
        """The metrics of one step: those that score the weights before its update. Made to cost little.

        A value that is not finite is kept by name. One that is no number at all is left out, and counted; so is a
        weight version or an epoch that cannot be one.
        """
        return self._attempted(_STEPS, lambda: self._step(step, metrics, weight_version, epoch))

    def evaluate(self, step: int, evaluations: Mapping[str, Mapping[str, Any]], **fields: Any) -> str | None:
        """An evaluation of the weights after a step: metrics by data source."""

        def evaluated() -> str | None:
            told = [{"data_source": name, "metrics": self._numbers(found)} for name, found in evaluations.items()]
            return self.record("eval.logged", {"step": step, "evaluations": told, **fields})

        return self._attempted("eval.logged", evaluated)

    def rollouts(self, step: int | None = None, **fields: Any) -> str | None:
        """How many rollouts came to what; see `rollouts.summarised`."""
        return self.record("rollouts.summarised", {"step": step, **fields})

    def saving(self, step: int) -> str | None:
        """A save begins: without a checkpoint after it, it is the trace of a save that failed."""
        return self.record("checkpoint.save_started", {"step": step})

    def checkpoint(self, step: int, files: Paths, *, background: bool = False, **fields: Any) -> Future[str | None]:
        """A checkpoint is saved: a folder, or a list of files, each of which is hashed.

        Args:
            step: As the folder is labelled.
            files: Where they are.
            background: Hash in a thread of the recorder's own and return at once. Do not change the files meanwhile.
        """
        fields = {"attempt": self.attempt, **fields}  # of now: another may have begun when the hashing ends
        done: Future[str | None] = Future()
        if not background or not self.active:
            done.set_result(self._commit(step, files, fields))
            return done
        if self._hashing is None:
            self._hashing = ThreadPoolExecutor(1, thread_name_prefix="ledger-hash")
        return self._hashing.submit(self._commit, step, files, fields)

    def loaded(self, step: int, **fields: Any) -> str | None:
        """A checkpoint was read back."""
        return self.record("checkpoint.loaded", {"step": step, **fields})

    def deleted(self, step: int, reason: str | None = None, **fields: Any) -> str | None:
        """A checkpoint was deleted, whichever attempt saved it, unless an `attempt` or a `digest` says which."""
        return self.record("checkpoint.deleted", {"step": step, "reason": reason, **fields})

    def select(self, step: int, *, rule: Mapping[str, Any], purpose: str = "export", **fields: Any) -> str | None:
        """A checkpoint was chosen. It is a decision: the ledger may refuse it, and the report says so.

        The one that this recorder saved is meant, if it saved that step; otherwise name its `attempt` or its `digest`
        where several attempts did.
        """
        meant = {"attempt": self._saved_in[step]} if step in self._saved_in else {}
        return self.record("checkpoint.selected", {**meant, "step": step, "purpose": purpose, "rule": rule, **fields})

    def end_attempt(self, ending: str, reason: str | None = None, **fields: Any) -> str | None:
        """The attempt ended: completed, failed, cancelled, preempted or unknown."""
        self._attempt_ended = True
        return self.record(
            "attempt.ended", {"ending": ending, "reason": reason, "last_step": self._last_step, **fields}
        )

    def end_run(self, ending: str, reason: str | None = None, **fields: Any) -> str | None:
        """No further attempt is planned."""
        return self.record("run.ended", {"ending": ending, "reason": reason, "last_step": self._last_step, **fields})

    def close(self) -> Report:
        """As `Recording.close`, once checkpoints that are being hashed are recorded."""
        if self._hashing is not None and self.active:
            self._hashing.shutdown(wait=True)
        return super().close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not self._attempt_ended and not _is_quiet_exit(error):
            ending = "cancelled" if isinstance(error, KeyboardInterrupt) else "failed"
            self.end_attempt(ending, reason=str(error)[:2_000] or None, error_type=type(error).__name__)
        super().__exit__(kind, error, trace)

    def _step(
        self, step: int, metrics: Mapping[str, Any], weight_version: int | None, epoch: float | None
    ) -> str | None:
        numbered: dict[str, Any] = {"step": step}
        exact = type(step) is int and step >= 0 and epoch is None
        if weight_version is not None:
            numbered["weight_version"] = weight_version
            exact = exact and type(weight_version) is int and weight_version >= 0
        data = payloads.step_payload(self._own(), numbered, metrics) if exact else None
        if data is None or len(data) > payloads.MAX_PAYLOAD:
            return self._odd_step({"step": step, "weight_version": weight_version, "epoch": epoch}, metrics)
        self._last_step = step
        return self._append(_LOGGED, f"run/{self.run}", data, (step,))

    def _record_config(self, now: Config, cleaner: payloads.Cleaner, moment: str | None) -> None:
        assert self.spool is not None
        saved = folders.read(self.spool / "config.json")
        before = self._config or (Config(saved["settings"], saved["digest"]) if saved else None)
        counts = [{"shape": shape, "count": count} for shape, count in sorted(cleaner.found.items())]
        if self._config is None:
            when = moment or ("resume" if self._resumed else "start")
            said = {"moment": when, "digest": now.digest, "settings": dict(now.recorded), "redactions": counts}
            self.record("config.recorded", said)
        if before is not None and before.digest != now.digest:
            when = "resume" if self._config is None else "running"
            self.record("config.drifted", {"moment": when, **drift(before, now)})
        if before is None or before.digest != now.digest:
            folders.write(self.spool / "config.json", {"digest": now.digest, "settings": dict(now.settings)})
        self._config = now

    def _odd_step(self, numbered: dict[str, Any], metrics: Mapping[str, Any]) -> str | None:
        """A step of which something is no plain number: by the way that all other events go."""
        left_out = [name for name, fits in _FITS.items() if numbered[name] is not None and not fits(numbered[name])]
        if left_out:
            self._leave_out(left_out, "cannot be one of a step")
            numbered |= dict.fromkeys(left_out)
        made = self.record(_STEPS, {"steps": [{**numbered, "metrics": self._numbers(metrics)}]})
        if made is not None:
            self._last_step = int(numbered["step"])
        return made

    def _numbers(self, metrics: Mapping[str, Any]) -> dict[str, float | str]:
        found, left_out = payloads.numbers(metrics)
        if left_out:
            self._leave_out(left_out, "is no number")
        return found

    def _leave_out(self, names: list[str], why: str) -> None:
        """Counts values that a step is recorded without."""
        if self.strict:
            raise InvalidInput(
                f"{', '.join(map(repr, names[:10]))}: {why}",
                reason="INVALID_PAYLOAD",
                remedy="A metric is a number, or one of the strings NaN, Infinity and -Infinity; a weight version is a "
                "whole number from 0 on, an epoch a number.",
            )
        self._left_out += len(names)
        for name in names:
            self._warn(f"METRIC {name}", f"{name!r} {why} and is left out")

    def _commit(self, step: int, files: Paths, fields: Mapping[str, Any]) -> str | None:
        def commit() -> str | None:
            made = self.record("checkpoint.committed", {"step": step, **read_files(files).as_fields(), **fields})
            if made is not None:
                self._saved_in = {**self._saved_in, step: fields["attempt"]}
            return made

        return self._attempted("checkpoint.committed", commit, told={"step": step, "files": str(files)})


def _is_version(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


_FITS: Final[Mapping[str, Callable[[Any], bool]]] = {"weight_version": _is_version, "epoch": _is_finite}
"""What a step may bear beside its metrics, and whether a value can be that."""


def _is_quiet_exit(error: BaseException) -> bool:
    """`sys.exit()` without a fault."""
    return isinstance(error, SystemExit) and error.code in {None, 0}
