"""The refreshes of the catalogue's origins: which there were, which is the present one, and what came since another.

A refresh is published on a base: the refresh of its origin that its author had seen. One that is no longer the present
is stale, and the refusal says who published what in between, and which sources that touched. A refresh that was
disregarded stays in the history and is nobody's base: the next one follows what stood before it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ledger.client.catalogue_rows import as_listed
from ledger.client.reader import Reader
from ledger.core.errors import LedgerError, Problem, Refused
from ledger.events import REGISTRY
from ledger.events.catalogue import CatalogueRow, CatalogueSynced, CatalogueSyncFailed
from ledger.events.fields import COLLECTION_TAG
from ledger.wire import log_pb2
from services.cli.catalogue_state import WITH_ROW, header_of, row_in
from services.cli.disregarded import Disregarded, disregarded

NO_BASE: Final = "none"
"""Written in the place of a base: the origin has no refresh yet."""
MAX_TOLD: Final = 10
"""So many changed sources of a refresh are named one by one."""
_PARTS: Final = (*WITH_ROW, "source.retired")


@dataclass(frozen=True)
class Refresh:
    """One refresh of an origin, or one that failed."""

    origin: str
    id: str
    pos: int
    recorded_at: str
    actor: str
    said: CatalogueSynced | CatalogueSyncFailed | None
    """None: its payload is gone."""
    failed: bool
    disregarded_at: int | None = None
    """The position of the event that lets it count for nothing."""

    @property
    def stands(self) -> bool:
        """Whether it took effect, and still counts."""
        return not self.failed and self.disregarded_at is None

    @property
    def revision(self) -> str | None:
        return self.said.revision if self.said is not None else None

    @property
    def counts(self) -> str:
        """What it did to the sources, in words."""
        if not isinstance(self.said, CatalogueSynced):
            return ""
        numbers = self.said.counts.model_dump()
        return ", ".join(f"{number:,} {verb}" for verb, number in numbers.items() if number) or "nothing differs"


History = Mapping[str, Sequence[Refresh]]
"""The refreshes that took effect, by origin, oldest first; those that were disregarded since are among them."""


@dataclass(frozen=True)
class Base:
    """What a new refresh of an origin comes after."""

    id: str | None
    """The refresh that it replaces; None before the first."""
    retracted: str | None
    """The newest refresh upon that one, if it was disregarded: what is published in its place has ids of its own."""


def all_refreshes(reader: Reader, origins: Iterable[str] = (), *, to_size: int = 0) -> list[Refresh]:
    """Every refresh of these origins (of all, if none is named), failed ones among them, oldest first."""
    types = ["catalogue.synced", "catalogue.sync_failed"]
    streams = [f"origin/{origin}" for origin in origins]
    gone = disregarded(reader, to_size=to_size)
    return [_refresh(event, gone) for event in reader.events(streams=streams, types=types, to_size=to_size)]


def history_of(reader: Reader, origins: Iterable[str], *, to_size: int = 0) -> History:
    """The refreshes of these origins that took effect, among the first `to_size` events, 0 for all."""
    found: dict[str, list[Refresh]] = {origin: [] for origin in origins}
    for refresh in all_refreshes(reader, found, to_size=to_size) if found else ():
        if not refresh.failed:
            found[refresh.origin].append(refresh)
    return found


def standing(history: History, origin: str) -> list[Refresh]:
    """The refreshes of an origin that count, oldest first."""
    return [refresh for refresh in history[origin] if refresh.stands]


def present(history: History, origin: str) -> Refresh | None:
    """The refresh by which the origin's sources are shown; None before the first."""
    found = standing(history, origin)
    return found[-1] if found else None


def following(history: History, origin: str, base: Refresh | None) -> Refresh | None:
    """The refresh that took the place of a base; None while that is the present one."""
    return next((refresh for refresh in standing(history, origin) if base is None or refresh.pos > base.pos), None)


def upon(history: History, origin: str, base: Refresh | None) -> Base:
    """What a refresh upon a base comes after: the base, and what was disregarded before another took its place."""
    after, until = base.pos if base is not None else -1, following(history, origin, base)
    gone = [
        refresh.id
        for refresh in history[origin]
        if not refresh.stands and refresh.pos > after and (until is None or refresh.pos < until.pos)
    ]
    return Base(base.id if base is not None else None, gone[-1] if gone else None)


def present_base(reader: Reader, origin: str) -> Base:
    """What the next refresh of an origin comes after."""
    history = history_of(reader, [origin])
    return upon(history, origin, present(history, origin))


def named(history: History, origin: str, base: str) -> Refresh | None:
    """The refresh that a base names, by its event id or its revision; None for "none".

    Raises:
        Refused: reason CONDITION_FAILED, if there is no such refresh.
    """
    if base == NO_BASE:
        return None
    for by in ("id", "revision"):
        found = [refresh for refresh in history[origin] if getattr(refresh, by) == base]
        counting = [refresh for refresh in found if refresh.stands]
        if counting:
            return counting[-1]
        if found:
            raise _retracted(history, found[-1], base)
    raise Refused(
        f"no refresh of {origin} has the id or the revision {base!r}",
        reason="CONDITION_FAILED",
        remedy=present_is(history, [origin]),
        details={"origin": origin, "base": base},
    )


def _retracted(history: History, refresh: Refresh, base: str) -> Refused:
    return Refused(
        f"the refresh {base!r} of {refresh.origin} was disregarded at position {refresh.disregarded_at}",
        reason="CONDITION_FAILED",
        remedy=present_is(history, [refresh.origin]),
        details={"origin": refresh.origin, "base": base, "disregarded_at": str(refresh.disregarded_at)},
    )


def present_is(history: History, origins: Iterable[str]) -> str:
    """What to give as the base of each origin, as a remedy."""
    said = []
    for origin in origins:
        now = present(history, origin)
        name = now.id if now is not None else NO_BASE
        base = name if len(history) == 1 else f"'{origin}={name}'"
        if now is None:
            said.append(f"{origin} has no refresh yet: --base {base}.")
            continue
        revision = f" (revision {now.revision})" if now.revision is not None else ""
        said.append(f"The present refresh of {origin} is {now.id}{revision}: look at it, then --base {base}.")
    return " ".join([*said, "Nothing was recorded of it."])


def stale(reader: Reader, history: History, bases: Mapping[str, Refresh | None]) -> Refused:
    """The refusal of bases that are not the present refreshes, with everything that came since.

    Args:
        bases: The stale ones, by origin.
    """
    since = {
        origin: [refresh for refresh in standing(history, origin) if base is None or refresh.pos > base.pos]
        for origin, base in bases.items()
    }
    told = [_times(origin, len(since[origin]), base) for origin, base in bases.items()]
    return Refused(
        f"the base is stale: {'; '.join(told)}",
        reason="CONDITION_FAILED",
        remedy=present_is(history, bases),
        details={f"present {origin}": refreshes[-1].id for origin, refreshes in since.items()},
        problems=[problem for refreshes in since.values() for problem in _told(reader, refreshes)],
    )


def _times(origin: str, count: int, base: Refresh | None) -> str:
    times = "once" if count == 1 else f"{count} times"
    return f"{origin} was refreshed {times} since {base.id if base is not None else 'it had no refresh'}"


def overtaken(
    reader: Reader, error: LedgerError, bases: Mapping[str, str | None], own: Container[str | None] = ()
) -> LedgerError:
    """Why a refresh was refused: another one came first, if that is so; else the error itself.

    Args:
        bases: The id of the refresh that each origin's plan replaces.
        own: The ids of the refreshes that were to be published: one of them may have been, before the refused one.
    """
    if error.reason not in {"REFUSED_BY_RULES", "CONDITION_FAILED"}:
        return error
    history = history_of(reader, bases)
    behind: dict[str, Refresh | None] = {}
    for origin, base in bases.items():
        now = present(history, origin)
        before = next((refresh for refresh in history[origin] if refresh.id == base), None)
        if before is not None and not before.stands:
            return _retracted(history, before, before.id)
        if now is not None and now.id != base and now.id not in own:
            behind[origin] = before
    return stale(reader, history, behind) if behind else error


def _refresh(event: log_pb2.Event, gone: Disregarded) -> Refresh:
    header = header_of(event)
    said = REGISTRY.read(header["type"], header["tv"], event.payload) if event.HasField("payload") else None
    by = gone.get((event.pos, str(header["id"])))
    return Refresh(
        origin=str(header["stream"]).partition("/")[2],
        id=str(header["id"]),
        pos=event.pos,
        recorded_at=str(header["recorded_at"]),
        actor=str(header["actor"]["id"]),
        said=said if isinstance(said, (CatalogueSynced, CatalogueSyncFailed)) else None,
        failed=header["type"] == "catalogue.sync_failed",
        disregarded_at=by.pos if by is not None else None,
    )


def _told(reader: Reader, since: Iterable[Refresh]) -> Iterator[Problem]:
    """Each refresh, and the sources that it changed."""
    for refresh in since:
        revision = f"revision {refresh.revision}" if refresh.revision is not None else "no revision"
        message = (
            f"{refresh.actor} published {revision} at {refresh.recorded_at}: {refresh.counts or 'content redacted'}"
        )
        yield Problem(f"origin/{refresh.origin}, position {refresh.pos}", message)
        yield from _changed(reader, refresh)


def _changed(reader: Reader, refresh: Refresh) -> Iterator[Problem]:
    """The first sources that it changed, and how many more there are."""
    if not isinstance(refresh.said, CatalogueSynced):
        return
    parts = reader.events(types=_PARTS, tags=[COLLECTION_TAG + refresh.said.collection], to_size=refresh.pos)
    for number, event in enumerate(parts):
        if number == MAX_TOLD:
            yield Problem(f"origin/{refresh.origin}", f"… and {refresh.said.parts.count - number} more sources")
            return
        header = header_of(event)
        verb = str(header["type"]).removeprefix("source.")
        fields = _differing(reader, event, str(header["stream"])) if verb == "revised" else ""
        yield Problem(str(header["stream"]), verb + (f": {fields}" if fields else ""))


def _differing(reader: Reader, event: log_pb2.Event, stream: str) -> str:
    """The keys in which a revised row differs from the one before it."""
    after = row_in(event)
    before: CatalogueRow | None = None
    for earlier in reader.events(streams=[stream], types=WITH_ROW, to_size=event.pos):
        before = row_in(earlier) or before
    if before is None or after is None:
        return ""
    then, now = as_listed(before), as_listed(after)
    return ", ".join(sorted(key for key in then.keys() | now.keys() if then.get(key) != now.get(key)))
