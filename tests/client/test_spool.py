"""The spool: epochs, what a crash leaves, and what another process sends of it."""

from __future__ import annotations

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.client import LedgerError, Recorder, actor, connect
from ledger.client.recording import Synced, folders, segments, sync
from ledger.client.recording.packing import Kind
from ledger.client.recording.spool import Spool
from ledger.client.recording.tallies import Tally
from ledger.client.testing import FakeLedger

BY = actor("trainer-1")
PAYLOAD = b'{"run_id":"r1","attempt":1,"step":1}'


@pytest.fixture
def ledger():
    with FakeLedger() as made:
        yield made


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "spool"
    made.mkdir()
    return made


def crashed(folder, count, torn=0):
    """A spool whose writer died after so many drafts, the last of them cut by so many bytes."""
    spool = Spool(folder, "r1", BY)
    kind = Kind("checkpoint.save_started", 1, "run/r1", BY)
    for number in range(count):
        spool.append(kind.halves(f"e{spool.epoch}-{number}", PAYLOAD, 1))
    os.close(spool._handle)
    if torn:
        file = segments.path(folder, segments.numbers(folder)[-1])
        file.write_bytes(file.read_bytes()[:-torn])
    return spool


def send(ledger, folder) -> Synced:
    with connect(ledger.address) as connection:
        return sync(folder, connection)


def reports(ledger):
    return [e.payload for e in ledger.of_type("recording.reported")]


def test_a_spool_whose_writer_died_is_sent_whole_and_its_epoch_ended(ledger, folder):
    crashed(folder, 5)
    done = send(ledger, folder)
    assert (done.sent, done.known, done.left, done.recording) == (6, 0, 0, False)
    (report,) = reports(ledger)
    assert (report["epoch"], report["last_seq"], report["closed"]) == (1, 5, False)
    assert [e.producer[1:] for e in ledger.events] == [(1, n) for n in range(1, 7)]
    assert segments.numbers(folder) == []


def test_a_spool_that_was_sent_has_nothing_more_to_send(ledger, folder):
    crashed(folder, 5)
    send(ledger, folder)
    assert send(ledger, folder).moved is False
    assert len(ledger.events) == 6


def test_the_next_writer_ends_the_epoch_of_one_that_died(ledger, folder):
    crashed(folder, 3)
    crashed(folder, 2)
    send(ledger, folder)
    assert [(r["epoch"], r["last_seq"], r["closed"]) for r in reports(ledger)] == [(1, 3, False), (2, 2, False)]
    assert [e.producer[1:] for e in ledger.events] == [(1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (2, 3)]


def test_a_record_that_a_crash_tore_is_cut_wherever_it_was_cut_and_the_cut_is_counted(tmp_path):
    size = len(segments.frame(b"")) + 100
    for torn in range(1, size):
        folder = tmp_path / str(torn)
        folder.mkdir()
        crashed(folder, 3, torn)
        with FakeLedger() as ledger:
            send(ledger, folder)
            whole = [e.producer[2] for e in ledger.of_type("checkpoint.save_started")]
            (report,) = reports(ledger)
        assert whole == [1, 2]
        assert report["last_seq"] == 2
        assert report["unreadable_bytes"] > 0


def test_what_was_answered_before_a_crash_is_not_forgotten_though_its_segment_is_gone(ledger, folder):
    crashed(folder, 4)
    send(ledger, folder)
    crashed(folder, 0)
    send(ledger, folder)
    assert [(r["epoch"], r["last_seq"]) for r in reports(ledger)] == [(1, 4), (2, 0)]


def test_the_count_is_found_though_the_last_drafts_bear_none(ledger, folder):
    spool = Spool(folder, "r1", BY)
    kind = Kind("checkpoint.save_started", 1, "run/r1", BY)
    for number in range(3):
        spool.append(kind.halves(f"counted-{number}", PAYLOAD, 1))
    other = Kind("export.failed", 1, "export/e1", BY)
    payload = b'{"export_id":"e1","stage":"load","reason":"r"}'
    spool.append_uncounted(other.halves("uncounted", payload, 1))
    os.close(spool._handle)
    send(ledger, folder)
    (report,) = reports(ledger)
    assert report["last_seq"] == 3
    crashed(folder, 0)
    send(ledger, folder)
    assert [r["epoch"] for r in reports(ledger)] == [1, 2]


def test_a_lost_cursor_costs_a_second_sending_and_doubles_nothing(ledger, folder):
    crashed(folder, 5)
    kept = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    send(ledger, folder)
    for name, content in kept.items():
        (folder / name).write_bytes(content)
    (folder / "cursor.json").write_bytes(b"")
    done = send(ledger, folder)
    assert (done.sent, done.known) == (1, 5)
    assert len({e.id for e in ledger.events}) == len(ledger.events)


def test_counts_of_what_was_not_kept_survive_the_process(ledger, folder):
    spool = Spool(folder, "r1", BY)
    spool.tally.drop([4])
    spool.tally.drop([5])
    spool.tally.refuse()
    spool.seq = 3
    spool.settle()
    os.close(spool._handle)
    send(ledger, folder)
    (report,) = reports(ledger)
    assert (report["dropped"], report["refused"], report["last_seq"]) == (2, 1, 3)
    assert report["dropped_steps"] == [{"first": 4, "last": 5}]


def test_an_open_spool_without_a_ledger_can_be_sent_by_another_process_as_it_grows(ledger, folder):
    with Recorder(None, run="r1", spool=folder, rank=0) as rec:
        rec.saving(1)
        first = send(ledger, folder)
        rec.saving(2)
        second = send(ledger, folder)
        assert (first.sent, second.sent, second.recording) == (1, 1, True)
        assert reports(ledger) == []
    assert send(ledger, folder).sent == 1
    assert reports(ledger)[0]["closed"] is True


def test_a_spool_that_its_recorder_sends_is_left_to_it(ledger, folder):
    with Recorder(ledger.address, run="r1", spool=folder, rank=0):
        with pytest.raises(LedgerError) as caught:
            send(ledger, folder)
        assert caught.value.reason == "IN_USE"


def test_a_folder_that_is_no_spool_is_named(ledger, tmp_path):
    with pytest.raises(LedgerError, match="no spool") as caught:
        send(ledger, tmp_path)
    assert caught.value.reason == "INVALID_FILE"


def test_a_spool_of_another_format_is_left_alone(ledger, folder):
    crashed(folder, 1)
    saved = folders.read(folder / "spool.json")
    folders.write(folder / "spool.json", {**saved, "format": 2})
    with pytest.raises(LedgerError, match="format 2"):
        send(ledger, folder)


def test_a_disk_that_is_full_drops_whole_frames_only(folder, monkeypatch):
    spool = Spool(folder, "r1", BY)
    kind = Kind("checkpoint.save_started", 1, "run/r1", BY)
    spool.append(kind.halves("a", PAYLOAD, 1))
    full, real = [10, None], os.write

    def write(handle, data):
        return real(handle, data[: full.pop(0)]) if full else real(handle, data)

    monkeypatch.setattr(os, "write", write)
    assert spool.append(kind.halves("b", PAYLOAD, 1)) is None
    assert spool.append(kind.halves("c", PAYLOAD, 1)) == 3
    spool.report()
    assert spool.append(kind.halves("late", PAYLOAD, 1)) is None
    spool.close()
    found = segments.tail(segments.path(folder, 1))
    assert (found.frames, found.torn) == (3, 0)
    assert (spool.tally.dropped, spool.seq) == (1, 4)
    assert folders.read(folder / "epoch.json")["closed"] is True


@pytest.mark.parametrize("is_open", [True, False], ids=["by its writer's reader", "after a crash"])
def test_half_a_frame_that_cannot_be_cut_off_hides_nothing_that_is_written_after_it(
    ledger, folder, monkeypatch, is_open
):
    spool = Spool(folder, "r1", BY)
    kind = Kind("checkpoint.save_started", 1, "run/r1", BY)
    spool.append(kind.halves("a", PAYLOAD, 1))
    real = os.write

    def fails(*_):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda handle, data: real(handle, data[:10]))
        patched.setattr(os, "ftruncate", fails)
        patched.setattr(os, "open", fails)  # nor is there room for another segment yet
        assert spool.append(kind.halves("b", PAYLOAD, 1)) is None
        assert spool.append(kind.halves("c", PAYLOAD, 1)) is None
    assert spool.append(kind.halves("d", PAYLOAD, 1)) == 4
    assert spool.append(kind.halves("e", PAYLOAD, 1)) == 5
    assert segments.numbers(folder) == [1, 2]
    assert segments.tail(segments.path(folder, 1)).torn == 10
    if is_open:
        spool.report()
        spool.close()
    else:
        os.close(spool._handle)
    assert send(ledger, folder).left == 0
    assert [e.id for e in ledger.of_type("checkpoint.save_started")] == ["a", "d", "e"]
    (report,) = reports(ledger)
    assert (report["last_seq"], report["closed"]) == (5, is_open)


def test_a_report_that_finds_no_disk_is_left_to_the_next_writer(ledger, folder, monkeypatch):
    spool = Spool(folder, "r1", BY)
    spool.append(Kind("checkpoint.save_started", 1, "run/r1", BY).halves("a", PAYLOAD, 1))
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda _handle, _data: 0)
        spool.report()
    spool.close()
    send(ledger, folder)
    assert [(r["epoch"], r["last_seq"], r["closed"]) for r in reports(ledger)] == [(1, 1, False)]


def test_a_spool_that_is_over_full_still_says_what_became_of_its_epoch(ledger, folder):
    with Recorder(None, run="r1", spool=folder, rank=0, max_bytes=8_192) as rec:
        for _ in range(12):
            rec.record("run.ended", {"ending": "failed", "reason": "r" * 2_000})
    send(ledger, folder)
    (report,) = reports(ledger)
    assert report["closed"] is True
    assert report["dropped"] == 12 - len(ledger.of_type("run.ended"))
    assert report["last_seq"] == 12


def test_a_lock_is_one_processs_and_once_within_it(folder):
    one, two = folders.Lock(folder, "writer"), folders.Lock(folder, "writer")
    assert one.take()
    assert not two.take()
    one.release()
    one.release()
    assert two.take()
    two.release()


@given(st.lists(st.integers(0, 40), max_size=40))
def test_the_ranges_of_dropped_steps_hold_the_dropped_steps_and_no_others(steps):
    tally = Tally()
    for step in steps:
        tally.drop([step])
    ranges = tally.as_dict()["dropped_steps"]
    assert {s for first, last in ranges for s in range(first, last + 1)} == set(steps)
    assert Tally(tally.as_dict()).as_dict() == tally.as_dict()
