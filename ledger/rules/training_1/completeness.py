"""Whether everything that was recorded of a run is here: complete, complete except for what is named, or unknown.

Events bear their producer's count; a report says up to where an epoch counted, and what of it was not kept. Complete
is said only where every epoch is reported, its numbers are all there, and the last one was closed. Where numbers are
missing, or a report says what was dropped or refused, the exceptions say so. Where nobody counted, or the last epoch
has no report yet, nobody can say what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from ledger.rules.training_1.counting import missing, size
from ledger.rules.training_1.model import Epoch, Facts
from ledger.rules.training_1.values import Value, plural

COMPLETE: Final = "complete"
COMPLETE_EXCEPT: Final = "complete_except"
UNKNOWN: Final = "unknown"

MOST_RANGES: Final = 20
"""Ranges that an exception spells out."""


class Verdict(Value, frozen=True):
    verdict: str
    exceptions: tuple[str, ...]


def verdict(epochs: tuple[Epoch, ...], uncounted: int) -> Verdict:
    """Of what is known of producers' counts, and of events with steps that bear none."""
    counted = [epoch for epoch in epochs if epoch.ranges]
    if not counted:
        return Verdict(UNKNOWN, ("no event bears a producer's count",))
    unknown: list[str] = []
    exceptions: list[str] = []
    by_producer: dict[str, list[Epoch]] = {}
    for epoch in epochs:
        by_producer.setdefault(epoch.producer, []).append(epoch)
    for known in by_producer.values():
        _judge(sorted(known, key=_number), unknown, exceptions)
    if uncounted:
        exceptions.append(f"no producer's count on {plural(uncounted, 'event')} with steps")
    if unknown:
        return Verdict(UNKNOWN, (*unknown, *exceptions))
    return Verdict(COMPLETE_EXCEPT if exceptions else COMPLETE, tuple(exceptions))


def _judge(epochs: list[Epoch], unknown: list[str], exceptions: list[str]) -> None:
    """One producer: whole epochs that nobody saw, and what each epoch lacks."""
    if epochs[-1].epoch > 1:
        absent = _absent({epoch.epoch for epoch in epochs})
        exceptions.extend(f"nothing was seen of epoch {number} of {epochs[0].producer}" for number in absent)
    for epoch in epochs:
        where = f"epoch {epoch.epoch} of {epoch.producer}"
        if epoch.report is not None:
            exceptions.extend(_lacks(epoch, where))
            continue
        holes = missing(epoch.ranges, _highest(epoch))
        if holes:
            exceptions.append(f"{where} lacks {_numbers(holes)}")
        ending = "it may still be recording" if epoch is epochs[-1] else "nobody counted what it left"
        unknown.append(f"{where} has no report: {ending}")
    last = epochs[-1].report
    if last is not None and not last.closed:
        exceptions.append(
            f"epoch {epochs[-1].epoch} of {epochs[-1].producer} was not closed: it was counted afterwards"
        )


def _absent(seen: set[int]) -> Iterator[int]:
    """Epochs between the first and the highest that left no trace; a wild number names only the first few."""
    absent = (number for number in range(1, max(seen)) if number not in seen)
    for _, number in zip(range(MOST_RANGES), absent, strict=False):
        yield number


def _lacks(epoch: Epoch, where: str) -> Iterator[str]:
    report = epoch.report
    assert report is not None  # asked of reported epochs
    holes = missing(epoch.ranges, report.last_seq)
    lost = size(holes)
    # What was refused may have been sent again since; then it is not missing.
    refused = max(min(report.refused, lost - report.dropped), 0)
    if report.dropped:
        steps = f", of steps {_ranges((r.first, r.last) for r in report.dropped_steps)}" if report.dropped_steps else ""
        yield f"{where} dropped {plural(report.dropped, 'event')}{steps}"
    if refused:
        yield f"{where} had {plural(refused, 'event')} refused"
    if lost > report.dropped + refused:
        said = f", {report.dropped + refused} of them reported" if report.dropped + refused else ""
        yield f"{where} lacks {_numbers(holes)}{said}"
    elif lost < report.dropped:
        yield f"{where} reports {plural(report.dropped, 'event')} dropped, and {lost} are missing by number"
    if _highest(epoch) > report.last_seq + 1:
        # The report itself bears the number after the last one that it counts.
        yield f"{where} goes on to {_highest(epoch)}, and its report counts up to {report.last_seq}"
    if report.unreadable_bytes:
        yield f"{where} left {plural(report.unreadable_bytes, 'byte')} that could not be read"
    if report.malformed_lines:
        yield f"{where} could not read {plural(report.malformed_lines, 'line')} of its log"


def written(facts: Facts) -> dict[str, Any]:
    """As `Completeness` in runs.proto."""
    found = verdict(facts.epochs, facts.uncounted)
    epochs = sorted(facts.epochs, key=lambda epoch: (epoch.producer, epoch.epoch))
    return {
        "verdict": found.verdict,
        "exceptions": list(found.exceptions),
        "producers": [_producer(epoch) for epoch in epochs],
    }


def _producer(epoch: Epoch) -> dict[str, Any]:
    report = epoch.report
    last = report.last_seq if report is not None else _highest(epoch)
    state: dict[str, Any] = {
        "producer": epoch.producer,
        "epoch": epoch.epoch,
        "seen": size(epoch.ranges),
        "highest_seq": _highest(epoch),
        "missing": _written_ranges(missing(epoch.ranges, last)),
    }
    if report is not None:
        state |= {
            "reported_last_seq": report.last_seq,
            "closed": report.closed,
            "dropped": report.dropped,
            "refused": report.refused,
            "dropped_steps": _written_ranges((r.first, r.last) for r in report.dropped_steps),
        }
    return state


def _written_ranges(ranges: Iterable[tuple[int, int]]) -> list[dict[str, int]]:
    return [{"first": first, "last": last} for first, last in ranges]


def _highest(epoch: Epoch) -> int:
    return epoch.ranges[-1][1] if epoch.ranges else 0


def _number(epoch: Epoch) -> int:
    return epoch.epoch


def _numbers(holes: tuple[tuple[int, int], ...]) -> str:
    return f"{plural(size(holes), 'event')} by number: {_ranges(holes)}"


def _ranges(ranges: Iterable[tuple[int, int]]) -> str:
    named = [str(first) if first == last else f"{first}-{last}" for first, last in ranges]
    more = f" and {plural(len(named) - MOST_RANGES, 'more range')}" if len(named) > MOST_RANGES else ""
    return ", ".join(named[:MOST_RANGES]) + more
