"""Exports: all rows of a question, page by page, into a table, JSON, NDJSON, CSV or Parquet.

- Nothing is held but one page, except for a table, which people read.
- A file appears under its name only when it is whole.
- Every row says where it was read (`ledger_size` and what follows), since a file outlives the command that made it. In
  Parquet the schema says it too.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final, Protocol, TextIO

import click
from google.protobuf.message import Message

from ledger.client.messages import to_dict
from ledger.client.whole import whole
from ledger.core.errors import LedgerError
from ledger.core.text import harmless
from services.cli import rows
from services.cli.options import Function, with_options
from services.cli.output import Cell, Output

FORMATS: Final = ("table", "json", "ndjson", "csv", "parquet")
_BY_SUFFIX: Final = MappingProxyType(
    {".json": "json", ".ndjson": "ndjson", ".jsonl": "ndjson", ".csv": "csv", ".parquet": "parquet"}
)


@dataclass(frozen=True)
class Target:
    """The form in which rows were asked for, and where they go: stdout without a file."""

    format: str | None = None
    file: Path | None = None

    def form(self, out: Output) -> str:
        """The form in which to write.

        Raises:
            click.UsageError: if what was asked for contradicts itself.
        """
        asked = self.format or (_BY_SUFFIX.get(self.file.suffix) if self.file else None)
        form = asked or ("json" if out.as_json and self.file is None else "table")
        if self.file is not None and form == "table":
            raise click.UsageError("Say in which form to write the file: --format json, ndjson, csv or parquet.")
        if self.file is None and form == "parquet":
            raise click.UsageError("Parquet needs a file: name it with --output.")
        if self.file is None and out.as_json and form != "json":
            raise click.UsageError(f"--json prints JSON: name a file for the {form} with --output.")
        return form


@dataclass(frozen=True)
class View:
    """How rows of one kind are shown."""

    row: type[Message]
    columns: Sequence[str]
    cells: Callable[[Any], Sequence[Cell]]
    """Of a line in a table."""
    noun: str
    lines: Callable[[Any], Iterable[Any]] = lambda row: (row,)
    """What of a row has a line of its own in a table."""
    as_json: Callable[[Any], dict[str, Any]] = to_dict
    whole: Sequence[str] = ("id",)
    spare: Sequence[str] = ()
    unless_zero: Sequence[str] = ()
    """Columns that a table leaves out while they are 0 throughout."""


@dataclass(frozen=True)
class Answer:
    """Rows as they come, and what is said of all of them."""

    pages: Iterable[Sequence[Any]]
    stamp: Mapping[str, Any]
    """On every row: enough to ask again."""
    json_stamp: Mapping[str, Any]
    """On every row of JSON that is printed."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Of the whole, in the schema of Parquet."""


def export_options(function: Function) -> Function:
    """--format and --output, given to the command as `target`."""

    @wraps(function)
    def with_target(*args: Any, form: str | None, output: Path | None, **kwargs: Any) -> Any:
        return function(*args, target=Target(form, output), **kwargs)

    return with_options(
        function,
        with_target,
        click.option(
            "--format",
            "form",
            type=click.Choice(FORMATS),
            help="How to write all rows; by the file's ending, or a table, when left out.",
        ),
        click.option(
            "--output",
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            help="Write here rather than to stdout; the file appears when it is whole.",
        ),
    )


def export(out: Output, view: View, answer: Answer, target: Target) -> int:
    """Writes all rows and gives their number.

    Raises:
        InvalidInput: reason USAGE, if the file cannot be written.
        LedgerError: reason EXTRA_MISSING, if it is to be Parquet and pyarrow is not there.
    """
    form = target.form(out)
    if form == "table":
        return _print_table(out, view, answer)
    if target.file is None:
        # Text that is shown at once must not steer the terminal.
        return _WRITERS[form](sys.stdout, view, answer, _for_terminal if out.to_terminal else _as_it_is)
    if form == "parquet":
        with whole(target.file) as file:
            count = _write_parquet(file, view, answer)
    else:
        with whole(target.file) as file, _as_text_file(file) as text:
            count = _WRITERS[form](text, view, answer, _as_it_is)
    if out.as_json:
        out.json({"file": str(target.file), "format": form, "rows": count, **answer.about})
    return count


@contextmanager
def _as_text_file(file: BinaryIO) -> Iterator[TextIO]:
    """Text into a file of bytes, which stays open."""
    text = io.TextIOWrapper(file, "utf-8", newline="")
    try:
        yield text
        text.flush()
    finally:
        text.detach()


def _print_table(out: Output, view: View, answer: Answer) -> int:
    read = [row for page in answer.pages for row in page]
    cells = [view.cells(line) for row in read for line in view.lines(row)]
    shown = [n for n, name in enumerate(view.columns) if name not in view.unless_zero or any(row[n] for row in cells)]
    columns = [view.columns[n] for n in shown]
    out.table(columns, [[row[n] for n in shown] for row in cells], whole=view.whole, spare=view.spare)
    return len(read)


def _as_it_is(value: Any) -> Any:
    return value


def _for_terminal(value: Any) -> Any:
    return harmless(value) if isinstance(value, str) else value


class _Writer(Protocol):
    """Writes one form of text; `shown` is applied to cells that are not escaped by the form itself."""

    def __call__(self, file: TextIO, view: View, answer: Answer, shown: Callable[[Any], Any], /) -> int: ...


def _write_json(file: TextIO, view: View, answer: Answer, _: Callable[[Any], Any]) -> int:
    """One array, an element a line, in ASCII."""
    count = 0
    for page in answer.pages:
        for row in page:
            line = json.dumps({**view.as_json(row), **answer.json_stamp})
            file.write((",\n" if count else "[\n") + line)
            count += 1
    file.write("\n]\n" if count else "[]\n")
    return count


def _write_ndjson(file: TextIO, _: View, answer: Answer, __: Callable[[Any], Any]) -> int:
    count = 0
    for page in answer.pages:
        for row in page:
            file.write(json.dumps({**to_dict(row), **answer.stamp}) + "\n")
            count += 1
    return count


def _write_csv(file: TextIO, view: View, answer: Answer, shown: Callable[[Any], Any]) -> int:
    """With a heading and CRLF, text in quotes and numbers without, safe for spreadsheets."""
    names = [*rows.columns(view.row.DESCRIPTOR), *answer.stamp]
    writer = csv.DictWriter(file, names, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n")
    writer.writeheader()
    count = 0
    for page in answer.pages:
        for row in page:
            cells = {**rows.flat(row), **answer.stamp}
            writer.writerow({name: shown(rows.safe(value)) for name, value in cells.items()})
            count += 1
    return count


def _write_parquet(file: BinaryIO, view: View, answer: Answer) -> int:
    """A row group a page."""
    try:
        import pyarrow as pa  # noqa: PLC0415  # of an extra
        from pyarrow import parquet  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise LedgerError(
            f"Parquet is written by the package {error.name}, which is not installed",
            reason="EXTRA_MISSING",
            remedy="Run `pip install 'atlas-ledger[parquet]'`, or choose another --format.",
            details={"extra": "parquet", "package": error.name or ""},
        ) from None
    stamped = [pa.field(name, pa.int64() if name.endswith("_size") else pa.string()) for name in answer.stamp]
    about = {f"ledger_{key}": _as_text(value) for key, value in answer.about.items()}
    schema = pa.schema([*rows.arrow_fields(view.row.DESCRIPTOR, pa), *stamped], metadata=about)
    count = 0
    with parquet.ParquetWriter(file, schema) as writer:
        for page in answer.pages:
            made = [{**rows.columnar(row), **answer.stamp} for row in page]
            writer.write_table(pa.Table.from_pylist(made, schema=schema))
            count += len(made)
    return count


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_WRITERS: Final[Mapping[str, _Writer]] = MappingProxyType(
    {"json": _write_json, "ndjson": _write_ndjson, "csv": _write_csv}
)
