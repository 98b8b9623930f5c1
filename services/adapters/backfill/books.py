"""The drafts of one import, in order, made once: in memory while they are few, in a temporary file when they are many.

An id is a digest of the stream, the type, the place in the run and what is said there. What depends on how a file came
here (its name, its digest, a time zone that was given) is not part of it: the same fact read again is the same event.
"""

from __future__ import annotations

import tempfile
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import BaseModel, ValidationError

from ledger.client.drafts import Actor, Draft, draft
from ledger.core.errors import InvalidInput, Problem
from ledger.core.ids import digest_id
from ledger.core.strictjson import pointer
from ledger.events.wording import words

_IN_MEMORY: Final = 32 << 20
_LENGTH: Final = 8
_NAMESPACE: Final = "backfill"


class Book:
    """Drafts that are kept until they are sent. Written by one thread; read from the beginning as often as asked."""

    def __init__(self, by: Actor) -> None:
        self._by = by
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115  # closed with the book
        # Also where an import is given up half-way.
        self._closed = weakref.finalize(self, self._file.close)
        self.counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return self.counts.total()

    def __iter__(self) -> Iterator[Draft]:
        end, at = self._file.seek(0, 2), 0
        while at < end:
            self._file.seek(at)
            size = int.from_bytes(self._file.read(_LENGTH), "big")
            yield Draft.FromString(self._file.read(size))
            at += _LENGTH + size

    def close(self) -> None:
        self._closed()

    def add(
        self,
        type_: str,
        stream: str,
        payload: BaseModel,
        *,
        place: Sequence[object],
        says: object = None,
        occurred_at_us: int | None = None,
    ) -> str:
        """Adds a draft; gives its id.

        Args:
            type_: The event's type.
            stream: The stream that it goes to.
            payload: What it says.
            place: Where in the run it stands, by numbers and names that another copy of the file gives too.
            says: What its id is made from beside the place; the payload without its basis when left out.
            occurred_at_us: When it happened, where the file knows it.
        """
        content = payload.model_dump(mode="json", exclude={"basis"}) if says is None else says
        made = draft(
            type_,
            stream,
            payload,
            by=self._by,
            id=digest_id(_NAMESPACE, stream, type_, list(place), content),
            occurred_at_us=occurred_at_us,
        )
        data = made.SerializeToString()
        self._file.seek(0, 2)
        self._file.write(len(data).to_bytes(_LENGTH, "big") + data)
        self.counts[type_] += 1
        return made.id


def unfit(what: str, error: ValidationError) -> InvalidInput:
    """A file's content that no event can hold."""
    return InvalidInput(
        f"{what} does not fit the event that it is to become",
        reason="INVALID_FILE",
        remedy="Correct the fields named. Nothing was appended.",
        problems=[Problem(pointer(*f["loc"]), words(f)) for f in error.errors(include_url=False, include_input=False)],
    )
