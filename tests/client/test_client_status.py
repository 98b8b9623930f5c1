"""Errors cross the wire whole, and always fit."""

from __future__ import annotations

from urllib.parse import quote

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

from ledger.client.status import (
    MAX_PROBLEMS,
    MAX_TEXT,
    from_refusal,
    from_rpc_error,
    from_status,
    grpc_code,
    to_refusal,
    to_status,
    trailers,
)
from ledger.core.errors import REASONS, InvalidInput, LedgerError, NotFound, Problem, Unavailable
from ledger.wire import log_pb2

short = st.text(st.characters(codec="utf-8"), max_size=20)
names = st.from_regex(r"[a-z_]{1,12}", fullmatch=True).filter(lambda n: n not in {"remedy", "problems_left_out"})
small_errors = st.builds(
    lambda reason, message, remedy, details, problems: LedgerError(
        message, reason=reason, remedy=remedy, details=details, problems=problems
    ),
    st.sampled_from(sorted(REASONS)),
    short,
    short,
    st.dictionaries(names, short, max_size=4),
    st.lists(st.builds(Problem, short, short), max_size=5),
)
anything = st.text(max_size=3_000)
large_errors = st.builds(
    lambda message, remedy, details, problems: LedgerError(message, remedy=remedy, details=details, problems=problems),
    anything,
    anything,
    st.dictionaries(names, anything, max_size=8),
    st.lists(st.builds(Problem, anything, anything), max_size=60),
)


class FailedCall(grpc.RpcError, grpc.Call):
    def __init__(self, code, details, trailing=()):
        self._code, self._details, self._trailing = code, details, trailing

    def code(self):
        return self._code

    def details(self):
        return self._details

    def trailing_metadata(self):
        return self._trailing

    initial_metadata = is_active = time_remaining = cancel = add_callback = None


FailedCall.__abstractmethods__ = frozenset()


@given(small_errors)
def test_an_error_comes_back_from_a_status_as_it_went_in(error):
    status = status_pb2.Status.FromString(to_status(error).SerializeToString())
    back = from_status(status)
    assert back is not None
    assert error.to_dict() == back.to_dict()
    assert grpc_code(error).value[0] == status.code


@given(small_errors)
def test_an_error_comes_back_from_a_refusal_as_it_went_in(error):
    refusal = log_pb2.Refusal.FromString(to_refusal(error).SerializeToString())
    assert error.to_dict() == from_refusal(refusal).to_dict()


@given(large_errors)
def test_a_status_and_its_message_fit_into_the_metadata_that_peers_accept(error):
    status = to_status(error)
    size = status.ByteSize()
    assert size < 6 * 1024
    assert (size + 2) // 3 * 4 + len(quote(status.message, safe=" ")) < 8 * 1024
    back = from_status(status)
    assert back is not None
    assert back.reason == error.reason


def test_problems_that_were_left_out_are_counted():
    error = InvalidInput("many", problems=[Problem(f"/{n}", "wrong") for n in range(80)])
    for back in (from_status(to_status(error)), from_refusal(to_refusal(error))):
        assert len(back.problems) == MAX_PROBLEMS
        assert back.details["problems_left_out"] == "30"


def test_a_text_that_was_cut_says_so():
    back = from_status(to_status(InvalidInput("x", remedy="é" * MAX_TEXT)))
    assert back.remedy.endswith("…")
    assert len(back.remedy.encode()) <= MAX_TEXT


def test_a_lone_surrogate_does_not_stop_an_error():
    assert from_status(to_status(InvalidInput("bad \ud800 text"))).message == "bad ? text"


def test_a_delay_is_told_to_clients_that_know_only_the_standard_details():
    status = to_status(Unavailable("full", reason="QUEUE_FULL", details={"retry_after_ms": "1500"}))
    found = error_details_pb2.RetryInfo()
    assert any(d.Unpack(found) for d in status.details)
    assert found.retry_delay.ToMilliseconds() == 1500


@pytest.mark.parametrize(
    ("code", "text", "reason"),
    [
        (grpc.StatusCode.UNAVAILABLE, "connection refused", "UNAVAILABLE"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", "DEADLINE"),
        (grpc.StatusCode.UNKNOWN, "boom", "INTERNAL"),
        (grpc.StatusCode.UNIMPLEMENTED, "Method not found!", "NOT_SUPPORTED"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "slow down", "QUEUE_FULL"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "Received message larger than max (9 vs. 4)", "TOO_LARGE"),
        (grpc.StatusCode.UNAUTHENTICATED, "no token", "NOT_PERMITTED"),
    ],
)
def test_an_error_that_is_not_the_ledgers_own_gets_a_reason_and_a_remedy(code, text, reason):
    error = from_rpc_error(FailedCall(code, text), "host:1")
    assert error.reason == reason
    assert error.remedy
    assert text in error.message
    assert "host:1" in error.message


def test_a_failed_call_with_our_details_is_the_error_that_the_server_raised():
    sent = NotFound("no source x", remedy="look elsewhere", details={"id": "x"})
    error = from_rpc_error(FailedCall(grpc.StatusCode.NOT_FOUND, "no source x", trailers(sent)))
    assert isinstance(error, NotFound)
    assert error.to_dict() == sent.to_dict()


@pytest.mark.parametrize("trailer", [b"\xff\xff\xff", b"", "text"])
def test_a_trailer_that_cannot_be_read_leaves_the_plain_status(trailer):
    call = FailedCall(grpc.StatusCode.UNAVAILABLE, "gone", [("grpc-status-details-bin", trailer)])
    assert from_rpc_error(call).reason == "UNAVAILABLE"


def test_details_of_another_service_are_not_taken_for_the_ledgers():
    packed = any_pb2.Any()
    packed.Pack(error_details_pb2.ErrorInfo(reason="NOT_FOUND", domain="example.com"))
    assert from_status(status_pb2.Status(code=5, details=[packed])) is None


def test_a_reason_of_a_newer_server_is_kept_for_programs():
    error = from_refusal(log_pb2.Refusal(reason="BRAND_NEW", message="m", remedy="r"))
    assert error.reason == "INTERNAL"
    assert error.details == {"reason": "BRAND_NEW"}
