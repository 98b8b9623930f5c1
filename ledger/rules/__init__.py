"""Rules: pure functions from events to what is shown. No I/O, no clock, no randomness.

A rule set is a package of its own, self-contained and frozen: what it needs is copied into it, so that nothing shared
can change under it. Two steps: `fold` gathers what the events of one source say (its facts); `show` derives what is
shown from the facts and the environment (catalogue refreshes and policy), with the reason for each value. Events are
folded in log order. `decide` judges a decision before it is recorded, against the same facts.

Every value that a set keeps can be written to bytes and read back to an equal value, so that a fold can resume.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from pydantic import BaseModel

from ledger.core.errors import Problem

Facts = TypeVar("Facts")
Environment = TypeVar("Environment")
State = dict[str, Any]
"""What is shown of one source: the fields of `Source` in audit.proto, None where it is unknown."""


@dataclass(frozen=True, slots=True)
class RuleEvent:
    """An event as a rule sees it: the parsed payload and the few header fields that rules may use."""

    pos: int
    id: str
    type: str
    stream: str
    payload: BaseModel
    """The newest version's model, upcast if need be."""
    sample: bool = False
    """The header carries the tag `sample`: made up for a demonstration."""
    actor: str = ""
    principal: str | None = None


class _Everything:
    """Every key there is."""


EVERYTHING: Final = _Everything()
Touched = frozenset[str] | _Everything


class RuleSet(Protocol, Generic[Facts, Environment]):
    """What a projection and the server ask of a rule set."""

    id: str

    environment_types: frozenset[str]
    """Types that `fold_environment` takes; catalogue parts are both these and facts of their source."""

    def initial_environment(self) -> Environment: ...

    def fold_environment(self, environment: Environment, event: RuleEvent) -> Environment:
        """The environment after one more event. Events of other types change nothing."""

    def touched(self, environment: Environment, event: RuleEvent) -> Touched:
        """The keys whose `show` may differ after the event; `environment` is the one before it."""

    def initial_facts(self) -> Facts: ...

    def fold(self, facts: Facts, event: RuleEvent) -> Facts:
        """The facts after one more event of the source's own stream."""

    def show(self, source_id: str, facts: Facts, environment: Environment) -> State | None:
        """What is shown; None while the source is not in the catalogue."""

    def decide(self, event: RuleEvent, facts: Facts, environment: Environment) -> tuple[Problem, ...]:
        """Every reason against a decision, none if it may be recorded.

        `facts` are those of the stream that the event goes to, with the earlier events of the request folded in.
        """

    def encode_facts(self, facts: Facts) -> bytes: ...

    def decode_facts(self, data: bytes) -> Facts: ...

    def encode_environment(self, environment: Environment) -> bytes: ...

    def decode_environment(self, data: bytes) -> Environment: ...


def source_of(stream: str) -> str | None:
    """The source id that a stream belongs to, or None."""
    kind, _, rest = stream.partition("/")
    return rest if kind == "source" and rest else None
