"""SkyRL's training logs into events: steps, evaluations, engines, what became of groups, configurations, attempts.

    found = plan_skyrl([Path("train.log.gz")], run_id="taco-arm-3", by=me)

A log's clock has no zone, so times are unknown unless a zone is given; its engines' lines have no year either, and are
left out unless both are. A long log without a single step is refused: its format has changed, or it is another file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Final

from ledger.client.cards.text import counted
from ledger.client.drafts import Actor
from ledger.core.errors import InvalidInput, Problem
from ledger.events.runs import AttemptStarted, Basis, ConfigRecorded, RedactionCount, ResumedFrom
from ledger.events.steps import (
    DispositionCount,
    EngineSample,
    EngineSampled,
    EvalLogged,
    Evaluation,
    GroupsDisposed,
    LoggedStep,
    StepsLogged,
)
from services.adapters.backfill import printed_configs
from services.adapters.backfill.accounts import Account
from services.adapters.backfill.attempts import Attempt, Attempts, Placed
from services.adapters.backfill.books import Book
from services.adapters.backfill.clocks import LogClock, text_or_none
from services.adapters.backfill.documents import Document, read_document
from services.adapters.backfill.file_order import Order, ordered
from services.adapters.backfill.imports import Import
from services.adapters.backfill.log_items import ConfigBlock, EngineLine, GroupsLine, Malformed, ResumeLine, Row
from services.adapters.backfill.metrics import Metrics
from services.adapters.backfill.printed_rows import STEP
from services.adapters.backfill.training_logs import LogReader

LONG: Final = 200
"""Lines of a log that has surely come to a step, or is no log of ours."""
PRINTED: Final = "Printed with four decimals: smaller values read as zero."
_NO_SOURCE: Final = "unnamed"


@dataclass(frozen=True)
class LogOptions:
    """What the logs themselves do not say."""

    order: Order = "auto"
    zone: tzinfo | None = None
    year: int | None = None
    first_attempt: int = 1
    expected_steps: int | None = None


def plan_skyrl(paths: Sequence[Path], *, run_id: str, by: Actor, options: LogOptions | None = None) -> Import:
    """Reads the logs of one run, and of all its attempts.

    Raises:
        InvalidInput: reason NO_ROWS, if a long log holds no step; or INVALID_FILE, if a file cannot be read.
    """
    options = options or LogOptions()
    account = Account()
    documents = _distinct([read_document(path) for path in paths], account)
    account.documents, account.order = ordered(documents, options.order)
    if account.order is not None and "changed" in account.order:
        account.note("The files were put in order by when they were changed; a copy may have another time.")
    importer = _Importer(run_id, by, account, options)
    lines = importer.read()
    importer.conclude(lines)
    return Import(f"run/{run_id}", importer.book, account)


def no_rows(account: Account, what: str) -> InvalidInput:
    """Nothing was found where something must be."""
    return InvalidInput(
        f"{what}, and not one of them holds the metrics of a step",
        reason="NO_ROWS",
        remedy="See that these are the training logs; if so, their format is one that this release does not know. "
        "Nothing was appended.",
        details={"malformed": str(account.malformed)},
        problems=[Problem(unread.place, unread.what) for unread in account.unread],
    )


def _distinct(documents: Sequence[Document], account: Account) -> list[Document]:
    found = {d.sha256: d for d in reversed(documents)}
    if len(found) < len(documents):
        account.note("A file that was named twice, or is the copy of another, is read once.")
    return list(reversed(found.values()))


class _Importer:
    """Turns what stands in the logs into drafts, in the order of the logs."""

    def __init__(self, run_id: str, by: Actor, account: Account, options: LogOptions) -> None:
        self.book = Book(by)
        self._run = run_id
        self._stream = f"run/{run_id}"
        self._account = account
        self._options = options
        self._attempts = Attempts(options.first_attempt)
        self._clock = LogClock(options.zone, options.year)
        self._begins: list[int] = []
        """How many lines stand before each file: lines are counted through all of them."""
        self._document = account.documents[0]
        self._groups: list[tuple[Attempt, GroupsLine]] = []

    def read(self) -> int:
        """Reads every file; gives the number of lines."""
        lines = 0
        for document in self._account.documents:
            self._begins.append(lines)
            counted = _Counted(document)
            for item in LogReader().items(counted, lines):
                if isinstance(item, Malformed):
                    self._account.malformed_at(document, item.line - lines, item.what)
                    continue
                for placed in self._attempts.place(item):
                    self._record(placed)
            lines += counted.lines
        for placed in self._attempts.end():
            self._record(placed)
        return lines

    def conclude(self, lines: int) -> None:
        """Tells of the attempts and of what is missing.

        Raises:
            InvalidInput: reason NO_ROWS.
        """
        account = self._account
        found = account.rows or self.book.counts["eval.logged"]
        if not found and lines >= LONG:
            raise no_rows(account, f"{lines:,} lines in {counted(len(account.documents), 'file')}")
        if not found:
            account.note(f"The logs hold no step: they have {counted(lines, 'line')}.")
        if self._groups:
            account.left_out["counts of groups after the last step"] += len(self._groups)
        account.attempts = [_told(attempt) for attempt in self._attempts.all]
        for attempt in self._attempts.all:
            self._warn_of(attempt)
        self._warn_of_too_few()

    def _warn_of(self, attempt: Attempt) -> None:
        if attempt.gaps:
            missing = ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in attempt.gaps[:10])
            self._account.note(f"Attempt {attempt.number} lacks the steps {missing}.")

    def _warn_of_too_few(self) -> None:
        expected, last = self._options.expected_steps, self._account.last_step
        if expected is not None and (last is None or last < expected):
            self._account.note(f"Fewer steps than expected: the last is {last}, not {expected}.")

    def _record(self, placed: Placed) -> None:
        if placed.duplicate:
            self._account.duplicates += 1
            return
        # An item may have waited for a row of the next file.
        self._document = self._account.documents[bisect_left(self._begins, placed.item.line) - 1]
        if placed.begins:
            self._begin(placed.attempt)
        match placed.item:
            case Row(kind="train"):
                self._step(placed.item, placed.attempt)
            case Row():
                self._evaluation(placed.item, placed.attempt)
            case EngineLine():
                self._engine(placed.item, placed.attempt)
            case GroupsLine():
                self._groups.append((placed.attempt, placed.item))
            case ConfigBlock():
                self._config(placed.item, placed.attempt)
            case ResumeLine() | Malformed():
                pass

    def _basis(self, note: str | None = None) -> Basis:
        return self._document.basis(note)

    def _begin(self, attempt: Attempt) -> None:
        """Records the start, unless the logs leave open what it started from."""
        step, first = attempt.resumed_from, attempt.first
        if step is not None:
            self._started(attempt, step, self._basis("The log says from which checkpoint it went on."))
        elif first is not None and first <= 1:
            self._started(attempt, None, self._basis())
        elif first is not None and attempt.number > 1:
            basis = self._basis(f"The first step that it logged is {first}.").model_copy(update={"kind": "inferred"})
            self._started(attempt, first - 1, basis)
        elif first is not None:
            self._account.note(f"The logs begin with step {first}: what came before is not in them.")

    def _started(self, attempt: Attempt, step: int | None, basis: Basis) -> None:
        resumed = None if step is None else ResumedFrom(step=step)
        said = AttemptStarted(run_id=self._run, attempt=attempt.number, resumed_from=resumed, basis=basis)
        self.book.add("attempt.started", self._stream, said, place=[attempt.number], says=step)

    def _step(self, row: Row, attempt: Attempt) -> None:
        self._account.saw_step(row.step)
        self._note_left_out(row)
        self._compare_steps(row)
        logged_at = self._clock.stamp(row.clock)
        note = PRINTED if row.printed else None
        if row.printed:
            self._account.note("Steps from printed blocks have numbers of four decimals: small ones read as zero.")
        epoch = row.metrics.get("trainer/epoch")
        step = LoggedStep(
            step=row.step,
            epoch=epoch if isinstance(epoch, float) else None,
            logged_at=text_or_none(logged_at),
            metrics=row.metrics,
        )
        said = StepsLogged(
            run_id=self._run,
            attempt=attempt.number,
            steps=[step],
            log_file=self._document.name,
            basis=self._basis(note),
        )
        self.book.add(
            "steps.logged",
            self._stream,
            said,
            place=[attempt.number, row.step],
            says=row.metrics,
            occurred_at_us=logged_at,
        )
        self._dispose(row.step, attempt)

    def _evaluation(self, row: Row, attempt: Attempt) -> None:
        self._note_left_out(row)
        evaluations = [Evaluation(data_source=s, metrics=m) for s, m in by_data_source(row.metrics).items()]
        said = EvalLogged(
            run_id=self._run, attempt=attempt.number, step=row.step, evaluations=evaluations, basis=self._basis()
        )
        self.book.add(
            "eval.logged",
            self._stream,
            said,
            place=[attempt.number, row.step],
            says=row.metrics,
            occurred_at_us=self._clock.stamp(row.clock),
        )

    def _note_left_out(self, row: Row) -> None:
        if row.left_out:
            self._account.left_out["metric values that are no numbers"] += len(row.left_out)

    def _compare_steps(self, row: Row) -> None:
        """Two counters may differ, as after a resume that counted twice: the line's own is taken."""
        counted = row.metrics.get(STEP)
        if counted is not None and counted != row.step:
            self._account.note(f"A row is labelled step {row.step}, and its {STEP} is {counted}: the label was taken.")

    def _engine(self, line: EngineLine, attempt: Attempt) -> None:
        sampled_at = self._clock.yearless(*line.clock)
        if sampled_at is None:
            self._account.left_out["lines of engines, which have no year and no zone (--year, --timezone)"] += 1
            return
        sample = EngineSample(engine=line.engine, sampled_at=text_or_none(sampled_at) or "", metrics=line.metrics)
        said = EngineSampled(
            run_id=self._run, attempt=attempt.number, samples=[sample], scraped=False, basis=self._basis()
        )
        place = [attempt.number, line.engine, list(line.clock)]
        self.book.add("engine.sampled", self._stream, said, place=place, says=line.metrics, occurred_at_us=sampled_at)
        self._account.note(
            "Lines of engines show fewer engines than there are: Ray folds similar ones, and totals are too small."
        )

    def _dispose(self, step: int, attempt: Attempt) -> None:
        """What was counted before a step's metrics is of that step."""
        lines = [line for of, line in self._groups if of is attempt]
        self._groups = []
        if lines:
            counts = [count for line in lines for count in dispositions(line)]
            said = GroupsDisposed(run_id=self._run, attempt=attempt.number, step=step, counts=counts)
            self.book.add("groups.disposed", self._stream, said, place=[attempt.number, step])

    def _config(self, block: ConfigBlock, attempt: Attempt) -> None:
        before = self._account.redactions.copy()
        settings = printed_configs.cleaned(block.settings, self._account.redactions)
        found = self._account.redactions - before
        flat = printed_configs.by_path(settings)
        if not flat:
            self._account.note("A configuration is too large for an event: only its digest is recorded.")
        said = ConfigRecorded(
            run_id=self._run,
            attempt=attempt.number,
            moment="start" if attempt.resumed_from is None and attempt.number == 1 else "resume",
            digest=printed_configs.digest(settings),
            settings=flat,
            redactions=[RedactionCount(shape=s, count=n) for s, n in sorted(found.items())],
            basis=self._basis("Read from the log, where it was printed."),
        )
        self.book.add("config.recorded", self._stream, said, place=[attempt.number], says=said.digest)


class _Counted:
    """A document's lines, counted."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.lines = 0

    def __iter__(self) -> Iterator[bytes]:
        for line in self._document.lines():
            self.lines += 1
            yield line


def _told(attempt: Attempt) -> dict[str, object]:
    return {
        "attempt": attempt.number,
        "first_step": attempt.first,
        "last_step": attempt.last,
        "rows": attempt.rows,
        "resumed_from": attempt.resumed_from,
        "known_by": attempt.why,
        "missing": [list(gap) for gap in attempt.gaps],
    }


def by_data_source(metrics: Metrics) -> dict[str, Metrics]:
    """Metrics of an evaluation by their data source, under the keys that they were logged by."""
    found: dict[str, Metrics] = {}
    for key, value in metrics.items():
        inner = key.removeprefix("eval/")
        source, _, name = inner.rpartition("/")
        named = source if inner != key and source and name else _NO_SOURCE
        found.setdefault(named, {})[key] = value
    return found


def dispositions(line: GroupsLine) -> list[DispositionCount]:
    """The counts as the estimator printed them."""
    excluded = f"all samples excluded from the baseline ({line.excluded} of {line.samples} samples of all groups)"
    counts = [
        DispositionCount(disposition="masked", reason=excluded, groups=line.all_excluded),
        DispositionCount(
            disposition="filtered", reason=f"fewer than {line.minimum} samples in the baseline", groups=line.too_small
        ),
    ]
    if line.tied is not None:
        reason = f"no variance of rewards (of {line.groups} groups)"
        counts.append(
            DispositionCount(disposition="filtered", reason=reason, groups=line.tied, samples=line.tied_samples)
        )
    return counts
