"""Rows into Parquet shards, `data/train-00000-of-0000N.parquet`: the same rows give the same bytes.

Every setting that bears on the bytes is named, and nothing of the machine or the moment is written; another version of
the Parquet library may write other bytes. Row groups are cut by size, so that no more than one is held.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from ledger.core.errors import LedgerError
from services.adapters.traces.rows import Row

MAX_GROUP_BYTES: Final = 32 << 20
"""Of a row group, as the rows lie unpacked; a row that is larger has one to itself."""
_SETTINGS: Final[dict[str, Any]] = {
    "version": "2.6",
    "data_page_version": "1.0",
    "compression": "zstd",
    "compression_level": 3,
    "use_dictionary": True,
    "write_statistics": True,
    "data_page_size": 1 << 20,
    "store_schema": False,
}
_KINDS: Final[dict[str, str]] = {"str": "string", "int": "int64", "float": "float64", "bool": "bool_"}


@dataclass(frozen=True)
class Shard:
    path: str
    """Below the dataset's folder."""
    rows: int


def require() -> None:
    """Looks before anything is read.

    Raises:
        LedgerError: reason EXTRA_MISSING, if pyarrow is not there.
    """
    _arrow()


def write_shards(
    folder: Path,
    rows: Iterator[tuple[Row, int]],
    count: int,
    *,
    rows_per_shard: int,
    group_bytes: int = MAX_GROUP_BYTES,
) -> list[Shard]:
    """Writes all rows, of which there are `count`, each with the bytes that it takes."""
    arrow, _ = _arrow()
    schema = _schema(arrow)
    total = -(-count // rows_per_shard)
    (folder / "data").mkdir()
    shards = []
    for number in range(total):
        path = f"data/train-{number:05d}-of-{total:05d}.parquet"
        shards.append(Shard(path, _write(folder / path, _groups(islice(rows, rows_per_shard), group_bytes), schema)))
    return shards


def _write(path: Path, groups: Iterator[list[Row]], schema: Any) -> int:
    arrow, parquet = _arrow()
    count = 0
    with closing(parquet.ParquetWriter(path, schema, **_SETTINGS)) as writer:
        for group in groups:
            table = arrow.Table.from_pylist([msgspec.to_builtins(row) for row in group], schema=schema)
            writer.write_table(table, row_group_size=len(group))
            count += len(group)
    return count


def _groups(rows: Iterator[tuple[Row, int]], group_bytes: int) -> Iterator[list[Row]]:
    group: list[Row] = []
    held = 0
    for row, size in rows:
        if group and held + size > group_bytes:
            yield group
            group, held = [], 0
        group.append(row)
        held += size
    if group:
        yield group


def _schema(arrow: Any) -> Any:
    """The columns of a row, by its own annotations; all may be null but the conversation."""
    lists = {
        "conversations": arrow.list_(arrow.struct([("role", arrow.string()), ("content", arrow.string())])),
        "prompt_token_ids": arrow.list_(arrow.list_(arrow.int32())),
        "completion_token_ids": arrow.list_(arrow.list_(arrow.int32())),
        "logprobs": arrow.list_(arrow.list_(arrow.float64())),
    }
    plain = {
        name: getattr(arrow, _KINDS[kind.removesuffix(" | None")])()
        for name, kind in Row.__annotations__.items()
        if name not in lists
    }
    return arrow.schema([(name, lists.get(name) or plain[name]) for name in Row.__annotations__])


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa  # noqa: PLC0415  # of an extra
        from pyarrow import parquet  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise LedgerError(
            f"traces are written as Parquet by the package {error.name}, which is not installed",
            reason="EXTRA_MISSING",
            remedy="Run `pip install 'atlas-ledger[parquet]'`.",
            details={"extra": "parquet", "package": error.name or ""},
        ) from None
    return pa, parquet
