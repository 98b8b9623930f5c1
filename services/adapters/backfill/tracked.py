"""Points and rows of a tracker's runs into steps: each tracker's run is one start of the program.

A tracker's rows may hold a part of a step each: parts of one step, one after the other, that do not contradict each
other are one row. A step that comes again with another value of a metric was made again, by a later attempt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ledger.client.drafts import Actor
from ledger.core import clock, strictjson
from ledger.events.runs import AttemptStarted, ResumedFrom
from ledger.events.steps import LoggedStep, StepsLogged
from services.adapters.backfill.accounts import Account
from services.adapters.backfill.books import Book
from services.adapters.backfill.documents import Document
from services.adapters.backfill.metrics import Metrics


@dataclass(frozen=True)
class Part:
    """Some metrics of a step, and when the tracker was told."""

    step: int
    metrics: Metrics
    at_us: int | None = None


def whole(parts: Iterable[Part]) -> Iterator[Part]:
    """Parts that follow each other, joined to one row a step."""
    row: Part | None = None
    for part in parts:
        if row is not None and part.step == row.step and _agree(row.metrics, part.metrics):
            row = Part(row.step, {**row.metrics, **part.metrics}, row.at_us)
            continue
        if row is not None:
            yield row
        row = part
    if row is not None:
        yield row


class TrackedRun:
    """Records the rows of one run's tracker runs, attempt by attempt."""

    def __init__(self, run_id: str, by: Actor, account: Account, first_attempt: int) -> None:
        self.book = Book(by)
        self.attempt = first_attempt - 1
        self._run = run_id
        self._account = account
        self._last: int | None = None
        self._seen: set[bytes] = set()

    def begin(self) -> None:
        """A tracker's run begins: the rows that come are of another start of the program."""
        self._last = None

    def add(self, row: Part, document: Document) -> None:
        """Records a row, under a new attempt where its step goes back."""
        key = hashlib.sha256(strictjson.dumps([row.step, row.metrics])).digest()[:16]
        if key in self._seen:
            self._account.duplicates += 1
            return
        self._seen.add(key)
        if self._last is None or row.step <= self._last:
            self._start(row.step, document)
        elif row.step > self._last + 1:
            self._account.attempts[-1]["missing"].append([self._last + 1, row.step - 1])
        self._last = row.step
        self._step(row, document)

    def _start(self, step: int, document: Document) -> None:
        self.attempt += 1
        self._account.attempts.append(
            {"attempt": self.attempt, "first_step": step, "last_step": step, "rows": 0, "resumed_from": None,
             "known_by": "steps", "missing": []}
        )  # fmt: skip
        if step > 1 and self.attempt == 1:
            self._account.note(f"The history begins with step {step}: what came before is not in it.")
            return
        basis = document.basis()
        if step > 1:
            basis = document.basis(f"The first step that it logged is {step}.").model_copy(update={"kind": "inferred"})
        resumed = ResumedFrom(step=step - 1) if step > 1 else None
        said = AttemptStarted(run_id=self._run, attempt=self.attempt, resumed_from=resumed, basis=basis)
        self.book.add("attempt.started", f"run/{self._run}", said, place=[self.attempt], says=resumed and resumed.step)

    def _step(self, row: Part, document: Document) -> None:
        self._account.saw_step(row.step)
        attempt = self._account.attempts[-1]
        attempt["last_step"] = row.step
        attempt["rows"] += 1
        logged_at = None if row.at_us is None else clock.to_text(row.at_us)
        said = StepsLogged(
            run_id=self._run,
            attempt=self.attempt,
            steps=[LoggedStep(step=row.step, logged_at=logged_at, metrics=row.metrics)],
            log_file=document.name,
            basis=document.basis(),
        )
        self.book.add(
            "steps.logged",
            f"run/{self._run}",
            said,
            place=[self.attempt, row.step],
            says=row.metrics,
            occurred_at_us=row.at_us,
        )


def _agree(one: Metrics, other: Metrics) -> bool:
    return all(other.get(key, value) == value for key, value in one.items())
