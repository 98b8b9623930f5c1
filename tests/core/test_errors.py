"""One error table for every door."""

from __future__ import annotations

import pickle

import grpc
import pytest

from ledger.core import errors
from ledger.core.errors import REASONS, Broken, InvalidInput, LedgerError, NotFound, Problem, Refused, Unavailable

EXIT_CODES = {1, 2, 3, 4, 5, 6, 130}
"""0 is success; the others are the command's documented ones."""

CLASSES = [LedgerError, InvalidInput, Refused, NotFound, Unavailable, Broken]


@pytest.mark.parametrize("reason", sorted(REASONS))
class TestEveryReason:
    def test_is_upper_snake(self, reason: str) -> None:
        assert reason.replace("_", "").isalpha()
        assert reason == reason.upper()

    def test_has_the_name_of_a_grpc_status_that_is_an_error(self, reason: str) -> None:
        assert grpc.StatusCode[REASONS[reason].grpc] is not grpc.StatusCode.OK

    def test_has_an_http_status_that_is_an_error(self, reason: str) -> None:
        assert 400 <= REASONS[reason].http <= 599

    def test_has_a_documented_exit_code(self, reason: str) -> None:
        assert REASONS[reason].exit in EXIT_CODES

    def test_says_in_a_line_what_it_means(self, reason: str) -> None:
        meaning = REASONS[reason].meaning

        assert 10 < len(meaning) < 80
        assert meaning.isprintable()
        assert not meaning.endswith(".")


def test_every_exit_code_is_met_by_some_reason() -> None:
    assert {door.exit for door in REASONS.values()} == EXIT_CODES


def test_no_two_reasons_mean_the_same() -> None:
    assert len({door.meaning for door in REASONS.values()}) == len(REASONS)


def test_what_may_be_repeated_has_exit_code_6_and_a_status_that_clients_retry_or_report_as_late() -> None:
    repeatable = {"UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"}

    assert {r for r, d in REASONS.items() if d.exit == 6} == {r for r, d in REASONS.items() if d.grpc in repeatable}


@pytest.mark.parametrize("error", CLASSES)
def test_a_class_has_a_reason_of_its_own_in_the_table(error: type[LedgerError]) -> None:
    assert error("what happened").door is REASONS[error.default_reason]


def test_no_error_class_is_missing_here() -> None:
    found = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, LedgerError)]

    assert set(found) == set(CLASSES)


def test_a_reason_outside_the_table_is_a_fault_of_the_program() -> None:
    with pytest.raises(ValueError, match="unknown reason NO_SUCH"):
        LedgerError("x", reason="NO_SUCH")


def test_an_error_is_written_in_one_shape() -> None:
    error = Refused(
        "the source has an open defect",
        remedy="Resolve it first.",
        details={"defect": "d1"},
        problems=[Problem("/review", "rests on it")],
    )

    assert error.to_dict() == {
        "reason": "REFUSED_BY_RULES",
        "message": "the source has an open defect",
        "remedy": "Resolve it first.",
        "details": {"defect": "d1"},
        "problems": [{"place": "/review", "message": "rests on it"}],
    }
    assert str(error) == "the source has an open defect"


def test_an_error_crosses_processes_whole() -> None:
    error = NotFound("no such source", remedy="List them.", details={"id": "x"}, problems=[Problem("/id", "unknown")])

    assert pickle.loads(pickle.dumps(error)).to_dict() == error.to_dict()
