"""Rules: pure functions from events to what is shown. No I/O, no clock, no randomness.

A rule set is a package of its own, self-contained and frozen: what it needs is copied into it, so that nothing shared
can change under it. Two steps: `fold` gathers what the events of one stream say (its facts); `show` derives what is
shown from the facts and the environment (catalogue refreshes and policy), with the reason for each value. Events are
folded in log order. A set is for sources, or for runs with exports and campaigns; a key is a source's id, or the
stream's whole name. `decide` judges a decision before it is recorded, against the same facts.

Every value that a set keeps can be written to bytes and read back to an equal value, so that a fold can resume.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

from pydantic import BaseModel

from ledger.core.errors import Problem

Facts = TypeVar("Facts")
Environment = TypeVar("Environment")
State = dict[str, Any]
"""What is shown of one key: of a source the fields of `Source` in audit.proto, None where it is unknown."""


class RuleEvent:
    """An event as a rule sees it: what it says, and the few header fields that rules may use."""

    __slots__ = (
        "_body",
        "_payload",
        "_read",
        "actor",
        "id",
        "pos",
        "principal",
        "producer",
        "sample",
        "stream",
        "type",
    )

    def __init__(
        self,
        pos: int,
        id: str,  # noqa: A002  # the header's own name
        type: str,  # noqa: A002  # as above
        stream: str,
        payload: BaseModel | None = None,
        *,
        body: bytes | None = None,
        read: Callable[[], BaseModel] | None = None,
        sample: bool = False,
        actor: str = "",
        principal: str | None = None,
        producer: tuple[str, int, int] | None = None,
    ) -> None:
        """Made of the payload's model, or of its bytes and a way to read them: a set needs only one of both."""
        self.pos = pos
        self.id = id
        self.type = type
        self.stream = stream
        self.sample = sample
        """The header carries the tag `sample`: made up for a demonstration."""
        self.actor = actor
        self.principal = principal
        self.producer = producer
        """Where the event stands in its producer's own count: id, epoch and number."""
        self._payload = payload
        self._body = body
        self._read = read

    @property
    def payload(self) -> BaseModel:
        """The newest version's model, upcast if need be. Costly: a set that reads `body` itself spares it."""
        if self._payload is None:
            assert self._read is not None
            self._payload = self._read()
        return self._payload

    @property
    def body(self) -> bytes:
        """The payload as JSON in its newest version: the stored bytes where it was recorded in that."""
        if self._body is None:
            self._body = self.payload.model_dump_json().encode()
        return self._body


class _Everything:
    """Every key there is."""


EVERYTHING: Final = _Everything()
Touched = frozenset[str] | _Everything


class RuleSet(Protocol, Generic[Facts, Environment]):
    """What a projection and the server ask of a rule set.

    A set may also spare the fold some work, without changing what it says: `shows_alike(before, after) -> bool` says
    that nothing between two facts can change what is shown, whatever the environment (as of parts that wait for the
    event that closes them), and `shown_from(source_id, facts, environment) -> tuple[object, ...]` gives the immutable
    values that `show` reads: while each is the very object that it was, the state is what it was.
    """

    id: str

    environment_types: frozenset[str]
    """Types that `fold_environment` takes; catalogue parts are both these and facts of their source. Of runs: none."""

    def initial_environment(self) -> Environment: ...

    def fold_environment(self, environment: Environment, event: RuleEvent) -> Environment:
        """The environment after one more event. Events of other types change nothing."""

    def touched(self, environment: Environment, event: RuleEvent) -> Touched:
        """The keys whose `show` may differ after the event; `environment` is the one before it."""

    def initial_facts(self) -> Facts: ...

    def fold(self, facts: Facts, event: RuleEvent) -> Facts:
        """The facts after one more event of the key's own stream."""

    def show(self, source_id: str, facts: Facts, environment: Environment) -> State | None:
        """What is shown of a key; None while nothing is, as of a source that is not in the catalogue."""

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
