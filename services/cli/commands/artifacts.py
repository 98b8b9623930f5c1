"""ledger artifact: evidence bytes, named by their SHA-256."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ledger.client import evidence
from services.cli.options import SHA256, Group
from services.cli.state import State


@click.group("artifact", cls=Group, example="ledger artifact put trace.json")
def artifacts() -> None:
    """Evidence bytes, named by their SHA-256."""


@artifacts.command("put", example="ledger artifact put trace.json verifier.log")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.pass_obj
def put(state: State, files: tuple[Path, ...]) -> None:
    """Store files and print their names; storing one again changes nothing."""
    with state.open() as ledger:
        stored = [(file, ledger.writer.put_artifact(file)) for file in files]
    out = state.output
    if out.as_json:
        out.json([{"file": str(file), "sha256": a.sha256, "size": a.size} for file, a in stored])
        return
    out.table(["sha256", "size", "file"], [[a.sha256, a.size, str(file)] for file, a in stored])


@artifacts.command("get", example="ledger artifact get SHA256 --output trace.json")
@click.argument("sha256", type=SHA256)
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Write here rather than to stdout.")
@click.pass_obj
def get(state: State, sha256: str, output: Path | None) -> None:
    """Fetch an artifact. A file appears only once its bytes are proved to be those of its name."""
    out = state.output
    if output is None and out.as_json:
        raise click.UsageError("With --json the bytes need a file of their own: name it with --output.")
    with state.open() as ledger:
        if output is None:
            size = evidence.write(ledger.connection, sha256, sys.stdout.buffer)
        else:
            size = evidence.save(ledger.connection, sha256, output)
    if out.as_json:
        out.json({"file": str(output), "sha256": sha256, "size": size})
    else:
        out.say(f"{size:,} bytes, as their name says.")
