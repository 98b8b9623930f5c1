"""README.md of a trace dataset: what it covers, said no better than the counts say it.

That these are the rollouts which trained the weights is said only if every row did, and every trial that did has a row.
Recorded names are hostile: they stand in code spans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ledger.client.cards.text import cell, code, counted, listed
from services.adapters.traces.accounts import STAGES
from services.adapters.traces.rows import COLUMNS, MEANINGS

_HEAD = """---
configs:
- config_name: default
  data_files:
  - split: train
    path: data/train-*.parquet
---
"""


def card(manifest: Mapping[str, Any]) -> str:
    """The card, from the manifest alone."""
    runs = listed(code(run) for run in manifest["runs"]) if manifest["runs"] else "a run that is not named"
    sections = [
        f"{_HEAD}# Traces of {runs}",
        "\n".join(_about(manifest)),
        "## What the rows cover",
        _table(("Stage", "Trials"), [(stage, _known(manifest["coverage"][stage])) for stage in (*STAGES, "published")]),
        " ".join(coverage_sentences(manifest)),
    ]
    sections += _counted("Left out", "Reason", manifest["left_out"], "Nothing was left out.")
    sections += _counted("Odd", "What", manifest["odd"], "")
    sections += ["## What was done to the text", manifest["rendering"], " ".join(_replaced(manifest))]
    sections += ["## Columns", _table(("Column", "Meaning"), [(code(c), MEANINGS[c]) for c in COLUMNS])]
    shards = [(code(s["path"]), f"{s['rows']:,}", f"{s['size']:,}", code(s["sha256"])) for s in manifest["shards"]]
    sections += ["## Files", _table(("File", "Rows", "Bytes", "SHA-256"), shards)]
    return "\n\n".join(section for section in sections if section) + "\n"


def coverage_sentences(manifest: Mapping[str, Any]) -> Iterator[str]:
    """What may be said of the rows as training data, and what not."""
    rows, trained_on = manifest["rows"], manifest["rows_that_trained"]
    unknown = [stage for stage in STAGES if manifest["coverage"][stage] is None]
    if unknown:
        seen = listed(f"{manifest['seen'][stage]:,} {stage}" for stage in unknown)
        yield f"How many trials were {listed(unknown)} is not known of all of them; what was read names {seen}."
    if rows == trained_on and manifest["coverage"]["trained"] == rows:
        yield f"These are the {counted(rows, 'rollout')} that trained the weights, every one of them and no other."
        return
    yield f"These are not, no fewer and no more, the rollouts that the weights were trained on: {_why(manifest)}."


def _why(manifest: Mapping[str, Any]) -> str:
    by = manifest["rows_by"]
    reasons = [
        (by["phase"].get("eval", 0), "of evaluations"),
        (by["masked"].get("true", 0), "masked"),
        (by["consumed"].get("false", 0), "not taken into a batch"),
        (by["trained"].get("false", 0), "without a say in an update"),
        (by["abandoned"].get("true", 0), "of steps that a later attempt gave up"),
        (by["trained"].get("unknown", 0), "of which nobody says whether they trained"),
    ]
    told = [f"{count:,} {what}" for count, what in reasons if count]
    without = sum(kind["count"] for kind in manifest["left_out"].values())
    parts = [f"of {counted(manifest['rows'], 'row')}, {manifest['rows_that_trained']:,} certainly trained them"]
    if told:
        parts.append(f"there are {listed(told)} (a row may be several of these)")
    if without:
        parts.append(f"left out: {without:,} of trials, lines and files")
    return "; ".join(parts)


def _about(manifest: Mapping[str, Any]) -> Iterator[str]:
    steps = manifest["first_step"], manifest["last_step"]
    told = f" of steps {steps[0]} to {steps[1]}" if None not in steps else ", of which no step is known"
    yield f"{counted(manifest['rows'], 'trial')}{told}. {manifest['episode_rule']}"
    yield ""
    for place in manifest["places"]:
        files = counted(place["files"], "file")
        yield f"- from the {place['kind']} {code(place['name'])}: {files}, digest {code(place['digest'])}"
    tool = manifest["tool"]
    yield f"- built by {tool['name']} {tool['version']}; `manifest.json` has all that is said here, and more"


def _replaced(manifest: Mapping[str, Any]) -> Iterator[str]:
    redactions, replaced = manifest["redactions"], manifest["replaced"]
    if redactions:
        yield f"Secrets were replaced by shape: {listed(f'{n:,} {code(shape)}' for shape, n in redactions.items())}."
    else:
        yield "No text held a secret of a known shape; others may."
    if replaced:
        yield f"Characters became U+FFFD: {listed(f'{n:,} of {what}' for what, n in replaced.items())}."


def _counted(title: str, column: str, found: Mapping[str, Any], none: str) -> list[str]:
    if not found:
        return [none]
    rows = [(kind, f"{each['count']:,}", cell(each["places"][0])) for kind, each in found.items()]
    return [f"## {title}", _table((column, "Count", "For example"), rows)]


def _known(count: int | None) -> str:
    return "not known" if count is None else f"{count:,}"


def _table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [columns, tuple("---" for _ in columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
