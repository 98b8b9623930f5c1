"""In which order a run's files were written: by what they say, not by how they are called.

A redone step belongs to the later attempt, so the order decides which values stand for it. The sign that was used is
told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Literal

from services.adapters.backfill.documents import Document
from services.adapters.backfill.log_lines import bare

Order = Literal["auto", "given", "log", "mtime"]
ORDERS: Final[tuple[Order, ...]] = ("auto", "given", "log", "mtime")
_PEEKED: Final = 5_000
_JSON_TIME: Final = re.compile(
    rb'"(?:timestamp|time|ts|_timestamp)": ?"?(\d{4}-[0-9T:.+Z -]{15,40}|\d{9,11}(?:\.\d+)?)"?'
)

_SAID: Final = {
    "given": "as they were named",
    "log": "by the first time that each file says",
    "mtime": "by the times at which the files were changed",
}


def ordered(
    documents: Sequence[Document], order: Order, first_time: Callable[[Document], str | None] | None = None
) -> tuple[list[Document], str | None]:
    """The files, earliest first, and by what; no order is told of a single one."""
    if len(documents) < 2:
        return list(documents), None
    if order in ("auto", "log"):
        times = [(first_time or log_time)(document) for document in documents]
        if all(times) and len(set(times)) == len(times):
            keyed = sorted(zip(times, range(len(times)), strict=True), key=lambda pair: (pair[0] or "", pair[1]))
            return [documents[i] for _, i in keyed], _SAID["log"]
    if order == "given":
        return list(documents), _SAID["given"]
    return sorted(documents, key=lambda d: d.path.stat().st_mtime_ns), _SAID["mtime"]


def log_time(document: Document) -> str | None:
    """The first time that a log tells, as it is written there."""
    for raw in islice(document.lines(), _PEEKED):
        if raw.startswith(b"{"):
            if found := _JSON_TIME.search(raw):
                return found[1].decode()
        elif (clock := bare(raw).clock) is not None:
            return clock
    return None
