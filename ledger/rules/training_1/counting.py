"""Which events of a producer's count were seen, so that it can be said whether any are missing.

Numbers are kept as merged ranges: a recording without holes is one range, however long it is.
"""

from __future__ import annotations

from msgspec.structs import replace

from ledger.rules.training_1 import reading
from ledger.rules.training_1.model import Epoch

Ranges = tuple[tuple[int, int], ...]


def counted(epochs: tuple[Epoch, ...], producer: tuple[str, int, int]) -> tuple[Epoch, ...]:
    """The epochs after one more event that bears a producer's id, epoch and number."""
    name, number, seq = producer
    place = _place(epochs, name, number)
    if place is None:
        return (*epochs, Epoch(name, number, ((seq, seq),)))
    known = epochs[place]
    merged = joined(known.ranges, seq)
    if merged is known.ranges:
        return epochs
    return _with(epochs, place, Epoch(name, number, merged, known.report))


def reported(epochs: tuple[Epoch, ...], report: reading.RecordingReported) -> tuple[Epoch, ...]:
    """The epochs after a report: the last one of an epoch counts."""
    place = _place(epochs, report.producer, report.epoch)
    if place is None:
        return (*epochs, Epoch(report.producer, report.epoch, (), report))
    return _with(epochs, place, replace(epochs[place], report=report))


def joined(ranges: Ranges, seq: int) -> Ranges:
    """The ranges with one more number. Numbers nearly always come in order."""
    if not ranges or seq > ranges[-1][1] + 1:
        return (*ranges, (seq, seq))
    first, last = ranges[-1]
    if seq == last + 1:
        return (*ranges[:-1], (first, seq))
    if any(low <= seq <= high for low, high in reversed(ranges)):
        return ranges
    return _merged(sorted((*ranges, (seq, seq))))


def missing(ranges: Ranges, last: int) -> Ranges:
    """The numbers from 1 to the last that are in no range."""
    holes: list[tuple[int, int]] = []
    following = 1
    for low, high in ranges:
        if low > last:
            break
        if low > following:
            holes.append((following, low - 1))
        following = max(following, high + 1)
    if following <= last:
        holes.append((following, last))
    return tuple(holes)


def size(ranges: Ranges) -> int:
    return sum(high - low + 1 for low, high in ranges)


def _merged(ranges: list[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in ranges:
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _place(epochs: tuple[Epoch, ...], producer: str, number: int) -> int | None:
    # The epoch that is being written is the last one that appeared, nearly always.
    for place in range(len(epochs) - 1, -1, -1):
        if epochs[place].epoch == number and epochs[place].producer == producer:
            return place
    return None


def _with(epochs: tuple[Epoch, ...], place: int, epoch: Epoch) -> tuple[Epoch, ...]:
    return (*epochs[:place], epoch, *epochs[place + 1 :])
