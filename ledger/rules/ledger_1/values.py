"""What every kept value is: frozen, compared by content, written as JSON and read back equal."""

from __future__ import annotations

from typing import Literal

import msgspec

Rating = Literal["good", "some_issues", "bad"]


class Value(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Frozen, compared by content, written without what equals its default."""
