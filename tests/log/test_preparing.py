"""A prepared draft against the formulas written out plainly, and every limit exactly at and just beyond it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from ledger.core import clock
from ledger.core.errors import InvalidInput, LedgerError
from ledger.events import REGISTRY
from ledger.log import limits
from ledger.log.fragments import Fragments
from ledger.log.model import Prepared
from ledger.log.preparing import Preparer
from ledger.wire import log_pb2
from tests.log import oracle
from tests.log.builders import ALIAS, Draft, alias, part

SALT = bytes(range(32))
LOG = 'log "\\" 7'
PRINTABLE = st.characters(min_codepoint=0x20, max_codepoint=0x7E)
# Quotes and backslashes are what JSON writes otherwise: they come often.
TEXTS = st.text(st.one_of(PRINTABLE, st.sampled_from('"\\/')), min_size=1, max_size=20)
TIMES = st.one_of(
    st.integers(clock.MIN_US, clock.MAX_US), st.sampled_from([0, -1, 1, 999_999, clock.MIN_US, clock.MAX_US])
)
COUNTS = st.one_of(st.integers(0, 3), st.just(2**53 - 1))


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    made = Draft(
        id=draw(TEXTS),
        type="alias.mapped",
        type_version=draw(st.sampled_from([0, 1])),
        stream="alias/" + draw(TEXTS),
        causes=draw(st.lists(TEXTS, max_size=3)),
        tags=draw(st.lists(TEXTS.filter(lambda t: not t.startswith("collection:")), max_size=4)),
        payload=ALIAS,
    )
    if draw(st.booleans()):
        made.occurred_at_us = draw(TIMES)
    if draw(st.booleans()):
        made.actor.CopyFrom(log_pb2.Actor(id=draw(TEXTS), kind=draw(st.integers(0, 4))))  # type: ignore[arg-type]  # any kind
    if draw(st.booleans()):
        made.producer.CopyFrom(log_pb2.Producer(id=draw(TEXTS), epoch=draw(COUNTS), seq=draw(COUNTS)))
    return made


PREPARER = Preparer(LOG, REGISTRY)


def prepare(draft: Draft, *, principal: str | None = None) -> Prepared:
    return PREPARER.prepare(draft, salt=SALT, principal=principal)


def placed(made: Prepared) -> bytes:
    return made.header(7, "null", "2026-11-30T00:00:00.000000Z", 3)


@given(drafts(), st.none() | TEXTS, st.integers(0, 2**53 - 2), st.none() | st.binary(min_size=32, max_size=32))
def test_the_header_is_the_sorted_json_of_its_values(
    draft: Draft, principal: str | None, pos: int, before: bytes | None
) -> None:
    made = prepare(draft, principal=principal)
    quoted = "null" if before is None else f'"{before.hex()}"'
    header = made.header(pos, quoted, "2026-11-30T00:00:00.000001Z", pos + 1)

    expected = oracle.header(
        draft,
        salt=SALT,
        log=LOG,
        pos=pos,
        sv=pos + 1,
        prev=None if before is None else before.hex(),
        recorded_at="2026-11-30T00:00:00.000001Z",
        principal=principal,
    )
    assert orjson.loads(header) == expected
    assert header == orjson.dumps(expected, option=orjson.OPT_SORT_KEYS)
    assert header == rfc8785.dumps(expected)


@given(drafts())
def test_the_draft_hash_is_that_of_the_formula(draft: Draft) -> None:
    made = prepare(draft)

    assert made.fields == rfc8785.dumps(oracle.fields(draft))
    assert made.draft_hash == oracle.draft_hash(draft, SALT)


@given(drafts())
def test_the_commitment_is_that_of_the_formula(draft: Draft) -> None:
    said = orjson.loads(placed(prepare(draft)))["payload"]

    assert said == {"len": len(draft.payload), "commitment": oracle.commitment(SALT, draft.payload).hex()}


@given(st.lists(drafts(), max_size=5))
def test_a_preparer_that_has_seen_much_prepares_like_a_new_one(many: list[Draft]) -> None:
    for draft in many:
        assert Preparer(LOG, REGISTRY).prepare(draft, salt=SALT) == prepare(draft)


def test_every_draft_of_a_request_has_a_salt_of_its_own() -> None:
    first, second = PREPARER.prepare_all([alias("a"), alias("a")])

    assert isinstance(first, Prepared)
    assert isinstance(second, Prepared)
    assert len(first.salt) == len(second.salt) == 32
    assert first.salt != second.salt


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (1_790_000_000_000_001, "2026-09-21T14:13:20.000001Z"),
        (clock.MIN_US, "0001-01-01T00:00:00.000000Z"),
        (clock.MAX_US, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_occurred_at_is_written_with_microseconds_and_z(us: int, text: str) -> None:
    assert orjson.loads(placed(prepare(alias("a", occurred_at_us=us))))["occurred_at"] == text


def test_an_unknown_time_stays_unknown_and_the_epoch_is_none() -> None:
    assert orjson.loads(placed(prepare(alias("a"))))["occurred_at"] is None
    assert orjson.loads(placed(prepare(alias("a", occurred_at_us=0))))["occurred_at"] is not None


def test_causes_keep_their_order_and_repetitions() -> None:
    made = prepare(alias("a", causes=["z", "a", "z"]))

    assert orjson.loads(placed(made))["causes"] == ["z", "a", "z"]


def test_tags_are_sorted_and_stand_once_each() -> None:
    made = prepare(alias("a", tags=["b", "a", "b", "B"]))

    assert made.tags == ("B", "a", "b")
    assert orjson.loads(placed(made))["tags"] == ["B", "a", "b"]


def test_a_draft_without_an_actor_has_the_unknown_one() -> None:
    assert orjson.loads(placed(prepare(alias("a"))))["actor"] == {"id": "unknown", "kind": "unknown"}


def test_a_draft_without_a_producer_or_principal_says_so() -> None:
    header = orjson.loads(placed(prepare(alias("a"))))

    assert (header["producer"], header["principal"]) == (None, None)


# Limits


def with_actor(actor_id: str, kind: Any = 1) -> Draft:
    return alias("a", actor=log_pb2.Actor(id=actor_id, kind=kind))


def with_producer(producer_id: str, epoch: int = 0, seq: int = 0) -> Draft:
    return alias("a", producer=log_pb2.Producer(id=producer_id, epoch=epoch, seq=seq))


def padded(size: int) -> Draft:
    """A draft with a payload of that many bytes."""
    short = b'{"alias":"a","source_ids":[],"status":"confirmed","applicability":"unknown","evidence":[],"note":"x"}'
    # Spaces before the end are not counted as prose, which has a limit of its own.
    return Draft(id="i", type="alias.mapped", stream="alias/a", payload=short[:-1] + b" " * (size - len(short)) + b"}")


AT_THE_LIMIT = {
    "id": alias("a", id="i" * 512),
    "stream": alias("a", stream="alias/" + "s" * 506),
    "actor": with_actor("a" * 256),
    "tag": alias("a", tags=["t" * 128]),
    "tags": alias("a", tags=[f"t{n}" for n in range(32)]),
    "repeated tags": alias("a", tags=["t"] * 100),
    "cause": alias("a", causes=["c" * 512]),
    "causes": alias("a", causes=["c"] * 256),
    "producer": with_producer("p" * 256),
    "producer counts": with_producer("p", 2**53 - 1, 2**53 - 1),
    "payload": padded(1 << 20),
    "earliest": alias("a", occurred_at_us=clock.MIN_US),
    "latest": alias("a", occurred_at_us=clock.MAX_US),
}
BEYOND = {
    "id": (alias("a", id="i" * 513), "id"),
    "no id": (alias("a", id=""), "id"),
    "control in id": (alias("a", id="a\nb"), "id"),
    "delete in id": (alias("a", id="a\x7f"), "id"),
    "letter in id": (alias("a", id="é"), "id"),
    "stream": (alias("a", stream="alias/" + "s" * 507), "stream"),
    "no stream": (alias("a", stream=""), "stream"),
    "stream without name": (alias("a", stream="alias/"), "stream"),
    "stream without slash": (alias("a", stream="alias"), "stream"),
    "stream of another kind": (alias("a", stream="source/a"), "stream"),
    "letter in stream": (alias("a", stream="alias/é"), "stream"),
    "actor": (with_actor("a" * 257), "actor"),
    "no actor id": (with_actor(""), "actor"),
    "actor kind": (with_actor("a", 5), "actor"),
    "tag": (alias("a", tags=["a", "t" * 129]), "tags[1]"),
    "empty tag": (alias("a", tags=["a", ""]), "tags[0]"),
    "letter in tag": (alias("a", tags=["é"]), "tags[0]"),
    "tags": (alias("a", tags=[f"t{n}" for n in range(33)]), "tags"),
    "cause": (alias("a", causes=["a", "c" * 513]), "causes[1]"),
    "empty cause": (alias("a", causes=[""]), "causes[0]"),
    "causes": (alias("a", causes=["c"] * 257), "causes"),
    "producer": (with_producer("p" * 257), "producer"),
    "no producer id": (with_producer(""), "producer"),
    "producer epoch": (with_producer("p", epoch=2**53), "producer"),
    "producer seq": (with_producer("p", seq=2**53), "producer"),
    "payload": (padded((1 << 20) + 1), "payload"),
    "too early": (alias("a", occurred_at_us=clock.MIN_US - 1), "occurred_at_us"),
    "too late": (alias("a", occurred_at_us=clock.MAX_US + 1), "occurred_at_us"),
}
TOO_LARGE = {"tags", "causes", "payload"}


@pytest.mark.parametrize("draft", AT_THE_LIMIT.values(), ids=AT_THE_LIMIT.keys())
def test_what_reaches_a_limit_is_taken(draft: Draft) -> None:
    made = prepare(draft)

    assert orjson.loads(placed(made))["id"] == draft.id


@pytest.mark.parametrize(("draft", "place"), BEYOND.values(), ids=BEYOND.keys())
def test_what_is_beyond_a_limit_is_refused_with_its_place(draft: Draft, place: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        prepare(draft)

    assert [p.place for p in caught.value.problems] == [place]
    assert caught.value.reason == ("TOO_LARGE" if place in TOO_LARGE else "INVALID_ARGUMENT")
    assert caught.value.message.startswith(place)
    assert caught.value.remedy


def test_the_limits_are_those_of_the_table() -> None:
    """The cases above are written as numbers; this ties them to what GetInfo shows."""
    shown = (limits.ID_BYTES, limits.STREAM_BYTES, limits.ACTOR_BYTES, limits.TAG_BYTES, limits.TAGS, limits.CAUSES)

    assert shown == (512, 512, 256, 128, 32, 256)
    assert (limits.PAYLOAD_BYTES, limits.HEADER_BYTES) == (1 << 20, 65_535)


def test_every_fault_of_a_header_is_reported_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        prepare(alias("a", id="", tags=["é", "ok"], causes=["", "x"], stream="run/1"))

    assert {p.place for p in caught.value.problems} == {"id", "stream", "tags[1]", "causes[0]"}


def heavy(causes: int, last: int) -> Draft:
    """Headers near their limit are made by causes."""
    return alias("a", id="i", causes=["c" * 512] * causes + ["c" * last])


def test_a_header_up_to_its_limit_is_taken_and_one_byte_more_is_refused() -> None:
    room = next(n for n in range(1, 513) if not taken(heavy(126, n + 1)))

    made = prepare(heavy(126, room))
    latest = made.header(2**64 - 1, '"' + "f" * 64 + '"', "2026-11-30T00:00:00.000000Z", 10**20 - 1)
    assert len(latest) == limits.HEADER_BYTES
    with pytest.raises(InvalidInput) as caught:
        prepare(heavy(126, room + 1))
    assert caught.value.reason == "TOO_LARGE"
    assert [p.place for p in caught.value.problems] == ["causes"]
    assert "65536 bytes, at most 65535" in caught.value.message


def taken(draft: Draft) -> bool:
    try:
        prepare(draft)
    except LedgerError:
        return False
    return True


# Collections


def test_a_part_needs_the_tag_of_its_collection() -> None:
    made = part("c-1")
    del made.tags[:]

    with pytest.raises(InvalidInput, match="names the collection 'c-1', the tags name") as caught:
        prepare(made)
    assert [p.place for p in caught.value.problems] == ["tags"]


@pytest.mark.parametrize("tags", [["collection:c-2"], ["collection:"], ["collection:c-10"]])
def test_a_part_may_carry_no_other_collections_tag(tags: list[str]) -> None:
    with pytest.raises(InvalidInput, match="the tags name"):
        prepare(part("c-1", tags=tags))


def test_a_draft_whose_payload_has_no_collection_may_not_carry_such_a_tag() -> None:
    with pytest.raises(InvalidInput, match=r"names the collection None, the tags name \['c-1'\]"):
        prepare(alias("a", tags=["collection:c-1"]))


def test_a_tag_that_only_looks_like_a_collections_is_taken() -> None:
    odd = ['x"collection:c-1', "Collection:c-1", "a collection:c-1"]

    assert set(prepare(part("c-1", tags=odd)).tags) == {"collection:c-1", *odd}
    assert set(prepare(alias("a", tags=odd)).tags) == set(odd)


# Payloads


def test_a_payload_that_is_not_of_its_type_is_refused_with_its_pointer() -> None:
    wrong = Draft(id="i", type="alias.mapped", stream="alias/a", payload=ALIAS.replace(b'"confirmed"', b'"sure"'))

    with pytest.raises(InvalidInput) as caught:
        prepare(wrong)
    assert caught.value.reason == "INVALID_PAYLOAD"
    assert [p.place for p in caught.value.problems] == ["/status"]


def test_an_unknown_type_is_refused_with_the_versions_that_are_known() -> None:
    for draft, known in (
        (Draft(id="i", type="alias.mapped", type_version=9, stream="alias/a"), "1"),
        (Draft(id="i", type="alias.unheard", stream="alias/a"), ""),
    ):
        with pytest.raises(InvalidInput) as caught:
            prepare(draft)
        assert (caught.value.reason, caught.value.details["known_versions"]) == ("UNKNOWN_EVENT_TYPE", known)


def test_a_refused_draft_says_which_one_of_the_request_it_is() -> None:
    good, bad = PREPARER.prepare_all([alias("a"), alias("a", id="é" * 600)])

    assert isinstance(good, Prepared)
    assert isinstance(bad, LedgerError)
    assert bad.details == {"draft": "1", "id": "é" * 512}


def test_the_caches_stay_bounded() -> None:
    many = Fragments()
    kind = REGISTRY.get("alias.mapped", 1)
    for n in range(20_001):
        assert many.stream(f"alias/{n}", kind) == f'","stream":"alias/{n}","sv":'
    assert len(many._streams) == 1
