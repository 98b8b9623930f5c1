"""Between an adapter's own code and the training that it watches: a fault here is told of once and stops nothing.

The recorder promises the same of itself. Only what a strict recorder raises goes through: whoever made it strict asked
for that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

from ledger.client.recording import Recorder
from ledger.core.errors import LedgerError

P = ParamSpec("P")
T = TypeVar("T")
_LOG: Final = logging.getLogger("ledger.adapters")


class Shield:
    """Calls functions of an adapter; a fault in one gives None.

    Args:
        recorder: The one that the functions record with.
        what: What is watched, for the warnings.
    """

    def __init__(self, recorder: Recorder, what: str) -> None:
        self._recorder = recorder
        self._what = what
        self._warned: set[str] = set()

    def __call__(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return act(*args, **kwargs)
        except Exception as error:
            if self._recorder.strict and isinstance(error, LedgerError):
                raise
            name: Any = getattr(act, "__name__", type(act).__name__)
            self.warn(name, f"{name} failed, and what it was to record is missing: {error!r}")
            return None

    def warn(self, topic: str, text: str) -> None:
        """Once a topic."""
        if topic not in self._warned:
            self._warned.add(topic)
            _LOG.warning("the recording of %s: %s", self._what, text)
