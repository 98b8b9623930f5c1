"""How followers of a log wait, and what ends their waiting."""

from __future__ import annotations

import threading
import time

from ledger.log.log import Growth

LONG = 30.0


def test_a_pause_ends_when_somebody_wants_what_the_follower_makes() -> None:
    growth = Growth()
    threading.Timer(0.05, growth.want).start()

    started = time.monotonic()
    growth.pause(LONG)

    assert time.monotonic() - started < LONG / 2


def test_a_wish_ends_one_pause_and_not_the_next() -> None:
    growth = Growth()
    growth.want()
    growth.pause(LONG)

    started = time.monotonic()
    growth.pause(0.05)

    assert time.monotonic() - started >= 0.04


def test_a_wait_ends_when_the_log_has_grown() -> None:
    growth = Growth()
    threading.Timer(0.05, growth.tell).start()

    started = time.monotonic()
    growth.wait(LONG)

    assert time.monotonic() - started < LONG / 2


def test_growth_is_recent_only_after_it_was_told() -> None:
    growth = Growth()
    assert not growth.is_recent(LONG)
    growth.tell()
    assert growth.is_recent(LONG)
    time.sleep(0.02)
    assert not growth.is_recent(0.01)
