"""Questions about sources: one, all that pass a filter, and why.

A state is JSON as the fold wrote it; nothing here computes it again, and an explanation is what the fold recorded with
it. When the generation that answers is replaced in the midst of a question, `Moved` is raised: take the moment again.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import msgspec
import orjson

from ledger.audit.coordinates import At, Moment
from ledger.core.errors import InvalidInput, NotFound
from ledger.log.log import Log
from ledger.log.model import StoredEvent
from ledger.projections.generations import Generations

MAX_PAGE: Final = 1_000
State = dict[str, Any]


@dataclass(frozen=True)
class SourceFilter:
    """Which sources to list. Empty fields match everything; several values of one field are alternatives."""

    origins: frozenset[str] = frozenset()
    families: frozenset[str] = frozenset()
    qualities: frozenset[str] = frozenset()
    difficulties: frozenset[str] = frozenset()
    atlas_statuses: frozenset[str] = frozenset()
    has_open_defects: bool | None = None
    is_benchmark: bool | None = None
    search: str = ""
    include_retired: bool = False

    def takes(self, state: State) -> bool:
        return (
            (self.include_retired or not state["retired"])
            and (not self.origins or state["origin"] in self.origins)
            and (not self.families or state["family"] in self.families)
            and (not self.qualities or state["quality"] in self.qualities)
            and (not self.difficulties or state["difficulty"]["status"] in self.difficulties)
            and (not self.atlas_statuses or state["atlas_status"] in self.atlas_statuses)
            and (self.has_open_defects is None or bool(state["open_defects"]) == self.has_open_defects)
            and (self.is_benchmark is None or state["is_benchmark"] == self.is_benchmark)
            and self._finds(state)
        )

    def _finds(self, state: State) -> bool:
        if not self.search:
            return True
        wanted = self.search.casefold()
        return any(wanted in str(state[name] or "").casefold() for name in ("id", "name", "dataset_id", "family"))


@dataclass(frozen=True)
class Page:
    """Some of the sources that pass, and how to ask for the next ones."""

    states: list[State] = field(default_factory=list)
    total: int = 0
    next_token: str = ""


_Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
_Token = tuple[_Number, bool, str, _Number]


class Sources:
    """Answers from the interval rows of the generation that the coordinates name."""

    def __init__(self, log: Log, generations: Generations) -> None:
        self._log = log
        self._generations = generations

    def one(self, source_id: str, moment: Moment) -> State:
        """One source's state.

        Raises:
            InvalidInput: if the id is empty.
            NotFound: it did not exist at the moment.
        """
        if not source_id:
            raise InvalidInput("the id of the source is empty", remedy="Give the id as `ledger source list` shows it.")
        rows = [] if moment.generation is None else self._generations.states_at(
            moment.generation.id, moment.size, source_id
        )  # fmt: skip
        if not rows:
            raise self._unknown(source_id, moment)
        state: State = orjson.loads(rows[0][1])
        return state

    def _unknown(self, source_id: str, moment: Moment) -> NotFound:
        later = " It may have been declared later than this moment." if moment.size < self._log.head().size else ""
        return NotFound(
            f"there is no source {source_id!r} at size {moment.size}",
            remedy=f"`ledger source list --retired` names them all; ids are case sensitive.{later}",
            details={"id": source_id, "size": str(moment.size)},
        )

    def page(self, moment: Moment, which: SourceFilter, *, page_size: int = 0, start: int = 0) -> Page:
        """The sources that pass, by origin, then id, from the one with the number `start`."""
        if moment.generation is None:
            return Page()
        rows = self._generations.states_at(moment.generation.id, moment.size)
        passing = [state for state in (orjson.loads(data) for _, data in rows) if which.takes(state)]
        end = start + min(page_size or MAX_PAGE, MAX_PAGE)
        token = encode_token(moment, end) if end < len(passing) else ""
        return Page(passing[start:end], len(passing), token)

    def events_of(self, state: State) -> list[StoredEvent]:
        """Every event that the state's reasons name, once, in log order."""
        positions = sorted({pos for reason in state["reasons"] for pos in reason["events"]})
        found = [self._log.store.event(pos) for pos in positions]
        return [event for event in found if event is not None]


def encode_token(moment: Moment, start: int) -> str:
    """A page token: the coordinates of the first page, and how many sources were given."""
    return base64.urlsafe_b64encode(orjson.dumps([moment.size, moment.final, moment.rules, start])).decode()


def decode_token(token: str) -> tuple[At, int]:
    """The coordinates of the first page, and the number of the source that the next one starts with.

    Raises:
        InvalidInput: if it is no token of this service.
    """
    try:
        size, final, rules, start = msgspec.json.decode(base64.urlsafe_b64decode(token.encode()), type=_Token)
    except (ValueError, binascii.Error):  # msgspec's own errors are ValueErrors
        raise InvalidInput(
            "the page token is not one of this service's",
            remedy="Take next_page_token from the answer before, as it is, or leave it out.",
        ) from None
    return At(size=size, rules=rules, final=final), start
