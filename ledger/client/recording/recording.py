"""The core of a recorder: what is given to it is on disk before it returns, and nothing of it stops a training.

It keeps:

1. `record` has written the draft's bytes, made once, to the spool before it returns; a thread makes them durable and
   sends them, the same each time. What was answered is deleted; a tail that a crash tore is cut and counted.
2. It waits for nobody and raises nothing: what cannot be recorded is kept in `refused/`, counted and warned of, a
   line a reason. Only `strict` raises `InvalidInput`.
3. A full spool drops metrics alone, up to twice its size; which steps, and how many events, is reported.
4. What the ledger refuses lies in `refused/` with the reason, and stops nothing.
5. Only rank 0 records, unless told otherwise.
6. Secrets are replaced before anything is written, and counted by shape.
7. Every draft of the run's stream bears producer, epoch and number; `recording.reported` says what an epoch came to.
8. A forked child's recorder does nothing. Two processes never write one spool: the second gets one beside it.
9. Closing waits `close_timeout` seconds at most for answers, and then says how to send the rest.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar

from pydantic import BaseModel

from ledger.client.connection import connect
from ledger.client.drafts import Actor, actor
from ledger.client.recording import folders, payloads, refusals, streams
from ledger.client.recording.background import Background
from ledger.client.recording.claims import claim
from ledger.client.recording.packing import Halves, Kind
from ledger.client.recording.ranks import rank_of
from ledger.client.recording.reports import RefusedDraft, Report
from ledger.client.recording.spool import MAX_BYTES, Spool
from ledger.core import clock
from ledger.core.errors import InvalidInput, LedgerError
from ledger.core.ids import new_id
from ledger.events import REGISTRY
from ledger.events.registry import EventType
from ledger.wire import log_pb2

METRICS: Final = frozenset({"steps.logged", "engine.sampled"})
"""What a full spool drops."""
CLOSE_SECONDS: Final = 10.0
T = TypeVar("T")
_LOG: Final = logging.getLogger("ledger.client.recording")


class Recording:
    """Records events of any type. May be used by many threads.

    Args:
        address: Of the ledger; None: only the spool is written, to be sent by `ledger sync`.
        run: The run's id, and the rest of its stream's name.
        spool: A folder for the spool; by default one a run in the user's state folder.
        by: Who records: a pseudonymous id.
        attempt: Which start of the run this is; by default, how often the spool was opened. Give it where a restart
            does not find the spool of the starts before it, as on another machine.
        ranks: "zero": other ranks get a recorder that does nothing. "all": each rank records, to a spool of its own.
        rank: This process's rank; by default as the launcher's environment says.
        strict: Raise what is wrong with an event, rather than keep it in `refused/`.
        max_bytes: Of the spool; beyond it metrics are dropped.
        close_timeout: Seconds that closing waits for answers.

    Raises:
        InvalidInput: reason USAGE or INVALID_FILE, for arguments that can never work. A disk that fails raises only if
            `strict`.
    """

    def __init__(
        self,
        address: str | None,
        *,
        run: str,
        spool: str | os.PathLike[str] | None = None,
        by: Actor | None = None,
        attempt: int | None = None,
        ranks: Literal["zero", "all"] = "zero",
        rank: int | None = None,
        strict: bool = False,
        max_bytes: int = MAX_BYTES,
        close_timeout: float = CLOSE_SECONDS,
    ) -> None:
        streams.check_names(run, by)
        streams.check_numbers(attempt=attempt, rank=rank, ranks=ranks, max_bytes=max_bytes)
        if address is not None:
            connect(address).close()  # says at once what is no address
        self.run = run
        self.strict = strict
        self._by = by or actor("trainer")
        self._close_timeout = close_timeout
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._types: dict[str, EventType] = {}
        self._refused: list[RefusedDraft] = []
        self._warned: set[str] = set()
        self._left_out = 0
        self._pid = os.getpid()
        self._closing = threading.RLock()
        self._is_closing = False
        self._last: Report | None = None
        self._spool: Spool | None = None
        self._error = ""
        rank = rank_of(os.environ) if rank is None else rank
        if rank == 0 or ranks == "all":
            folder = Path(spool).expanduser() if spool is not None else folders.default_folder(run)
            self._open(folder.with_name(f"{folder.name}.rank{rank}") if rank else folder, address, rank, max_bytes)
        self.attempt = attempt or (self._spool.epoch if self._spool is not None else 1)

    def _open(self, folder: Path, address: str | None, rank: int, max_bytes: int) -> None:
        try:
            self._claim = claim(folder, sends=address is not None)
            folder = self._claim.folder
            try:
                self._spool = Spool(folder, self.run, self._by, rank=rank, max_bytes=max_bytes)
                self._background = Background(self._spool, address, self._on_refused)
            except BaseException:
                self._claim.release()
                raise
        except OSError as error:
            if self.strict:
                raise InvalidInput(
                    f"the spool {folder} cannot be opened: {error.strerror}",
                    reason="USAGE",
                    remedy="Give a folder that can be written, with `spool`.",
                ) from error
            self._error = f"the spool {folder} cannot be opened: {error.strerror}: NOTHING IS RECORDED"
            _LOG.error("%s", self._error)
            self._spool = None
            return
        _open_recordings.add(self)

    @property
    def active(self) -> bool:
        """Whether it records: not on other ranks, in a forked child, or once closed."""
        return self._spool is not None and self._last is None and self._pid == os.getpid()

    @property
    def spool(self) -> Path | None:
        """The spool's folder."""
        return self._spool.folder if self._spool is not None else None

    def record(
        self,
        type: str,  # noqa: A002  # the wire's word
        payload: BaseModel | Mapping[str, Any],
        *,
        stream: str | None = None,
        causes: Iterable[str] = (),
        tags: Iterable[str] = (),
        occurred_at_us: int | None = None,
    ) -> str | None:
        """Records one event; gives its id, or None where it was not kept.

        `run_id` and `attempt` are filled in where the type has them and a mapping leaves them out, but no attempt where
        it is that of a checkpoint which any attempt may have saved. The stream is the
        run's, or that of the export or campaign that the payload names.

        Raises:
            InvalidInput: only if the recorder is strict.
        """
        if not self.active:
            return None
        cleaner = payloads.Cleaner()
        plain: Any = None
        try:
            kind = self._types.get(type) or self._type(type)
            plain = payloads.filled(kind, self._cleaned(cleaner, payload), self._own())
            data = payloads.payload(kind, plain)
            where = stream or streams.stream_of(kind, self.run, plain)
            steps = payloads.metric_steps(type, plain) if type in METRICS else ()
            return self._append(kind, where, data, steps, causes, tags, occurred_at_us)
        except Exception as error:
            if self.strict and isinstance(error, LedgerError):
                raise
            self._refuse(type, plain, error)
            return None

    def flush(self, timeout: float = CLOSE_SECONDS) -> Report:
        """Waits until everything recorded so far is answered, or, without an address, durable; or time is up."""
        if self.active:
            assert self._spool is not None
            self._background.wait_for(self._spool.end(), time.monotonic() + timeout)
        return self.report()

    def report(self) -> Report:
        """What became of what was recorded, as of now."""
        spool = self._spool
        if spool is None or self._pid != os.getpid():
            return Report(error=self._error)
        if self._last is not None:
            return self._last
        sent, tally = self._background.sent, spool.tally
        recorded = spool.written
        return Report(
            spool=spool.folder,
            recorded=recorded,
            answered=sent.answered,
            waiting=max(0, spool.waiting_at_start + recorded - sent.answered),
            dropped=tally.dropped + spool.dropped_uncounted,
            left_out=self._left_out,
            refused=tuple(self._refused),
            redactions=dict(tally.redactions),
            unreadable_bytes=tally.unreadable_bytes + spool.torn_before,
            error=sent.error,
        )

    def close(self) -> Report:
        """Reports what the epoch came to, waits for answers as long as `close_timeout`, and says what is left."""
        with self._closing:
            if self.active and not self._is_closing:
                self._is_closing = True
                try:
                    self._last = self._close()
                except Exception as error:  # noqa: BLE001  # the training is over and did well
                    self._warn("CLOSE", f"the recorder could not be closed: {error}")
                finally:
                    # Also when an interrupt ends the wait: nothing is written or sent once the locks are free.
                    self._background.stop(0.1)
                    self._last = self._last or self.report()
                    self._claim.release()
                    _open_recordings.discard(self)
        return self.report()

    def _close(self) -> Report:
        spool, background = self._spool, self._background
        assert spool is not None
        deadline = time.monotonic() + self._close_timeout
        # The report names what was refused, so most answers are waited for before it is made.
        background.wait_for(spool.end(), time.monotonic() + self._close_timeout / 2)
        spool.report()
        background.wait_for(spool.end(), deadline)
        background.stop(deadline - time.monotonic())
        spool.close()
        background.delete_answered()
        report = self.report()
        if report.waiting or report.refused:
            self._warn("END", f"the recorder of {self.run} is closed: {report}")
        return report

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(  # noqa: PLR0917  # the hot path names nothing
        self,
        kind: EventType,
        stream: str,
        data: bytes,
        steps: Iterable[int] = (),
        causes: Iterable[str] = (),
        tags: Iterable[str] = (),
        occurred_at_us: int | None = None,
    ) -> str | None:
        spool = self._spool
        assert spool is not None
        packed = self._kinds.get((kind.type, stream)) or self._kind(kind, stream)
        id_ = new_id()
        now = clock.system_clock() if occurred_at_us is None else occurred_at_us
        halves: Halves = packed.halves(id_, data, now, tags, causes)
        if stream != spool.identity.stream:
            kept = spool.append_uncounted(halves)
        else:
            kept = spool.append(halves, droppable=kind.type in METRICS, steps=steps) is not None
        if kept:
            return id_
        if spool.is_reported:
            self._warn("LATE", f"{kind.type} was recorded while the recorder closed: it is not kept")
        else:
            self._warn("FULL", f"the spool {spool.folder} is full or its disk fails: events are dropped and counted")
        return None

    def _type(self, type_: str) -> EventType:
        found = self._types[type_] = REGISTRY.latest(type_)
        return found

    def _kind(self, kind: EventType, stream: str) -> Kind:
        streams.check(kind, stream)
        made = self._kinds[kind.type, stream] = Kind(kind.type, kind.version, stream, self._by)
        return made

    def _cleaned(self, cleaner: payloads.Cleaner, value: Any) -> Any:
        """As plain JSON; the secrets that were in it are counted whatever becomes of it."""
        assert self._spool is not None
        try:
            return cleaner.plain(value)
        finally:
            self._spool.tally.redact(cleaner.found)

    def _own(self) -> dict[str, Any]:
        return {"run_id": self.run, "attempt": self.attempt}

    def _attempted(self, type_: str, act: Callable[[], T], told: Any = None) -> T | None:
        """What the act gives. Whatever is wrong in it is kept as refused, and raised only if the recorder is strict."""
        if not self.active:
            return None
        try:
            return act()
        except Exception as error:
            if self.strict and isinstance(error, LedgerError):
                raise
            self._refuse(type_, told, error)
            return None

    def _refuse(self, type_: str, plain: Any, error: Exception) -> None:
        """Keeps what could not be recorded. Whatever goes wrong here too is left at a warning."""
        known = error if isinstance(error, LedgerError) else refusals.unforeseen(type_, error)
        self._warn(known.reason, f"{type_} is not recorded: {known.message} [{known.reason}]")
        try:
            assert self._spool is not None
            self._spool.skip()
            self._refused.append(refusals.keep_unmade(self._spool.folder, known, type_, plain))
        except Exception as failure:  # noqa: BLE001  # whatever it is, training goes on
            self._warn("REFUSED", f"and it cannot be kept: {failure!r}")

    def _on_refused(self, refused: RefusedDraft, producer: log_pb2.Producer) -> None:
        assert self._spool is not None
        if producer.epoch == self._spool.epoch:
            self._spool.tally.refuse()
        self._refused.append(refused)
        self._warn(refused.reason, f"the ledger refused {refused.type}: {refused.message} (kept in {refused.file})")

    def _warn(self, reason: str, text: str) -> None:
        if reason not in self._warned:
            self._warned.add(reason)
            _LOG.warning("%s", text)


_open_recordings: Final[weakref.WeakSet[Recording]] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """A program that forgot to close still waits for answers, as long as each recorder allows."""
    for recording in list(_open_recordings):
        recording.close()
