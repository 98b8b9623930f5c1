"""Writing: nothing lost, nothing doubled, and the same bytes on every try."""

from __future__ import annotations

import hashlib

import pytest

from ledger.client import LedgerError, Publication, Writer, actor, connect, draft, pipeline, requests
from ledger.client.drafts import Upload
from ledger.client.retry import Patience
from ledger.client.writer import raise_refused
from ledger.core.errors import Broken, Unavailable
from ledger.events.catalogue import SourceRetired
from ledger.wire import log_pb2

BY = actor("someone")


def some(count, type_="source.retired"):
    made = [
        draft("source.retired", f"source/s{n}", SourceRetired(collection="c", reason="r"), by=BY) for n in range(count)
    ]
    for one in made:
        one.type = type_
    return made


class Sleeper:
    """Time that passes only by sleeping."""

    def __init__(self):
        self.slept = []

    def patience(self, total=60.0):
        return Patience(total=total, sleep=self.slept.append, now=lambda: sum(self.slept), chance=lambda: 1.0)


@pytest.fixture
def sleeper():
    return Sleeper()


@pytest.fixture
def writer(connection, sleeper):
    return Writer(connection, batch=3, patience=sleeper.patience())


def test_an_append_has_a_receipt_for_each_draft_in_order(writer, ledger):
    receipts = writer.append(some(2))
    assert [r.pos for r in receipts] == [0, 1]
    assert [r.already_recorded for r in receipts] == [False, False]
    assert writer.size == 2


def test_a_try_that_was_recorded_though_it_failed_is_repeated_with_the_same_bytes(writer, ledger, sleeper):
    ledger.faults = ["before", "after"]
    drafts = some(2)
    receipts = writer.append(drafts, atomic=True)
    assert len(ledger.received) == 3
    assert len(set(ledger.received)) == 1
    assert len(ledger.events) == 2
    assert all(r.already_recorded for r in receipts)


def test_changing_a_draft_while_it_is_sent_changes_nothing_that_is_sent(connection, ledger):
    drafts = some(1)

    def change(_):
        drafts[0].stream = "source/other"

    ledger.faults = ["before"]
    Writer(connection, patience=Patience(sleep=change)).append(drafts)
    assert len(set(ledger.received)) == 1


def test_appending_again_later_is_answered_with_the_first_receipts(writer):
    drafts = some(2)
    first = writer.append(drafts)
    again = writer.append(drafts)
    assert [r.pos for r in again] == [r.pos for r in first]
    assert all(r.already_recorded for r in again)


def test_delays_double_and_are_never_shorter_than_the_server_asked_for(writer, ledger, sleeper):
    ledger.faults = ["before", "before", "full"]
    writer.append(some(1))
    assert sleeper.slept == pytest.approx([0.1, 0.2, 1.5 + 0.4])


def test_patience_ends_with_the_servers_own_error(connection, ledger, sleeper):
    ledger.faults = ["full"] * 100
    with pytest.raises(Unavailable) as caught:
        Writer(connection, patience=sleeper.patience(total=4.0)).append(some(1))
    assert caught.value.reason == "QUEUE_FULL"
    assert sum(sleeper.slept) <= 4.0
    assert len(ledger.received) == len(sleeper.slept) + 1


def test_a_refusal_is_not_repeated(writer, ledger):
    ledger.refused_types = {"source.retired"}
    with pytest.raises(LedgerError, match="the rules say no") as caught:
        writer.append(some(1), atomic=True)
    assert caught.value.remedy == "Mend it."
    assert len(ledger.received) == 1


def test_what_may_be_split_goes_in_batches(writer, ledger):
    receipts = writer.append(some(7))
    assert [len(log_pb2.AppendRequest.FromString(r).drafts) for r in ledger.received] == [3, 3, 1]
    assert [r.pos for r in receipts] == list(range(7))


def test_what_has_conditions_or_is_atomic_is_never_split(writer, ledger):
    condition = log_pb2.Condition(stream_version=log_pb2.StreamVersion(stream="source/s0", none=True))
    writer.append(some(7), [condition])
    writer.append(some(7), atomic=True)
    assert len(ledger.received) == 2


def test_a_request_beyond_the_limits_is_refused_before_it_is_sent(writer, ledger, monkeypatch):
    monkeypatch.setattr(requests, "MAX_EVENTS", 5)
    with pytest.raises(LedgerError) as caught:
        writer.append(some(6), atomic=True)
    assert caught.value.reason == "TOO_LARGE"
    assert ledger.received == []


def test_a_split_keeps_every_request_within_the_bytes_allowed(monkeypatch):
    drafts = some(50)
    monkeypatch.setattr(requests, "MAX_BYTES", 1_000)
    frozen = list(requests.freeze_split(drafts, 500))
    assert all(len(f.data) <= 1_000 for f in frozen)
    assert [d.id for d in drafts] == [i for f in frozen for i in f.ids]
    assert len(frozen) > 5


def test_drafts_refused_alone_are_named_in_their_receipts_and_raised_together(writer, ledger):
    drafts = [*some(1), *some(2, "source.revised")]
    ledger.refused_types = {"source.revised"}
    receipts = writer.append(drafts)
    assert [r.HasField("refusal") for r in receipts] == [False, True, True]
    with pytest.raises(LedgerError, match="2 of 3") as caught:
        raise_refused(drafts, receipts)
    assert caught.value.reason == "REFUSED_BY_RULES"
    assert [p.place for p in caught.value.problems] == [f"source.revised {d.id}" for d in drafts[1:]]


def test_an_answer_with_too_few_receipts_counts_for_nothing(writer, ledger):
    ledger.wrong_receipts = True
    with pytest.raises(Broken) as caught:
        writer.append(some(2))
    assert caught.value.reason == "VERIFICATION_FAILED"


@pytest.mark.parametrize(
    ("receipts", "what"),
    [
        ([log_pb2.Receipt(pos=0, stream_version=1, leaf_hash=bytes(31))] * 2, "leaf hash"),
        ([log_pb2.Receipt(pos=9, stream_version=1, leaf_hash=bytes(32))] * 2, "position 9"),
        ([log_pb2.Receipt(pos=0, stream_version=0, leaf_hash=bytes(32))] * 2, "stream version 0"),
        ([log_pb2.Receipt(pos=0, stream_version=1, leaf_hash=bytes(32))] * 2, "one position for two events"),
        ([log_pb2.Receipt(refusal=log_pb2.Refusal(reason="INTERNAL"))] * 2, "all or nothing"),
    ],
)
def test_a_receipt_that_cannot_be_is_not_believed(receipts, what):
    frozen = requests.freeze(some(2), atomic=True)
    with pytest.raises(Broken, match=what):
        requests.check(frozen, log_pb2.AppendResponse(receipts=receipts, size=2))


def test_one_id_sent_twice_has_one_position():
    twice = some(1) * 2
    receipt = log_pb2.Receipt(pos=0, stream_version=1, leaf_hash=bytes(32))
    requests.check(requests.freeze(twice), log_pb2.AppendResponse(receipts=[receipt] * 2, size=1))
    other = log_pb2.Receipt(pos=1, stream_version=2, leaf_hash=bytes(32))
    with pytest.raises(Broken, match="two positions"):
        requests.check(requests.freeze(twice), log_pb2.AppendResponse(receipts=[receipt, other], size=2))


# Publications


def publication(count=2, **more):
    return Publication(parts=tuple(some(count)), closing=some(1, "catalogue.synced")[0], **more)


def test_a_publication_that_fits_is_one_atomic_request_with_its_conditions(writer, ledger):
    condition = log_pb2.Condition(stream_version=log_pb2.StreamVersion(stream="origin/o", none=True))
    receipts = writer.publish(publication(conditions=(condition,)))
    (sent,) = map(log_pb2.AppendRequest.FromString, ledger.received)
    assert sent.atomic
    assert list(sent.conditions) == [condition]
    assert len(receipts) == len(sent.drafts) == 3


def test_a_publication_too_large_for_one_request_sends_its_parts_first_and_its_closing_alone(
    writer, ledger, monkeypatch
):
    monkeypatch.setattr(requests, "MAX_EVENTS", 5)
    condition = log_pb2.Condition(stream_version=log_pb2.StreamVersion(stream="origin/o", none=True))
    receipts = writer.publish(publication(7, conditions=(condition,)))
    sent = list(map(log_pb2.AppendRequest.FromString, ledger.received))
    assert [len(r.drafts) for r in sent] == [3, 3, 1, 1]
    assert [r.atomic for r in sent] == [False, False, False, True]
    assert [len(r.conditions) for r in sent] == [0, 0, 0, 1]
    assert sent[-1].drafts[0].type == "catalogue.synced"
    assert [r.pos for r in receipts] == list(range(8))


def test_a_publication_that_stopped_half_way_is_brought_to_its_end(writer, ledger):
    whole = publication(4)
    writer.append(whole.parts[:2])
    receipts = writer.publish(whole)
    assert [r.already_recorded for r in receipts] == [True, True, False, False, False]
    assert len(ledger.events) == 5


def test_publishing_twice_records_it_once(writer, ledger):
    whole = publication()
    writer.publish(whole)
    assert all(r.already_recorded for r in writer.publish(whole))
    assert len(ledger.events) == 3


def test_a_refused_part_keeps_the_closing_back(writer, ledger, monkeypatch):
    monkeypatch.setattr(requests, "MAX_EVENTS", 3)
    ledger.refused_types = {"source.retired"}
    with pytest.raises(LedgerError, match="3 of 3"):
        writer.publish(publication(3))
    assert ledger.events == []


def test_conditions_on_parts_without_a_closing_are_never_dropped(writer, ledger):
    condition = log_pb2.Condition(stream_version=log_pb2.StreamVersion(stream="origin/o", none=True))
    parts = tuple(some(2))
    writer.append(parts[:1])
    with pytest.raises(LedgerError) as caught:
        writer.publish(Publication(parts=parts, conditions=(condition,)))
    assert caught.value.reason == "PARTLY_RECORDED"


def test_evidence_is_stored_before_the_events_and_only_where_it_is_missing(writer, ledger, tmp_path):
    file = tmp_path / "evidence"
    file.write_bytes(b"new")
    old, new = (hashlib.sha256(b).hexdigest() for b in (b"old", b"new"))
    ledger.artifacts[old] = b"old"
    writer.publish(publication(uploads=(Upload(old, 3, b"old"), Upload(new, 3, file), Upload(new, 3, file))))
    assert ledger.asked == [[3]]
    assert ledger.artifacts[new] == b"new"


def test_a_file_that_changed_since_it_was_hashed_stops_the_publication(writer, ledger):
    with pytest.raises(LedgerError) as caught:
        writer.publish(publication(uploads=(Upload("0" * 64, 3, b"new"),)))
    assert caught.value.reason == "HASH_MISMATCH"
    assert ledger.events == []


def test_a_publication_of_nothing_sends_nothing(writer, ledger):
    assert writer.publish(Publication()) == []
    assert writer.append([]) == []
    assert ledger.received == []


def test_an_artifact_goes_up_in_chunks_of_at_most_a_mebibyte(writer, ledger):
    data = bytes(2 * 1024 * 1024 + 5)
    stored = writer.put_artifact(data)
    assert stored.size == len(data)
    assert stored.sha256 == hashlib.sha256(data).hexdigest()
    assert ledger.asked == [[1024 * 1024, 1024 * 1024, 5]]


def test_an_empty_artifact_is_an_artifact(writer, ledger):
    assert writer.put_artifact(b"").sha256 == hashlib.sha256(b"").hexdigest()


def test_a_file_that_is_not_there_is_named(writer, tmp_path):
    with pytest.raises(LedgerError, match="missing") as caught:
        writer.put_artifact(tmp_path / "missing")
    assert caught.value.reason == "INVALID_FILE"


# The stream


def test_a_stream_answers_in_order_and_keeps_its_requests_within_the_bound(connection, ledger):
    taken = []

    def source():
        for number, one in enumerate(some(40)):
            taken.append(number)
            yield one

    writer = Writer(connection, batch=2)
    receipts = writer.stream(source(), in_flight=3)
    first = next(receipts)
    assert first.pos == 0
    # Three requests of two, and the draft that showed that the third was full.
    assert len(taken) <= 7
    assert [first.pos, *(r.pos for r in receipts)] == list(range(40))
    assert writer.size == 40


def test_a_broken_stream_sends_again_what_was_not_answered_and_doubles_nothing(connection, ledger, sleeper):
    ledger.faults = ["", "after", "", "before"]
    drafts = some(12)
    receipts = list(Writer(connection, batch=2, patience=sleeper.patience()).stream(drafts, in_flight=4))
    assert [r.pos for r in receipts] == list(range(12))
    assert len(ledger.events) == 12
    assert len(sleeper.slept) == 2
    assert len(set(ledger.received)) == 6


def test_a_request_refused_as_a_whole_ends_the_stream_with_its_error(connection, ledger):
    drafts = some(2)
    Writer(connection).append(drafts)
    drafts[1].stream = "source/other"
    with pytest.raises(LedgerError) as caught:
        list(Writer(connection).stream(drafts))
    assert caught.value.reason == "ID_CONFLICT"


def test_a_stream_of_nothing_yields_nothing(connection):
    assert list(Writer(connection).stream([])) == []


def test_a_stream_that_is_left_early_ends_its_call(connection, ledger):
    frozen = requests.freeze_split(some(6), 1)
    answers = pipeline.run(connection, frozen, in_flight=2, patience=Patience())
    next(answers)
    answers.close()
    assert Writer(connection).append(some(1))


def test_a_batch_that_no_request_can_hold_is_refused(connection):
    with pytest.raises(LedgerError, match="batch of 0"):
        Writer(connection, batch=0)


def test_a_ledger_that_is_not_there_is_unreachable(sleeper):
    with connect("127.0.0.1:9", timeout=2) as nowhere, pytest.raises(Unavailable) as caught:
        Writer(nowhere, patience=sleeper.patience(total=0.5)).append(some(1))
    assert caught.value.door.exit == 6
    assert "127.0.0.1:9" in caught.value.message
