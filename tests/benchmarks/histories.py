"""A ledger's life as a benchmark needs it: any number of events, the same every time, in the order of a real log.

A catalogue of hundreds to thousands of sources; most events are reviews of three tasks (a native run, three judges and a
synthesis each, and one synthesis of the source), published together; between them come refreshes of the catalogue,
changes of the protocol, difficulty reports, defects and their fixes, attestations, aliases.

Nothing here but the standard library, since rivals load it in environments of their own.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from tests.benchmarks import payloads, review_payloads
from tests.benchmarks.payloads import Payload, Source
from tests.benchmarks.review_payloads import JUDGES, Review

ORIGINS: Final = ("Task Trove", "Task Trove", "Task Trove", "MarinSkyRL")
FIRST_PROTOCOL: Final = "atlas-difficulty-v2-65k16k"
"""In use before the history begins."""
PROTOCOLS: Final = ("atlas-difficulty-v3-65k16k", "atlas-difficulty-v4-65k16k")
"""Take the place of the one before, each after its share of the history."""
REFRESHES: Final = 20
"""Of each origin, spread over the history."""
REVISED: Final = 0.03
"""Share of an origin's sources that a refresh revises."""
OPEN_DEFECTS: Final = 0.03
"""Share of the sources: once so many defects are open, the oldest is fixed instead of another being found."""
TASKS: Final = 3
NAMED_PARTS: Final = 256

PLANS: Final = (("keep", "keep", None), ("keep", "conditional", "medium"), ("reject", "reject", "high"))
"""Of a review: verdict of the synthesis, verdict of the judges, severity of what they found. Good, some issues, bad."""
_WEIGHTS: Final = (6, 3, 1)
_CHAPTERS: Final = ("review", "difficulty", "defect", "supersede", "attestation", "alias")
_CHAPTER_WEIGHTS: Final = (60, 15, 9, 6, 6, 4)


class Event(NamedTuple):
    id: str
    type: str
    stream: str
    tags: tuple[str, ...]
    payload: Payload

    @property
    def body(self) -> bytes:
        return json.dumps(self.payload, separators=(",", ":"), ensure_ascii=False).encode()


def history(events: int) -> Iterator[Event]:
    """The first so many events of the history that is planned for so many."""
    return islice(_Teller(events).tell(), events)


def version() -> str:
    """A name of what `history` gives: another one when the text of these modules is another."""
    files = (__file__, payloads.__file__, review_payloads.__file__)
    return sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()


def source_count(events: int) -> int:
    """A longer history has more sources, and more to say of each: 500 at 10 k events, 5,000 at 1 M."""
    return max(4, round(5 * math.sqrt(events)))


class _Teller:
    def __init__(self, events: int) -> None:
        self._random = Random(events)  # the same history every time is the point
        self._planned = events
        self._told = 0
        self._collections = 0
        self._sources = [_source(i) for i in range(source_count(events))]
        self._synced: dict[str, str] = {}
        self._protocol = FIRST_PROTOCOL
        self._adoptions = [events * (i + 1) // (len(PROTOCOLS) + 1) for i in range(len(PROTOCOLS))]
        self._refreshes = [events * (i + 1) // (REFRESHES + 1) for i in range(REFRESHES)]
        self._published: dict[str, str] = {}
        self._open: deque[tuple[int, str, str]] = deque()
        self._most_open = max(1, round(len(self._sources) * OPEN_DEFECTS))

    def tell(self) -> Iterator[Event]:
        """Without an end."""
        for origin in dict.fromkeys(ORIGINS):
            yield from self._refresh(origin, "source.declared", 1.0)
        while True:
            if self._adoptions and self._told >= self._adoptions[0]:
                yield from self._adopt(PROTOCOLS[len(PROTOCOLS) - len(self._adoptions)])
                self._adoptions.pop(0)
            if self._refreshes and self._told >= self._refreshes[0]:
                self._refreshes.pop(0)
                for origin in dict.fromkeys(ORIGINS):
                    yield from self._refresh(origin, "source.revised", REVISED)
            yield from self._chapter()

    def _chapter(self) -> Iterator[Event]:
        source = self._random.choice(self._sources)
        match self._random.choices(_CHAPTERS, _CHAPTER_WEIGHTS)[0]:
            case "review":
                yield from self._review(source, *self._random.choices(PLANS, _WEIGHTS)[0])
            case "difficulty":
                yield self._of(source, "difficulty.reported", payloads.difficulty(source, self._protocol, self._told))
            case "defect":
                yield from self._fix() if len(self._open) >= self._most_open else self._defect(source)
            case "supersede":
                yield from self._supersede(source)
            case "attestation":
                yield self._of(source, "attestation.recorded", payloads.attestation(source, self._told))
            case _:
                name = f"card-{self._told:08d}"
                yield self._event("alias.mapped", f"alias/{name}", payloads.alias(name, source))

    def _refresh(self, origin: str, type_: str, share: float) -> Iterator[Event]:
        collection = self._collection("refresh")
        mine = [i for i, source in enumerate(self._sources) if source.origin == origin]
        chosen = sorted(self._random.sample(mine, max(1, round(len(mine) * share)))) if mine else []
        ids = []
        for i in chosen:
            if type_ == "source.revised":
                self._sources[i] = _revised(self._sources[i], self._told)
            said = {"collection": collection, "row": payloads.row(self._sources[i], i)}
            part = self._of(self._sources[i], type_, said)
            ids.append(part.id)
            yield part
        before = self._synced.get(origin)
        said = payloads.synced(collection, origin, _parts(ids), replaces=before, rows=len(mine))
        closing = self._event("catalogue.synced", f"origin/{origin}", said)
        self._synced[origin] = closing.id
        yield closing

    def _adopt(self, protocol: str) -> Iterator[Event]:
        defined = self._event("protocol.defined", "policy/protocols", payloads.protocol_defined(protocol))
        yield defined
        said = {"protocol": protocol, "definition": defined.id, "replaces": self._protocol}
        yield self._event("protocol.adopted", "policy/protocols", said)
        self._protocol = protocol

    def _review(
        self, source: Source, verdict: str, judged: str, severity: str | None, fixes: str | None = None
    ) -> Iterator[Event]:
        review = Review(self._collection("review"), source, self._told)
        ids = []
        for type_, said in self._review_parts(review, verdict, judged, severity):
            if fixes is not None and type_ == "judgment.recorded":
                said["attributes"] = review_payloads.fix_claim(review, fixes)
            part = self._of(source, type_, said)
            ids.append(part.id)
            yield part
        self._published[source.id] = review.collection
        yield self._of(source, "review.published", review_payloads.published(review, _parts(ids)))

    def _review_parts(
        self, review: Review, verdict: str, judged: str, severity: str | None
    ) -> Iterator[tuple[str, Payload]]:
        for task in range(TASKS):
            yield "observation.recorded", review_payloads.observation(review, task)
            for judge in range(1, JUDGES + 1):
                yield "judgment.recorded", review_payloads.judgment(review, task, judge, judged, severity)
            yield "synthesis.recorded", review_payloads.synthesis(review, task, verdict, severity)
        yield "synthesis.recorded", review_payloads.synthesis(review, None, verdict, severity)
        if review.number % 3 == 0:
            yield "tag.assigned", review_payloads.tag(review)

    def _supersede(self, source: Source) -> Iterator[Event]:
        """A newer review, and the one before it no longer speaks."""
        before = self._published.get(source.id)
        yield from self._review(source, *PLANS[0])
        if before is not None:
            said = review_payloads.superseded(before, self._published[source.id])
            yield self._of(source, "review.superseded", said)

    def _defect(self, source: Source) -> Iterator[Event]:
        defect, issue = f"defect-{self._told:08d}", f"https://github.com/example/atlas/issues/{self._told}"
        yield self._of(source, "defect.suspected", payloads.suspected(defect, self._told))
        yield self._of(source, "defect.confirmed", payloads.confirmed(defect, issue, source, self._told))
        self._open.append((self._sources.index(source), defect, issue))

    def _fix(self) -> Iterator[Event]:
        """The oldest open defect is validated as fixed, at the present revisions, and resolved."""
        number, defect, issue = self._open.popleft()
        source = self._sources[number]
        validated = self._of(source, "defect.validation_recorded", payloads.validation(defect, source))
        yield validated
        yield from self._review(source, *PLANS[0], fixes=issue)
        said = payloads.resolved(defect, validated.id, self._published[source.id])
        yield self._of(source, "defect.resolved", said)

    def _collection(self, kind: str) -> str:
        self._collections += 1
        return f"{kind}-{self._collections:010d}"

    def _of(self, source: Source, type_: str, said: Payload) -> Event:
        return self._event(type_, f"source/{source.id}", said)

    def _event(self, type_: str, stream: str, said: Payload) -> Event:
        """The next event. What names a collection is tagged with it."""
        self._told += 1
        tags = (f"collection:{said['collection']}",) if "collection" in said else ()
        return Event(f"0193a5c0-0000-7000-8000-{self._told:012x}", type_, stream, tags, said)


def _source(number: int) -> Source:
    origin = ORIGINS[number % len(ORIGINS)]
    name = f"{origin}:example__source-{number:05d}"
    return Source(name, origin, payloads.digest(f"{name} data")[:40], payloads.digest(f"{name} verifier")[:40])


def _revised(source: Source, number: int) -> Source:
    return source._replace(data=payloads.digest(f"{source.id} {number}")[:40])


def _parts(ids: list[str]) -> Payload:
    found = sha256("".join(f"{i}\n" for i in sorted(ids)).encode("ascii")).hexdigest()
    return {"count": len(ids), "digest": found, **({"ids": ids} if len(ids) <= NAMED_PARTS else {})}
