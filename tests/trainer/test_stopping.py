"""SIGTERM and SIGINT: an orderly end, which waits for what must not be cut."""

from __future__ import annotations

import signal
import threading

import pytest

from services.trainer.stopping import Terminated, terminable, uninterrupted


def done_until(kind: type[KeyboardInterrupt], signals: list[signal.Signals]) -> list[signal.Signals]:
    """Sends this process signals in a block that must not be cut; gives those after which it went on."""
    done: list[signal.Signals] = []

    def work() -> None:
        with terminable(), uninterrupted():
            for number in signals:
                signal.raise_signal(number)
                done.append(number)

    with pytest.raises(kind):
        work()
    return done


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGTERM, Terminated), (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_waits_for_the_end_of_what_must_not_be_cut(number, kind):
    assert done_until(kind, [number]) == [number]


def test_a_second_signal_acts_at_once():
    assert done_until(Terminated, [signal.SIGTERM, signal.SIGTERM]) == [signal.SIGTERM]


def test_afterwards_and_without_a_signal_all_is_as_before():
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with terminable(), uninterrupted():
        pass
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_what_is_ignored_stays_so():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_off_the_main_thread_signals_are_left_alone():
    done = []

    def work() -> None:
        with terminable(), uninterrupted():
            done.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [1]
