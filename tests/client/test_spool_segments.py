"""Segments: a frame counts when it is whole, wherever a crash cut the file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.client import actor
from ledger.client.recording import segments
from ledger.client.recording.packing import Counted, Kind
from ledger.client.recording.segments import Place, SpoolReader, frame
from ledger.client.requests import freeze_bytes
from ledger.wire import log_pb2

BODIES = [b"first", b"", b"x" * 5_000, b"last one"]


def write(folder, number, bodies, torn=b""):
    segments.path(folder, number).write_bytes(b"".join(map(frame, bodies)) + torn)


def test_what_is_framed_is_read_again_with_the_place_after_it(tmp_path):
    write(tmp_path, 1, BODIES)
    taken = SpoolReader(tmp_path, segments.START).take(10, 1 << 20)
    assert [r.body for r in taken] == BODIES
    assert taken[-1].end == Place(1, segments.path(tmp_path, 1).stat().st_size)


@pytest.mark.parametrize("cut", range(1, len(frame(BODIES[-1])) + 1))
def test_a_tail_that_is_cut_at_any_byte_of_the_last_record_costs_that_record_alone(tmp_path, cut):
    write(tmp_path, 1, BODIES)
    file = segments.path(tmp_path, 1)
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut])
    found = segments.tail(file)
    assert (found.frames, found.last) == (3, BODIES[2])
    assert found.torn == len(frame(BODIES[-1])) - cut


@pytest.mark.parametrize("at", range(len(frame(BODIES[-1]))))
def test_a_flipped_bit_anywhere_in_a_record_is_found(tmp_path, at):
    last = bytearray(frame(BODIES[-1]))
    last[at] ^= 1
    write(tmp_path, 1, BODIES[:-1], torn=bytes(last))
    assert segments.tail(segments.path(tmp_path, 1)).frames == 3


def test_zeros_that_a_power_cut_left_are_no_records(tmp_path):
    write(tmp_path, 1, BODIES, torn=bytes(4096))
    assert segments.tail(segments.path(tmp_path, 1)).torn == 4096


def test_a_reader_goes_on_where_it_stopped_also_in_a_file_that_grows(tmp_path):
    write(tmp_path, 1, BODIES[:1])
    reader = SpoolReader(tmp_path, segments.START)
    assert [r.body for r in reader.take(5, 1 << 20)] == BODIES[:1]
    assert reader.take(5, 1 << 20) == []
    write(tmp_path, 1, BODIES)
    write(tmp_path, 2, [b"next"])
    assert [r.body for r in reader.take(99, 1 << 20)] == [*BODIES[1:], b"next"]


def test_a_record_that_is_still_being_written_is_read_once_it_is_whole(tmp_path):
    write(tmp_path, 1, BODIES[:1], torn=frame(BODIES[1] + b"more")[:-2])
    reader = SpoolReader(tmp_path, segments.START)
    assert len(reader.take(5, 1 << 20)) == 1
    write(tmp_path, 1, [BODIES[0], BODIES[1] + b"more"])
    assert [r.body for r in reader.take(5, 1 << 20)] == [b"more"]


def test_a_torn_segment_that_another_follows_is_left_behind(tmp_path):
    write(tmp_path, 1, BODIES[:1], torn=b"torn")
    write(tmp_path, 3, [b"next"])
    assert [r.body for r in SpoolReader(tmp_path, segments.START).take(9, 1 << 20)] == [BODIES[0], b"next"]


def test_nothing_is_taken_that_ends_after_the_place_allowed(tmp_path):
    write(tmp_path, 1, [b"a", b"b", b"c"])
    size = len(frame(b"a"))
    reader = SpoolReader(tmp_path, segments.START)
    assert [r.body for r in reader.take(9, 1 << 20, Place(1, 2 * size))] == [b"a", b"b"]
    assert reader.take(9, 1 << 20, Place(1, 3 * size - 1)) == []
    assert [r.body for r in reader.take(9, 1 << 20)] == [b"c"]


def test_a_batch_is_bounded_by_bytes_and_holds_one_record_at_least(tmp_path):
    write(tmp_path, 1, [b"x" * 100] * 5)
    reader = SpoolReader(tmp_path, segments.START)
    assert [len(reader.take(9, 250)), len(reader.take(9, 1)), len(reader.take(1, 999)), len(reader.take(9, 999))] == [
        2,
        1,
        1,
        1,
    ]


text = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=150)


@given(
    names=st.tuples(text, text),
    payload=st.binary(max_size=300),
    numbers=st.tuples(st.integers(0, 2**62), st.integers(1, 2**63), st.integers(1, 2**40)),
    tags=st.sets(text, max_size=3),
    causes=st.lists(text, max_size=3),
)
def test_a_draft_packed_by_hand_is_the_draft_that_protobuf_writes(names, payload, numbers, tags, causes):
    stream, by = names
    occurred, seq, epoch = numbers
    kind = Kind("steps.logged", 1, stream, actor(by, "organization"))
    packed = Counted("producer", epoch).join(kind.halves("some-id", payload, occurred, tags, causes), seq)
    meant = log_pb2.Draft(
        id="some-id",
        type="steps.logged",
        type_version=1,
        stream=stream,
        occurred_at_us=occurred,
        actor=actor(by, "organization"),
        causes=causes,
        tags=sorted(tags),
        producer=log_pb2.Producer(id="producer", epoch=epoch, seq=seq),
        payload=payload,
    )
    assert log_pb2.Draft.FromString(packed) == meant


@given(st.lists(st.binary(max_size=300).map(lambda b: log_pb2.Draft(id=b.hex() or "x", payload=b)), max_size=5))
def test_a_request_of_bytes_is_the_request_that_protobuf_writes(drafts):
    frozen = freeze_bytes([d.SerializeToString() for d in drafts])
    assert frozen.data == log_pb2.AppendRequest(drafts=drafts).SerializeToString()
    assert frozen.ids == tuple(d.id for d in drafts)
