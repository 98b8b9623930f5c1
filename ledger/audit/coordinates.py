"""Coordinates: where a question stands, and where its answer stood.

- `at` is a size N (the first N events) or a recorded time T (N = the events recorded at or before T).
- The rules are those in force at N (the last promotion before N), those in force at the head ("now"), or a set that is
  named.
- The policy is what the policy streams say among the first P events, P >= N; as it was at N unless more is asked.

So *then* is (N, in force at N, policy at N), *now about then* is (N, in force now, policy at the head), and *under R*
is (N, R, policy at N). Every answer echoes its coordinates; asked again with them it is the same.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ledger.core.errors import InvalidInput, LedgerError, NotFound, Unavailable
from ledger.events import REGISTRY
from ledger.log.log import Log
from ledger.log.model import Filter, Head
from ledger.projections.disregards import DISREGARDED
from ledger.projections.generations import GenerationRow, Generations
from ledger.projections.promotions import PROMOTED, Promotion, promotion_of
from ledger.rules import RuleSet
from ledger.rules.sets import RULE_SETS, rules_digest

NOW: Final = "now"
"""Asked as rules: those in force at the head, whatever was in force at the size."""

_MOVES_POLICY: Final = (*sorted({t.type for t in REGISTRY if t.family == "policy"}), DISREGARDED)


@dataclass(frozen=True, slots=True)
class At:
    """A question's coordinates. Without size and time: now."""

    size: int | None = None
    recorded_at_us: int | None = None
    rules: str = ""
    min_size: int = 0
    policy_size: int | None = None
    """None: as it was at the size."""
    policy_at_head: bool = False
    final: bool = True
    """Of a size: false where a page goes on with an answer that was not final."""


@dataclass(frozen=True, slots=True)
class Moment:
    """An answer's coordinates."""

    size: int
    recorded_at_us: int | None
    final: bool
    rules: str
    """Empty while no rules are in force: then nothing is shown."""
    rules_digest: str
    redactions_through: int
    policy_size: int
    generation: GenerationRow | None
    """Whose rows answer; None where the log itself is folded, or no rules are in force."""
    policy_moved: bool = False
    """The policy may be another than it was at the size."""

    @property
    def is_folded(self) -> bool:
        """Whether the log itself has to be folded for the answer."""
        return bool(self.rules) and self.generation is None

    @property
    def key(self) -> tuple[int, str, int, int]:
        """Equal keys, equal answers."""
        return (self.size, self.rules_digest, self.policy_size, self.redactions_through)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a question stands in the log as it is now; size None: wherever the projection stands."""

    size: int | None
    final: bool


class Clockwork:
    """Turns questions' coordinates into answers'. Safe to use from many threads."""

    def __init__(
        self, log: Log, generations: Generations, rule_sets: Mapping[str, RuleSet[Any, Any]] = RULE_SETS
    ) -> None:
        self._log = log
        self._generations = generations
        self._rule_sets = rule_sets
        self._reading = threading.Lock()
        self._promotions: list[Promotion] = []  # this and the next two are guarded by _reading
        self._redactions_through = 0
        self._read_to = 0

    def moment(self, at: At) -> Moment:
        """Where an answer stands, if the projection has come so far; else it is told that a reader waits.

        Raises:
            InvalidInput: a policy of fewer events than the size, or of more than the log has.
            NotFound: a size beyond the log's, or rules that this release does not carry.
            Unavailable: reason BEHIND when the projection has not come so far.
        """
        self._check_rules(at.rules)
        # The head is read before anything else: what is recorded in between can then only make an answer less final.
        head = self._log.head()
        now = self._now(head)
        watermark = now.size if now else 0
        place = self._place(at, head)
        needed = max(place.size or 0, at.min_size)
        if watermark < needed:
            self._log.growth.want()
            raise _behind(watermark, needed, head.size)
        size = watermark if place.size is None else place.size
        if size > head.size:  # the log has grown, and the policy must be known as far as the answer goes
            head = self._log.head()
        return self._moment(at, size, now, head, final=place.final)

    def _check_rules(self, rules: str) -> None:
        if rules and rules != NOW and rules not in self._rule_sets:
            raise NotFound(
                f"this release carries no rule set {rules!r}",
                remedy=f'Ask for one of {", ".join(sorted(self._rule_sets))}, or for "now".',
                details={"rules": rules},
            )

    def _now(self, head: Head) -> GenerationRow | None:
        """The generation of the rules in force, whose size is "now"; right after a promotion it may be another's."""
        promotion, _ = self._policy_at(None, head)
        row = self._generations.answering(promotion.identity.rules_digest) if promotion else None
        return row or self._generations.live()

    def _place(self, at: At, head: Head) -> _Place:
        settled = at.final and at.rules != NOW and not at.policy_at_head
        if at.size is not None:
            if at.size > max(head.size, at.min_size):
                raise NotFound(
                    f"the log holds {head.size} events, not {at.size}",
                    remedy="Ask for a size that the log has reached, or wait for more with min_size (--min-size).",
                    details={"size": str(head.size)},
                )
            return _Place(at.size, final=settled)
        if at.recorded_at_us is not None:
            size = self._log.size_at(at.recorded_at_us)
            return _Place(size, final=settled and at.recorded_at_us <= head.recorded_at_us)
        return _Place(None, final=False)

    def _moment(self, at: At, size: int, now: GenerationRow | None, head: Head, *, final: bool) -> Moment:
        promotion, redactions_through = self._policy_at(None if at.rules == NOW else size, head)
        rules, digest = (promotion.identity.rules, promotion.identity.rules_digest) if promotion else ("", "")
        if at.rules and at.rules != NOW:
            rules, digest = at.rules, rules_digest(at.rules)
        policy_size = _policy_size(at, size, head.size)
        moved = self._policy_moves(size, policy_size)
        return Moment(
            size=size,
            recorded_at_us=self._recorded_at(size, head),
            final=final,
            rules=rules,
            rules_digest=digest,
            redactions_through=redactions_through,
            policy_size=policy_size,
            generation=self._answering(rules, digest, size, now, moved=moved) if rules else None,
            policy_moved=moved,
        )

    def _recorded_at(self, size: int, head: Head) -> int | None:
        """When the last event among the first `size` was recorded."""
        if size == head.size:
            return head.recorded_at_us if size else None
        return self._log.store.recorded_at(size - 1) if size else None

    def _answering(
        self, rules: str, digest: str, size: int, now: GenerationRow | None, *, moved: bool
    ) -> GenerationRow | None:
        """The generation whose rows say what these coordinates ask; None: the log has to be folded."""
        known = now is not None and now.identity.rules_digest == digest
        row = now if known else self._generations.answering(digest)
        if row is not None and row.size >= size and not moved:
            return row
        if rules not in self._rule_sets or rules_digest(rules) != digest:
            raise NotFound(
                f"the rules {rules!r} that were in force there have other definitions than this release's",
                remedy="Ask under a rule set that this release carries, or use the release that promoted them.",
                details={"rules": rules, "rules_digest": digest},
            )
        return None

    def _policy_moves(self, size: int, policy_size: int) -> bool:
        """Whether the policy of the first `policy_size` events may be another than that of the first `size`."""
        match = Filter(types=_MOVES_POLICY)
        return policy_size > size and bool(
            self._log.store.read(size, policy_size, match=match, limit=1, payloads=False)
        )

    def _policy_at(self, size: int | None, head: Head) -> tuple[Promotion | None, int]:
        """The promotion in force at a size (None: at the head), and how far redactions are honoured."""
        with self._reading:
            self._read_policy(head.size)
            in_force = next((p for p in reversed(self._promotions) if size is None or p.pos < size), None)
            return in_force, self._redactions_through

    def _read_policy(self, size: int) -> None:
        """What the stream `ledger` says of promotions and redactions, since the last look."""
        if size <= self._read_to:
            return
        match = Filter(streams=("ledger",), types=(PROMOTED, "event.redacted", "artifact.redacted"))
        for event in self._log.store.read_all(self._read_to, size, match=match):
            if event.type != PROMOTED:
                self._redactions_through = event.pos + 1
            elif promotion := promotion_of(event, self._log):
                self._promotions.append(promotion)
        self._read_to = size


def _policy_size(at: At, size: int, head: int) -> int:
    if at.policy_size is None and not at.policy_at_head:
        return size
    if at.policy_at_head:
        return max(head, size)
    assert at.policy_size is not None
    if not size <= at.policy_size <= max(head, size):
        raise InvalidInput(
            f"the policy of the first {at.policy_size} events, asked at size {size} of a log of {head}",
            remedy=f"Give a policy size from {size} to {head}, or ask for the policy at the head.",
            details={"policy_size": str(at.policy_size), "size": str(size), "log_size": str(head)},
        )
    return at.policy_size


def _behind(watermark: int, needed: int, log_size: int) -> LedgerError:
    if needed > log_size:
        message = f"the log holds {log_size} events, the question asks for at least {needed}"
    else:
        message = f"the projection has folded {watermark} events, the question needs {needed}"
    return Unavailable(
        message,
        reason="BEHIND",
        remedy="Ask again with a longer deadline (--timeout), or for a smaller min_size (--min-size).",
        details={"size": str(watermark), "needed": str(needed), "log_size": str(log_size)},
    )
