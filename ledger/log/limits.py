"""How large things may be. One table, shown by GetInfo; the sequencer's batch size is soft and stands with it."""

from __future__ import annotations

from typing import Final

HEADER_BYTES: Final = 65_535
"""So that a header fits a C2SP entry bundle, whose lengths are 16 bits."""
ID_BYTES: Final = 512
STREAM_BYTES: Final = 512
ACTOR_BYTES: Final = 256
TAG_BYTES: Final = 128
TAGS: Final = 32
CAUSES: Final = 256
PAYLOAD_BYTES: Final = 1 << 20
REQUEST_BYTES: Final = 16 << 20
REQUEST_EVENTS: Final = 20_000
"""Larger bytes are artifacts; more events are more requests."""
CONDITIONS: Final = 1_000
