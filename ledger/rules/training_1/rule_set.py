"""The rule set as one object: the protocol `RuleSet` over this package's functions, and the dossier of one stream."""

from __future__ import annotations

from typing import Any

import msgspec

from ledger.core.errors import Problem
from ledger.rules import RuleEvent, State, Touched
from ledger.rules.training_1.completeness import verdict
from ledger.rules.training_1.decide import decide
from ledger.rules.training_1.dossier import dossier
from ledger.rules.training_1.fold import fold
from ledger.rules.training_1.model import Facts
from ledger.rules.training_1.show import show
from ledger.rules.training_1.values import Value

_facts = msgspec.msgpack.Decoder(Facts)


class Nothing(Value, frozen=True):
    """The environment: no event outside its own stream bears on a run."""


_NOTHING = Nothing()


class Training1:
    """Stateless; safe to share between threads."""

    id: str = "training-1"
    environment_types: frozenset[str] = frozenset()

    def initial_environment(self) -> Nothing:
        return _NOTHING

    def fold_environment(self, environment: Nothing, event: RuleEvent) -> Nothing:  # noqa: ARG002  # as the protocol has it
        return environment

    def touched(self, environment: Nothing, event: RuleEvent) -> Touched:  # noqa: ARG002  # as the protocol has it
        return frozenset()

    def initial_facts(self) -> Facts:
        return Facts()

    fold = staticmethod(fold)
    """The function itself: it runs once an event, where a call more would be felt."""

    def shows_alike(self, before: Facts, after: Facts) -> bool:
        """Whether nothing between these facts can change what is shown, as what is only counted seldom can."""
        if before.run is not after.run or before.export is not after.export or before.campaign is not after.campaign:
            return False
        if (before.first_pos, before.last_pos, before.sample) != (after.first_pos, after.last_pos, after.sample):
            return False
        return before.epochs is after.epochs or _complete(before) == _complete(after)

    def show(self, key: str, facts: Facts, environment: Nothing) -> State | None:  # noqa: ARG002  # as the protocol has it
        return show(key, facts)

    def dossier(self, stream: str, facts: Facts) -> dict[str, Any]:
        """All that is known and derived of a run, an export or a campaign: the fields of its message in runs.proto."""
        return dossier(stream, facts)

    def decide(self, event: RuleEvent, facts: Facts, environment: Nothing) -> tuple[Problem, ...]:  # noqa: ARG002  # as the protocol has it
        return decide(event, facts)

    def encode_facts(self, facts: Facts) -> bytes:
        return msgspec.msgpack.encode(facts)

    def decode_facts(self, data: bytes) -> Facts:
        return _facts.decode(data)

    def encode_environment(self, environment: Nothing) -> bytes:  # noqa: ARG002  # there is only one
        return b""

    def decode_environment(self, data: bytes) -> Nothing:  # noqa: ARG002  # as above
        return _NOTHING


def _complete(facts: Facts) -> str:
    return verdict(facts.epochs, facts.uncounted).verdict
