"""The recorder: kept before it returns, sent as it was, waiting for nobody and raising nothing."""

from __future__ import annotations

import logging
import math
import threading
import time
from decimal import Decimal

import pytest

from ledger.client import LedgerError, Recorder, actor, connect
from ledger.client.recording import folders, segments
from ledger.client.testing import FakeLedger
from ledger.core import strictjson
from ledger.wire import log_pb2

METRICS = {f"group/metric_{n}": n * 0.37 + 1 for n in range(100)}
NOWHERE = "127.0.0.1:9"


@pytest.fixture
def ledger():
    with FakeLedger() as made:
        yield made


@pytest.fixture
def spool(tmp_path):
    return tmp_path / "spool"


def recorder(address, spool, **arguments):
    return Recorder(address, run="r1", spool=spool, **{"rank": 0, "by": actor("trainer-1"), **arguments})


def steps_of(ledger):
    return [s["step"] for e in ledger.of_type("steps.logged") for s in e.payload["steps"]]


def assert_counted(ledger, epochs=1):
    """Every number of every epoch is there once, and the report is the last of each."""
    for epoch in range(1, epochs + 1):
        found = sorted(e.producer[2] for e in ledger.events if e.producer[1] == epoch)
        assert found == list(range(1, len(found) + 1))
        (report,) = [e for e in ledger.of_type("recording.reported") if e.payload["epoch"] == epoch]
        assert report.payload["last_seq"] == len(found) - 1


# Recording and sending


def test_what_was_recorded_is_in_the_ledger_once_in_order_and_counted(ledger, spool):
    with recorder(ledger.address, spool) as rec:
        for step in range(1, 1001):
            rec.step(step, METRICS, weight_version=step - 1)
    assert steps_of(ledger) == list(range(1, 1001))
    first = ledger.events[0]
    assert (first.stream, first.draft.actor.id, first.producer[1:]) == ("run/r1", "trainer-1", (1, 1))
    assert first.payload["run_id"] == "r1"
    assert first.payload["steps"] == [{"step": 1, "weight_version": 0, "metrics": METRICS}]
    assert_counted(ledger)
    assert rec.report().complete


def test_a_closed_recorder_says_what_its_epoch_came_to_and_leaves_no_segment(ledger, spool):
    with recorder(ledger.address, spool) as rec:
        rec.step(1, METRICS)
    (report,) = ledger.of_type("recording.reported")
    assert report.payload["closed"] is True
    assert report.payload["last_seq"] == 1
    assert report.payload["producer"] == report.producer[0]
    assert segments.numbers(spool) == []


def test_a_recorder_opened_again_counts_a_new_epoch_of_the_same_producer(ledger, spool):
    for _ in range(3):
        with recorder(ledger.address, spool) as rec:
            rec.step(1, METRICS)
    assert [e.producer[1:] for e in ledger.of_type("steps.logged")] == [(1, 1), (2, 1), (3, 1)]
    assert len({e.producer[0] for e in ledger.events}) == 1
    assert [e.payload["attempt"] for e in ledger.of_type("steps.logged")] == [1, 2, 3]
    assert_counted(ledger, epochs=3)


def test_the_draft_is_in_the_file_before_recording_returns(spool):
    rec = recorder(None, spool)
    for count in range(1, 20):
        rec.step(count, METRICS)
        file = segments.path(spool, segments.numbers(spool)[-1])
        assert segments.tail(file).frames == count
    rec.close()


@pytest.mark.parametrize("faults", [["before"] * 3, ["after"] * 3, ["", "full", "after", "before", ""]])
def test_calls_that_fail_are_repeated_with_the_same_bytes_and_double_nothing(ledger, spool, faults):
    ledger.faults = faults
    with recorder(ledger.address, spool) as rec:
        for step in range(50):
            rec.step(step, METRICS)
    assert steps_of(ledger) == list(range(50))
    sent = {d.id: d.SerializeToString() for request in ledger.requests for d in request.drafts}
    again = [d for request in ledger.requests for d in request.drafts]
    assert len(again) > len(sent)
    assert all(sent[d.id] == d.SerializeToString() for d in again)


def test_a_ledger_that_is_away_for_a_while_misses_nothing(ledger, spool):
    rec = recorder(ledger.address, spool)
    for step in range(300):
        ledger.away = 100 <= step < 200
        rec.step(step, METRICS)
        time.sleep(0.001)
    rec.close()
    assert steps_of(ledger) == list(range(300))
    assert_counted(ledger)


def test_no_step_waits_for_a_ledger_that_is_not_there(spool):
    rec = recorder(NOWHERE, spool, close_timeout=0.2)
    started = time.monotonic()
    for step in range(500):
        rec.step(step, METRICS)
    assert time.monotonic() - started < 2
    report = rec.close()
    assert (report.answered, report.waiting) == (0, 501)
    assert f"ledger sync {spool}" in str(report)
    assert "127.0.0.1:9" in report.error


def test_closing_waits_no_longer_than_it_was_told(spool):
    rec = recorder(NOWHERE, spool, close_timeout=0.5)
    rec.step(1, METRICS)
    started = time.monotonic()
    rec.close()
    assert 0.4 < time.monotonic() - started < 3


def test_an_interrupt_while_it_closes_leaves_the_rest_in_the_spool(ledger, spool, monkeypatch):
    rec = recorder(NOWHERE, spool)
    rec.step(1, METRICS)

    def interrupted(_place, _deadline):
        raise KeyboardInterrupt

    monkeypatch.setattr(rec._background, "wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rec.close()
    assert rec.step(2, METRICS) is None
    assert rec.close().waiting == 1
    with recorder(ledger.address, spool) as again:
        assert again.spool == spool
    assert steps_of(ledger) == [1]
    assert [r.payload["closed"] for r in ledger.of_type("recording.reported")] == [False, True]


def test_flushing_waits_until_the_ledger_has_it_or_time_is_up(ledger, spool):
    with recorder(ledger.address, spool) as rec:
        rec.step(1, METRICS)
        assert rec.flush(10).complete
        assert steps_of(ledger) == [1]
        ledger.away = True
        rec.step(2, METRICS)
        assert rec.flush(0.3).waiting == 1
        ledger.away = False
        assert rec.flush(10).complete


def test_flushing_offline_waits_for_the_disk_alone(spool):
    with recorder(None, spool) as rec:
        rec.step(1, METRICS)
        started = time.monotonic()
        assert rec.flush(10).waiting == 1
        assert time.monotonic() - started < 5


def test_a_recorder_is_closed_once_and_records_nothing_after(ledger, spool):
    rec = recorder(ledger.address, spool)
    rec.step(1, METRICS)
    assert rec.close() == rec.close()
    assert rec.step(2, METRICS) is None
    assert rec.flush(1) == rec.report()
    assert steps_of(ledger) == [1]


def test_answered_segments_are_deleted_while_it_records(ledger, spool):
    with recorder(ledger.address, spool, max_bytes=400_000) as rec:
        for step in range(1_000):
            rec.step(step, METRICS)
            if not step % 50:
                rec.flush(10)
        rec.flush(10)
        assert len(segments.numbers(spool)) <= 2
        assert folders.bytes_held(spool) < 400_000
    assert steps_of(ledger) == list(range(1_000))


def test_many_threads_record_at_once_and_every_number_is_given_once(ledger, spool):
    with recorder(ledger.address, spool) as rec:

        def work(worker):
            for n in range(200):
                rec.step(worker * 200 + n, {"m": n})

        threads = [threading.Thread(target=work, args=(w,)) for w in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(steps_of(ledger)) == list(range(1_600))
    assert_counted(ledger)


# Numbers


@pytest.mark.parametrize(
    ("value", "recorded"),
    [
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (True, 1.0),
        (7, 7),
        (2**60, float(2**60)),
        (1e308, 1e308),
        (Decimal("0.5"), 0.5),
        ("NaN", "NaN"),
    ],
)
def test_a_metric_is_kept_as_the_number_that_it_is(ledger, spool, value, recorded):
    with recorder(ledger.address, spool, strict=True) as rec:
        rec.step(1, {"before": 1.5, "m": value})
    assert ledger.events[0].payload["steps"][0]["metrics"] == {"before": 1.5, "m": recorded}


def test_two_large_numbers_whose_sum_is_not_finite_are_kept(ledger, spool):
    with recorder(ledger.address, spool) as rec:
        rec.step(1, {"a": 1.7e308, "b": 1.7e308})
    assert ledger.events[0].payload["steps"][0]["metrics"] == {"a": 1.7e308, "b": 1.7e308}


class Scalar:
    """As numpy and torch have them."""

    def __init__(self, value):
        self.value = value

    def __float__(self):
        return float(self.value)

    def item(self):
        return self.value


class Many:
    def __float__(self):
        raise RuntimeError("a tensor of many elements")


def test_scalars_of_other_libraries_are_taken_by_their_value(ledger, spool):
    with recorder(ledger.address, spool) as rec:
        rec.step(Scalar(3), {"m": Scalar(0.25), 5: Scalar(math.nan)})
        rec.record(
            "eval.logged", {"step": Scalar(3), "evaluations": [{"data_source": "d", "metrics": {"x": math.nan}}]}
        )
    assert ledger.events[0].payload["steps"] == [{"step": 3, "metrics": {"m": 0.25, "5": "NaN"}}]
    assert ledger.events[1].payload["evaluations"] == [{"data_source": "d", "metrics": {"x": "NaN"}}]


@pytest.mark.parametrize("value", [None, "much", b"x", Many(), object()])
def test_what_is_no_number_is_left_out_and_counted_and_its_step_is_kept(ledger, spool, value, caplog):
    with recorder(ledger.address, spool) as rec:
        for step in (1, 2):
            rec.step(step, {"good": 1.0, "odd": value})
    assert [e.payload["steps"][0]["metrics"] for e in ledger.of_type("steps.logged")] == [{"good": 1.0}] * 2
    assert rec.report().left_out == 2
    assert not rec.report().complete
    assert caplog.text.count("'odd' is no number") == 1


@pytest.mark.parametrize("key", ["", "k" * 513, "nul\x00", "\ud800"])
def test_a_name_that_no_metric_may_have_is_left_out(ledger, spool, key):
    with recorder(ledger.address, spool) as rec:
        rec.step(1, {"good": 1.0, key: 2.0})
    assert ledger.events[0].payload["steps"][0]["metrics"] == {"good": 1.0}


def test_the_quick_way_writes_what_the_slow_way_writes(ledger, spool):
    with recorder(ledger.address, spool) as rec:
        rec.step(1, METRICS, weight_version=0)
        told = {"step": 1, "weight_version": 0, "metrics": METRICS}
        rec.record("steps.logged", {"steps": [told]})
    quick, slow = ledger.of_type("steps.logged")
    assert quick.draft.payload == slow.draft.payload


# What cannot be recorded


def test_bad_input_never_raises_and_is_kept_counted_and_warned_of_once(ledger, spool, caplog):
    with recorder(ledger.address, spool) as rec:
        for _ in range(3):
            assert rec.record("attempt.ended", {"ending": "wrong"}) is None
        assert rec.record("no.such", {}) is None
        assert rec.record("run.declared", {"sources": object()}) is None
        assert rec.step(1, None) is None
        assert rec.step(-1, {"m": 1.0}) is None
        assert rec.step("x", {"m": 1.0}) is None
        rec.step(2, METRICS)
        assert len(rec.report().refused) == 8
    assert steps_of(ledger) == [2]
    (report,) = ledger.of_type("recording.reported")
    assert report.payload["refused"] == 8
    assert report.payload["last_seq"] == 9
    kept = folders.read(rec.report().refused[0].file)
    assert (kept["reason"], kept["draft_type"]) == ("INVALID_PAYLOAD", "attempt.ended")
    assert kept["draft"]["payload"] == {"run_id": "r1", "attempt": 1, "ending": "wrong"}
    assert caplog.text.count("[INVALID_PAYLOAD]") == 1


def test_a_strict_recorder_raises_what_is_wrong(spool):
    rec = recorder(None, spool, strict=True)
    for wrong in ({"ending": "wrong"}, {"ending": "failed", "more": 1}):
        with pytest.raises(LedgerError) as caught:
            rec.record("attempt.ended", wrong)
        assert caught.value.reason == "INVALID_PAYLOAD"
    with pytest.raises(LedgerError, match="'m': is no number"):
        rec.step(1, {"m": "much"})
    rec.close()


def test_an_event_of_another_kind_of_stream_is_refused_here(spool):
    rec = recorder(None, spool, strict=True)
    with pytest.raises(LedgerError, match=r"holds no attempt\.ended"):
        rec.record("attempt.ended", {"ending": "failed"}, stream="source/x")
    with pytest.raises(LedgerError, match="belongs to no run"):
        rec.record("rules.adopted", {"rules": "x", "digest": "0" * 64})
    rec.close()


@pytest.mark.parametrize("stream", ["source/x", "run", "run/", "ledger", "run/\u00e9", "run/" + "x" * 600])
def test_the_ledger_for_tests_refuses_a_stream_that_the_real_one_refuses(ledger, stream):
    payload = strictjson.dumps({"run_id": "r1", "attempt": 1, "ending": "failed"})
    draft = log_pb2.Draft(id="a", stream=stream, type="attempt.ended", type_version=1, payload=payload)
    with connect(ledger.address) as connection:
        answer = connection.log.Append(log_pb2.AppendRequest(drafts=[draft]))
        assert "stream must be run/<name> for attempt.ended" in answer.receipts[0].refusal.message
        draft.stream = "run/r1"
        assert not connection.log.Append(log_pb2.AppendRequest(drafts=[draft])).receipts[0].HasField("refusal")
    assert [e.stream for e in ledger.events] == ["run/r1"]


def test_an_export_and_a_campaign_have_streams_of_their_own(ledger, spool):
    with recorder(ledger.address, spool) as rec:
        rec.record("export.failed", {"export_id": "e1", "stage": "load", "reason": "r"})
        rec.record("campaign.declared", {"campaign_id": "c1", "purpose": None})
    assert [e.stream for e in ledger.events[:2]] == ["export/e1", "campaign/c1"]


def test_what_goes_to_other_streams_leaves_no_gap_in_the_runs_count(ledger, spool):
    with recorder(ledger.address, spool) as rec:
        rec.step(1, METRICS)
        rec.record("export.failed", {"export_id": "e1", "stage": "load", "reason": "r"})
        rec.step(2, METRICS)
    of_run = [e.producer[2] for e in ledger.events if e.stream == "run/r1"]
    assert of_run == [1, 2, 3]
    assert not ledger.of_type("export.failed")[0].draft.HasField("producer")
    assert rec.report().complete


def test_what_the_ledger_refuses_lies_beside_the_spool_and_stops_nothing(spool, caplog):
    with FakeLedger(refused=frozenset({"checkpoint.selected"})) as ledger:
        with recorder(ledger.address, spool) as rec:
            rec.step(1, METRICS)
            refused = rec.select(1, rule={"id": "trailing-ema"})
            rec.step(2, METRICS)
        assert steps_of(ledger) == [1, 2]
    (kept,) = rec.report().refused
    assert (kept.id, kept.reason, kept.remedy) == (refused, "REFUSED_BY_RULES", "Mend it.")
    assert folders.read(kept.file)["draft"]["payload"]["rule"] == {"id": "trailing-ema"}
    assert ledger.of_type("recording.reported")[0].payload["refused"] == 1
    assert str(spool / "refused") in str(rec.report())
    assert "refuse checkpoint.selected" in caplog.text


def test_a_request_refused_whole_costs_only_the_draft_that_is_meant(ledger, spool, monkeypatch):
    real = ledger._append

    def picky(request):
        if any(b"poison" in d.payload for d in request.drafts):
            raise LedgerError("too much for me", reason="TOO_LARGE", remedy="Less.")
        return real(request)

    ledger._append = picky
    with recorder(ledger.address, spool) as rec:
        for step in range(20):
            rec.step(step, {"poison": 1} if step == 7 else METRICS)
    assert steps_of(ledger) == [s for s in range(20) if s != 7]
    assert [r.reason for r in rec.report().refused] == ["TOO_LARGE"]


def test_a_fault_that_is_not_the_drafts_refuses_nothing(ledger, spool):
    def forbidden(_request):
        raise LedgerError("not you", reason="NOT_PERMITTED", remedy="Ask.")

    ledger._append = forbidden
    rec = recorder(ledger.address, spool, close_timeout=0.5)
    rec.step(1, METRICS)
    report = rec.close()
    assert (report.refused, report.waiting) == ((), 2)
    assert "NOT_PERMITTED" in report.error


# Room


def test_a_full_spool_drops_metrics_alone_and_says_which(spool):
    rec = recorder(None, spool, max_bytes=40_000)
    for step in range(1, 31):
        rec.step(step, METRICS)
    for step in range(5):
        assert rec.saving(step) is not None
    report = rec.close()
    kept = 30 - report.dropped
    assert 5 <= kept <= 20
    with FakeLedger() as ledger:
        with recorder(ledger.address, spool):
            pass
        assert steps_of(ledger) == list(range(1, kept + 1))
        assert len(ledger.of_type("checkpoint.save_started")) == 5
        first = ledger.of_type("recording.reported")[0].payload
    assert first["dropped"] == report.dropped
    assert first["dropped_steps"] == [{"first": kept + 1, "last": 30}]
    assert first["last_seq"] == 35


def test_beyond_twice_its_size_a_spool_takes_nothing(spool):
    rec = recorder(None, spool, max_bytes=8_192)
    results = [rec.record("run.ended", {"ending": "failed", "reason": "r" * 2_000}) for _ in range(12)]
    assert None in results
    assert results[0] is not None
    assert folders.bytes_held(spool) <= 2 * 8_192
    assert rec.close().dropped > 0


def test_a_spool_has_room_again_once_it_was_sent(ledger, spool):
    ledger.away = True
    with recorder(ledger.address, spool, max_bytes=40_000) as rec:
        for step in range(30):
            rec.step(step, METRICS)
        dropped = rec.report().dropped
        assert dropped
        ledger.away = False
        rec.flush(20)
        time.sleep(0.1)
        for step in range(100, 105):
            assert rec.step(step, METRICS) is not None
        assert rec.report().dropped == dropped
    assert steps_of(ledger)[-5:] == [100, 101, 102, 103, 104]


# Ranks, folders, arguments


@pytest.mark.parametrize("name", ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"])
def test_other_ranks_than_the_first_record_nothing(spool, monkeypatch, name):
    monkeypatch.setenv(name, "3")
    with recorder(NOWHERE, spool, rank=None) as rec:
        assert rec.step(1, METRICS) is None
        assert not rec.active
        assert rec.flush(5).spool is None
    assert not spool.exists()
    assert str(rec.close()) == "nothing is recorded here"


def test_all_ranks_record_when_told_to_each_as_a_producer_of_its_own(ledger, spool):
    for rank in range(3):
        with recorder(ledger.address, spool, rank=rank, ranks="all") as rec:
            rec.step(1, {"rank": rank})
    producers = [e.producer[0] for e in ledger.of_type("steps.logged")]
    assert [p.rpartition(".")[2] for p in producers[1:]] == ["rank1", "rank2"]
    assert len(set(producers)) == 3


def test_a_second_recorder_on_one_spool_gets_one_beside_it(ledger, spool, caplog):
    with recorder(ledger.address, spool) as one, recorder(ledger.address, spool) as two:
        assert (one.spool, two.spool) == (spool, spool.with_name("spool-2"))
        one.step(1, METRICS)
        two.step(2, METRICS)
    assert "another process records" in caplog.text
    assert sorted(steps_of(ledger)) == [1, 2]
    with recorder(None, spool) as again:
        assert again.spool == spool


def test_a_spool_of_another_run_is_not_written_to(spool):
    recorder(None, spool).close()
    with pytest.raises(LedgerError, match="'r1' recorded, not 'r2'"):
        Recorder(None, run="r2", spool=spool, rank=0)
    recorder(None, spool).close()


@pytest.mark.parametrize("run", ["", " r", "r\n", "ü", "r" * 501])
def test_a_run_that_is_no_streams_name_is_refused_at_once(spool, run):
    with pytest.raises(LedgerError) as caught:
        Recorder(None, run=run, spool=spool)
    assert caught.value.reason == "USAGE"


def test_an_address_that_is_none_is_refused_at_once_and_leaves_the_spool_free(spool):
    with pytest.raises(LedgerError, match="no address"):
        recorder("nonsense", spool)
    recorder(None, spool).close()


def test_a_disk_that_fails_never_stops_a_training(tmp_path, caplog):
    (tmp_path / "file").write_bytes(b"")
    with recorder(None, tmp_path / "file" / "spool") as rec:
        assert rec.step(1, METRICS) is None
        assert "NOTHING IS RECORDED" in rec.report().error
    assert caplog.records[0].levelno == logging.ERROR
    with pytest.raises(LedgerError, match="cannot be opened"):
        recorder(None, tmp_path / "file" / "spool", strict=True)


def test_a_run_without_a_folder_of_its_own_has_one_in_the_users_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with Recorder(None, run="../a b/c", rank=0) as rec:
        assert rec.spool == tmp_path / "atlas-ledger" / "spool" / "%2E.%2Fa%20b%2Fc"
