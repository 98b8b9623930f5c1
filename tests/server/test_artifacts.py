"""Evidence bytes through the door: whole or not at all."""

from __future__ import annotations

import random
import time
from pathlib import Path

import grpc
import pytest

from ledger.core.ids import sha256_hex
from ledger.wire import artifacts_pb2
from tests.server.doors import Doors, failure


def get(doors: Doors, name: str) -> bytes:
    first, *rest = doors.artifacts.Get(artifacts_pb2.GetArtifactRequest(sha256=name))
    content = b"".join(message.chunk for message in rest)
    assert (first.artifact.sha256, first.artifact.size) == (name, len(content))
    assert all(len(message.chunk) <= 1 << 20 for message in rest)
    return content


def stats(doors: Doors, *names: str) -> list[int | None]:
    answer = doors.artifacts.Stat(artifacts_pb2.StatArtifactsRequest(sha256=names))
    assert [a.sha256 for a in answer.artifacts] == list(names)
    return [a.size if a.HasField("size") else None for a in answer.artifacts]


@pytest.mark.parametrize("size", [0, 1, (1 << 20) + 1, 20 << 20])
def test_what_was_put_is_got_whatever_its_size(size: int, doors: Doors) -> None:
    content = random.Random(size).randbytes(size)
    put = doors.put(content)
    assert (put.sha256, put.size) == (sha256_hex(content), size)
    assert get(doors, put.sha256) == content
    assert stats(doors, put.sha256, sha256_hex(b"not there")) == [size, None]


def test_putting_the_same_bytes_again_changes_nothing(doors: Doors) -> None:
    assert doors.put(b"evidence") == doors.put(b"evidence", chunk=3)
    assert get(doors, sha256_hex(b"evidence")) == b"evidence"


@pytest.mark.parametrize(
    "how",
    [
        {"name": sha256_hex(b"something else")},
        {"size": 7},
        {"size": 9},
    ],
)
def test_bytes_that_are_not_the_ones_announced_are_not_kept(how: dict, doors: Doors, tmp_path: Path) -> None:
    failed = failure(lambda: doors.put(b"evidence", **how))
    assert (failed.reason, failed.code) == ("HASH_MISMATCH", grpc.StatusCode.FAILED_PRECONDITION)
    assert stats(doors, how.get("name", sha256_hex(b"evidence"))) == [None]
    assert [p for p in (tmp_path / "home" / "artifacts").rglob("*") if p.is_file()] == []


def test_an_upload_that_is_given_up_leaves_nothing(doors: Doors, tmp_path: Path) -> None:
    announced = artifacts_pb2.PutArtifactRequest(artifact=artifacts_pb2.Artifact(sha256=sha256_hex(b"x"), size=100))

    def broken():
        yield announced
        yield artifacts_pb2.PutArtifactRequest(chunk=b"some")
        raise ValueError("the caller stops here")

    with pytest.raises(grpc.RpcError):
        doors.artifacts.Put(broken())
    assert stats(doors, sha256_hex(b"x")) == [None]
    until = time.monotonic() + 10
    while (left := list((tmp_path / "home" / "artifacts" / "incoming").iterdir())) and time.monotonic() < until:
        time.sleep(0.02)  # the server hears of it a moment later
    assert left == []


def test_bytes_that_are_not_stored_are_not_found(doors: Doors) -> None:
    name = sha256_hex(b"never put")
    failed = failure(lambda: list(doors.artifacts.Get(artifacts_pb2.GetArtifactRequest(sha256=name))))
    assert (failed.reason, name in failed.text) == ("NOT_FOUND", True)


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "INVALID_ARGUMENT"),
        ([artifacts_pb2.PutArtifactRequest(chunk=b"x")], "INVALID_ARGUMENT"),
        ([artifacts_pb2.PutArtifactRequest(artifact=artifacts_pb2.Artifact(sha256="A" * 64))], "INVALID_ARGUMENT"),
        ([artifacts_pb2.PutArtifactRequest(artifact=artifacts_pb2.Artifact(sha256="../x"))], "INVALID_ARGUMENT"),
        (
            [artifacts_pb2.PutArtifactRequest(artifact=artifacts_pb2.Artifact(sha256="a" * 64, size=1))] * 2,
            "INVALID_ARGUMENT",
        ),
        (
            [
                artifacts_pb2.PutArtifactRequest(artifact=artifacts_pb2.Artifact(sha256="a" * 64, size=2 << 20)),
                artifacts_pb2.PutArtifactRequest(chunk=bytes((1 << 20) + 1)),
            ],
            "TOO_LARGE",
        ),
    ],
)
def test_an_upload_out_of_form_is_refused(messages: list, reason: str, doors: Doors) -> None:
    failed = failure(lambda: doors.artifacts.Put(iter(messages)))
    assert (failed.reason, bool(failed.remedy)) == (reason, True)
