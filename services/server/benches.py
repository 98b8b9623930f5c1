"""The rules of one projection, judging at one size: the environment and the streams that decisions rest on.

Streams are read when they are first asked for; the version of each that was read is what a decision rests on. What a
request has brought so far counts as recorded, so that later drafts of it may rest on earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import structlog

from ledger.core.errors import Problem, Refused
from ledger.log.conditions import StreamVersion
from ledger.rules import RuleEvent, RuleSet

log = structlog.get_logger(__name__)

Read = Callable[[str], tuple[Any, int]]
"""A stream's facts and its version."""


class Bench:
    """Judges the decisions of one request that belong to one projection."""

    def __init__(
        self,
        rules: RuleSet[Any, Any],
        read_environment: Callable[[], Any],
        read_facts: Read,
        earlier: Sequence[RuleEvent] = (),
    ) -> None:
        self.rules = rules
        self._read_environment = read_environment
        self._read_facts = read_facts
        self._facts: dict[str, Any] = {}
        self._versions: dict[str, int] = {}
        self.refold(earlier)

    def against(self, event: RuleEvent, earlier: Sequence[RuleEvent]) -> tuple[Problem, ...]:
        """Every reason of the rules against a decision; `earlier` is what the request has brought before it.

        Raises:
            Refused: reason INTERNAL; the rules stumble over what they are to judge.
        """
        facts = self._facts_of(event.stream, earlier)
        try:
            return self.rules.decide(event, facts, self._environment)
        except Exception as error:
            log.exception("the rules failed to judge", rules=self.rules.id, type=event.type, stream=event.stream)
            raise Refused(
                f"the rules {self.rules.id} cannot judge {event.type} on {event.stream}: {type(error).__name__}",
                reason="INTERNAL",
                remedy="A fault of the rules: the server's log has it. Sending the decision again changes nothing.",
                details={"rules": self.rules.id},
            ) from error

    def learn(self, event: RuleEvent) -> None:
        """One more event that later drafts may rest on."""
        self._learn_of_environment(event)
        if event.stream in self._facts:
            self._facts[event.stream] = _folded(self.rules.fold, self._facts[event.stream], event)

    def refold(self, earlier: Sequence[RuleEvent]) -> None:
        """Begins again, since something counts for nothing: streams when they are next asked for."""
        self._facts.clear()
        self._environment = self._read_environment()
        for event in earlier:
            self._learn_of_environment(event)

    def rests_on(self) -> list[StreamVersion]:
        """The streams that were read, as they were."""
        return [StreamVersion(stream, version) for stream, version in self._versions.items()]

    def _learn_of_environment(self, event: RuleEvent) -> None:
        if event.type in self.rules.environment_types:
            self._environment = _folded(self.rules.fold_environment, self._environment, event)

    def _facts_of(self, stream: str, earlier: Sequence[RuleEvent]) -> Any:
        if stream not in self._facts:
            facts, self._versions[stream] = self._read_facts(stream)
            for event in earlier:
                if event.stream == stream:
                    facts = _folded(self.rules.fold, facts, event)
            self._facts[stream] = facts
        return self._facts[stream]


def _folded(fold: Callable[[Any, RuleEvent], Any], before: Any, event: RuleEvent) -> Any:
    """What is known after an event; one that the rules cannot take counts for nothing, as in the projection."""
    try:
        return fold(before, event)
    except Exception:  # noqa: BLE001  # whatever a rule trips over must not bar every decision after it
        return before
