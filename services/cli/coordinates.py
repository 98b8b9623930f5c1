"""Where a reading command stands: moment, rules and policy, as they are typed, asked for and echoed.

Equal coordinates give equal answers, so that whoever reads one can ask again for the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ledger.client.reader import MAX_SIZE, parse_at
from ledger.core.errors import InvalidInput
from ledger.core.text import harmless
from ledger.wire import audit_pb2
from services.cli import words
from services.cli.state import Ledger

NOW: Final = "now"
HEAD: Final = "head"


@dataclass(frozen=True)
class Where:
    """What was asked for; what is None or empty is left to the ledger."""

    at: str | None = None
    rules: str = ""
    policy: str | None = None
    min_size: int | None = None

    @property
    def is_now(self) -> bool:
        return self.at in (None, NOW)

    def coordinates(self, ledger: Ledger) -> audit_pb2.Coordinates:
        """As the wire has them; a question about now waits for what the log holds at this moment.

        Raises:
            InvalidInput: reason USAGE.
        """
        at = None if self.is_now else self.at
        made = audit_pb2.Coordinates() if at is None else parse_at(at)
        made.rules = self.rules
        made.min_size = ledger.size_to_wait_for(at, self.min_size)
        if self.policy == HEAD:
            made.policy_at_head = True
        elif self.policy is not None:
            made.policy_size = _size(self.policy)
        return made


def standing(answer: audit_pb2.AnswerCoordinates, at: str | None) -> str:
    """Where an answer stands, in one line; `at` is the moment that was asked for."""
    recorded = words.moment(answer.recorded_at_us if answer.HasField("recorded_at_us") else None)
    parts = [
        f"As of size {answer.size:,}",
        f"recorded {recorded}",
        f"rules {answer.rules}" if answer.rules else "no rules in force yet",
    ]
    if answer.policy_size > answer.size:
        parts.append(f"policy of size {answer.policy_size:,}")
    still_open = not answer.final and at not in (None, NOW)
    ending = "; that moment is not past, so the answer may still change" if still_open else ""
    return harmless(", ".join(parts) + ending)


def stamp(answer: audit_pb2.AnswerCoordinates, prefix: str = "ledger") -> dict[str, Any]:
    """What every exported row says of where it was read: enough to read it again."""
    return {
        f"{prefix}_size": answer.size,
        f"{prefix}_rules": answer.rules or None,
        f"{prefix}_policy_size": answer.policy_size,
    }


def _size(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= MAX_SIZE):
        raise InvalidInput(
            f"{text[:60]!r} is no policy: the policy is that of a size",
            reason="USAGE",
            remedy="Give --policy a size such as 1204, or head for the newest policy.",
        )
    return int(text)
