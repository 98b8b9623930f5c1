"""The rule set as one object: the protocol `RuleSet` over this package's functions."""

from __future__ import annotations

import msgspec

from ledger.core.errors import Problem
from ledger.rules import RuleEvent, State, Touched
from ledger.rules.ledger_1 import environment as environments
from ledger.rules.ledger_1.decide import decide
from ledger.rules.ledger_1.environment import ENVIRONMENT_TYPES, Environment
from ledger.rules.ledger_1.fold import fold
from ledger.rules.ledger_1.model import Facts
from ledger.rules.ledger_1.show import show, shown_from

_facts = msgspec.json.Decoder(Facts)
_environment = msgspec.json.Decoder(Environment)


class Ledger1:
    """Stateless; safe to share between threads."""

    id: str = "ledger-1"
    environment_types: frozenset[str] = ENVIRONMENT_TYPES

    def initial_environment(self) -> Environment:
        return Environment()

    def fold_environment(self, environment: Environment, event: RuleEvent) -> Environment:
        return environments.fold_environment(environment, event)

    def touched(self, environment: Environment, event: RuleEvent) -> Touched:
        return environments.touched(environment, event)

    def initial_facts(self) -> Facts:
        return Facts()

    fold = staticmethod(fold)
    """The function itself: it runs once an event, where a call more would be felt."""

    def shows_alike(self, before: Facts, after: Facts) -> bool:
        """Whether nothing between these facts can change what is shown, as parts of unpublished reviews cannot."""
        return before.settled is after.settled

    def shown_from(self, source_id: str, facts: Facts, environment: Environment) -> tuple[object, ...]:
        """The values that `show` reads: while each is the very object that it was, it shows what it showed."""
        return shown_from(source_id, facts.settled, environment)

    def show(self, source_id: str, facts: Facts, environment: Environment) -> State | None:
        return show(source_id, facts.settled, environment)

    def decide(self, event: RuleEvent, facts: Facts, environment: Environment) -> tuple[Problem, ...]:
        return decide(event, facts, environment)

    def encode_facts(self, facts: Facts) -> bytes:
        return msgspec.json.encode(facts)

    def decode_facts(self, data: bytes) -> Facts:
        return _facts.decode(data)

    def encode_environment(self, environment: Environment) -> bytes:
        return msgspec.json.encode(environment)

    def decode_environment(self, data: bytes) -> Environment:
        return _environment.decode(data)
