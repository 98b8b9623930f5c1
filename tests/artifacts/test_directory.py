"""The folder of evidence bytes, and what a killed upload leaves in it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ledger.artifacts.directory import ABANDONED_SECONDS, ArtifactDirectory
from ledger.core.ids import sha256_hex


@pytest.fixture
def root(tmp_path: Path) -> Path:
    ArtifactDirectory(tmp_path)
    return tmp_path


def left_behind(root: Path, age: float) -> Path:
    """What an upload wrote, and then no more."""
    upload = ArtifactDirectory(root).put("a" * 64, 100)
    upload.write(b"some")
    upload._file.close()
    moment = time.time() - age
    os.utime(upload._temporary, (moment, moment))
    return upload._temporary


def test_opening_removes_what_an_upload_left_behind_more_than_a_day_ago(root: Path) -> None:
    old = left_behind(root, ABANDONED_SECONDS + 60)

    ArtifactDirectory(root)

    assert not old.exists()


def test_opening_leaves_an_upload_alone_that_is_younger_than_a_day(root: Path) -> None:
    young = left_behind(root, ABANDONED_SECONDS - 60)

    ArtifactDirectory(root)

    assert young.exists()


def test_opening_leaves_stored_bytes_alone_however_old(root: Path) -> None:
    name = sha256_hex(b"evidence")
    with ArtifactDirectory(root).put(name, 8) as upload:
        upload.write(b"evidence")
        upload.finish()
    os.utime(root / "sha256" / name[:2] / name, (0, 0))

    assert ArtifactDirectory(root).verify(name)
