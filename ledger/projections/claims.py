"""Claims: who builds a generation holds it, for as long as the builder lives.

On Postgres a claim is an advisory lock of a session, so it ends with the process or its connection. Another store has
one process only, so a claim there is a note in memory.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError

from ledger.log.ports import Store

_noted: set[str] = set()  # guarded by _noting
_noting: Final = threading.Lock()


class Claims:
    """Claims on the generations of one store, by their ids."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @contextmanager
    def held(self, generation_id: str) -> Iterator[bool]:
        """Claims a generation for the block; whether nobody else holds it."""
        hold = self._locked if self._store.dialect == "postgresql" else self._noted
        with hold(generation_id) as free:
            yield free

    @contextmanager
    def _noted(self, generation_id: str) -> Iterator[bool]:
        with _noting:
            free = generation_id not in _noted
            _noted.add(generation_id)
        try:
            yield free
        finally:
            if free:
                _noted.discard(generation_id)

    @contextmanager
    def _locked(self, generation_id: str) -> Iterator[bool]:
        number = int.from_bytes(hashlib.sha256(generation_id.encode()).digest()[:8], "big", signed=True)
        with self._store.engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            free = bool(connection.scalar(select(func.pg_try_advisory_lock(number))))
            try:
                yield free
            finally:
                if free:
                    # A connection that broke gave the claim up by itself.
                    with suppress(DBAPIError):
                        connection.execute(select(func.pg_advisory_unlock(number)))
