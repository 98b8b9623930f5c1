"""Sums of row counts that mean something: one basis at a time, and what is unknown is counted apart, never as zero."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ledger.client.row_counts import BASES, Basis
from ledger.events.catalogue import CatalogueRow


@dataclass(frozen=True)
class Total:
    """The rows of one basis over some sources."""

    basis: Basis
    rows: int
    """Over the sources whose count is known."""
    known: int
    unknown: int


def rows_of(row: CatalogueRow, basis: Basis) -> int | None:
    """A source's count of that basis; input rows are the inventory's own figure where it gives one."""
    if basis == "input" and row.input_rows is not None:
        return row.input_rows
    return next((count.rows for count in row.counts if count.basis == basis), None)


def total(rows: Iterable[CatalogueRow], basis: Basis) -> Total:
    """The sum of one basis."""
    found = [rows_of(row, basis) for row in rows]
    known = [count for count in found if count is not None]
    return Total(basis, sum(known), len(known), len(found) - len(known))


def totals(rows: Iterable[CatalogueRow]) -> list[Total]:
    """The sum of each basis that any source is counted by; they do not add up to anything."""
    listed = list(rows)
    sums = [total(listed, basis) for basis in BASES]
    return [found for found in sums if found.known]
