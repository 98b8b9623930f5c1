"""Which definitions and adoptions of protocols are refused.

A protocol's id never gets another definition. An adopted protocol's place is taken by another that names it; a branch,
for some sources or for verifiers that ask a judge, may stand beside the others.
"""

from __future__ import annotations

from collections.abc import Iterator

from ledger.core.errors import Problem
from ledger.rules.ledger_1.environment import Definition, Environment, terms_of
from ledger.rules.ledger_1.environment_reading import ProtocolAdopted, ProtocolDefined
from ledger.rules.ledger_1.reasons import listed


def against_definition(said: ProtocolDefined, environment: Environment) -> Iterator[Problem]:
    known = environment.protocols.get(said.protocol)
    if known is not None and known.terms != terms_of(said):
        yield Problem("/protocol", f"{said.protocol!r} is defined otherwise by {known.event}; give it a new id")


def against_adoption(said: ProtocolAdopted, environment: Environment) -> Iterator[Problem]:
    known = environment.protocols.get(said.protocol)
    if known is None:
        yield Problem("/protocol", f"{said.protocol!r} is not defined; define it first")
    elif said.definition != known.event:
        yield Problem("/definition", f"{said.protocol!r} is defined by {known.event}, not by {said.definition}")
    if said.protocol in environment.adopted:
        yield Problem("/protocol", f"{said.protocol!r} is adopted already; nothing would change")
    yield from _against_place(said, known, environment)


def _against_place(said: ProtocolAdopted, known: Definition | None, environment: Environment) -> Iterator[Problem]:
    adopted = list(environment.adopted)
    now = listed(adopted) if adopted else "none"
    if said.replaces is not None and said.replaces not in adopted:
        yield Problem("/replaces", f"{said.replaces!r} is not adopted, so its place cannot be taken; adopted: {now}")
    if said.replaces is None and adopted and not (known and known.terms.is_branch):
        yield Problem(
            "/replaces",
            f"{said.protocol!r} is for every source, so it must replace an adopted protocol; adopted: {now}. Only one "
            "with `sources` or a `judge` may stand beside them",
        )
