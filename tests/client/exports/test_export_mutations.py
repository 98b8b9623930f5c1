"""Any one change of a good export is found, or changes nothing that a reader takes from it; and it never ends the check
in another way than by an error of ours."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.client.exports.checks import Checked, check_export
from ledger.client.exports.headers import read_shard
from ledger.client.exports.indexes import INDEX
from ledger.client.exports.places import Folder
from ledger.client.recording.files import Files, read_files
from ledger.core.errors import LedgerError
from tests.client.exports.models import ONE, THREE, TWO, base, model


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("good")
    model(root / "export")
    base(root / "base")
    yield root
    shutil.rmtree(root)


def taken(checked: Checked) -> Any:
    """All that a reader of the weights takes from the headers and the index."""
    held = {(t.name, t.dtype, t.shape, t.begin, s.name) for s in checked.shards for t in s.tensors}
    return held, checked.index.weight_map, checked.index.total_size


class Mutated:
    """A file with other bytes, for as long as it is looked at."""

    def __init__(self, path: Path, data: bytes | None) -> None:
        self._path, self._data, self._before = path, data, path.read_bytes()

    def __enter__(self) -> None:
        if self._data is None:
            self._path.unlink()
        else:
            self._path.write_bytes(self._data)

    def __exit__(self, *_: object) -> None:
        self._path.write_bytes(self._before)


def judge(good: Path, files: Files, *, changed: bool) -> None:
    folder = Folder(good / "export")
    try:
        alone, beside = check_export(folder), check_export(folder, base=Folder(good / "base"))
        recorded = check_export(folder, files=files.files)
    except LedgerError:
        pytest.fail("one file of many cannot make the whole place unreadable")
    assert bool(recorded.failed) == changed
    assert {c.name for c in alone.failed} <= {c.name for c in beside.failed}
    if not beside.failed:
        assert taken(beside) == taken(check_export(Folder(good / "base")))


@given(st.sampled_from([ONE, TWO, THREE, INDEX]), st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=1))
def test_one_byte_of_a_header_or_the_index_that_changes_is_found_or_changes_nothing(good, name, where, byte):
    path = good / "export" / name
    files, data = read_files(good / "export"), bytearray(path.read_bytes())
    at = int(where * (len(data) if name == INDEX else read_shard(path).data_begin))
    changed = data[at : at + 1] != byte
    data[at : at + 1] = byte
    with Mutated(path, bytes(data)):
        judge(good, files, changed=changed)


@given(
    st.sampled_from([ONE, TWO, THREE, INDEX]),
    st.floats(0, 1, exclude_max=True),
    st.binary(max_size=9),
    st.integers(0, 9),
)
def test_bytes_that_are_put_in_or_taken_out_are_found_or_change_nothing(good, name, where, more, fewer):
    path = good / "export" / name
    files, before = read_files(good / "export"), path.read_bytes()
    at = int(where * len(before))
    data = before[:at] + more + before[at + fewer :]
    with Mutated(path, data):
        judge(good, files, changed=data != before)


@pytest.mark.parametrize("name", [ONE, TWO, THREE, INDEX, "config.json", "tokenizer.json"])
def test_a_file_that_is_dropped_is_found_by_what_was_recorded(good, name):
    files = read_files(good / "export")
    with Mutated(good / "export" / name, None):
        judge(good, files, changed=True)
