"""What a card says of claims: benchmark results or their absence, other claims against the record, flags.

Also how complete the record is, by what its recorders say of themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.client.cards.export import verification_claims
from ledger.client.cards.record import Record
from ledger.client.cards.rollouts import quoted
from ledger.client.cards.text import (
    Missing,
    Parts,
    Said,
    cell,
    code,
    known,
    listed,
    number,
    prose,
    row,
    said,
    table,
)
from ledger.wire import runs_pb2

_BENCHMARK: Final = "benchmark"
_EVALUATED: Final = ("Evaluated in training, which is no benchmark", "After step", "Attempt", "Metrics")
_STANDING: Final = {
    "agrees": "this agrees with what is recorded or derived",
    "contradicts": "this contradicts what is recorded or derived",
    "not_checkable": "nothing recorded bears on it",
}


def evaluation(record: Record) -> Parts:
    """Benchmark claims, or that there are none; and what was measured in training, which is no benchmark."""
    about = benchmarks(record)
    results = [claim for claim in about if not claim.claim.absent]
    if not results:
        yield record.derived("No benchmark result is recorded")
    for claim in about:
        what = (
            "That no benchmark result is claimed is itself said"
            if claim.claim.absent
            else "A benchmark result is claimed"
        )
        yield said(f"{what}: {quoted(claim.claim.statement)}{_value(claim)}", claim.pos)
    yield from table(_EVALUATED, map(_evaluated, record.run.evaluations))


def benchmarks(record: Record) -> list[runs_pb2.Claim]:
    """Claims of benchmark results, and of their absence."""
    return [claim for claim in _claims(record) if claim.claim.topic.startswith(_BENCHMARK)]


def _evaluated(state: runs_pb2.EvaluationState) -> Said:
    found = state.evaluation
    metrics = [f"{cell(key)} {number(found.metrics[key])}" for key in sorted(found.metrics)]
    told = listed(metrics) if metrics else "none named"
    return row([cell(found.data_source), f"{state.step:,}", f"{state.attempt}", told], state.pos)


def claims(record: Record) -> Parts:
    """All that is claimed otherwise, each with how it stands to the record, and told nowhere else."""
    told = {claim.pos for export in record.exports for claim in verification_claims(export)}
    for claim in _claims(record):
        if claim.pos not in told and not claim.claim.topic.startswith(_BENCHMARK):
            yield _claimed(claim)


def _claimed(claim: runs_pb2.Claim) -> Said:
    topic, statement = code(claim.claim.topic), quoted(claim.claim.statement)
    if claim.claim.absent:
        return said(f"Nothing is claimed of {topic}: {statement}", claim.pos)
    against = known(claim, "against")
    compared = f": {prose(against)}" if against is not None else ""
    stands = f"; {_STANDING[claim.standing]}{compared}" if claim.standing in _STANDING else ""
    return said(f"Of {topic} it is claimed: {statement}{_value(claim)}{stands}", claim.pos)


def _claims(record: Record) -> Iterator[runs_pb2.Claim]:
    """Of the run, of the exports that the card is of, and of the campaign."""
    yield from record.run.claims
    for export in record.exports:
        yield from export.claims
    yield from record.dossier.campaign.claims


def _value(claim: runs_pb2.Claim) -> str:
    unit = f" {code(claim.claim.unit)}" if known(claim.claim, "unit") else ""
    return f", as a number {number(claim.claim.number)}{unit}" if claim.claim.HasField("number") else ""


def flags(record: Record) -> Parts:
    found = [*record.run.flags, *(f for e in record.exports for f in e.flags), *record.dossier.campaign.flags]
    for flag in found:
        yield record.derived(f"Flagged as {code(flag.code)}: {prose(flag.message)}", *flag.positions)
    if not found:
        yield record.derived("No contradiction between recorded facts is flagged")


def completeness(record: Record) -> Parts:
    found = record.run.completeness
    behind = record.reports
    if found.verdict == "complete":
        yield record.derived("Everything that its recorders were given is recorded", *behind)
    elif found.verdict == "complete_except":
        yield record.derived("What its recorders were given is recorded, with exceptions that are known", *behind)
    elif not found.exceptions:
        yield Missing("whether the record of the run is complete")
    told = "Of completeness" if found.verdict == "complete_except" else "Whether the record is complete is not known"
    for exception in found.exceptions:
        yield record.derived(f"{told}: {prose(exception)}", *behind)
    for producer in found.producers:
        if producer.dropped or producer.refused:
            yield record.derived(
                f"The recorder {code(producer.producer)} dropped {producer.dropped:,} events and had "
                f"{producer.refused:,} refused in its epoch {producer.epoch}",
                *behind,
            )
