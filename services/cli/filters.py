"""Filters as options: what a list is narrowed to, given to a command as the message of the wire."""

from __future__ import annotations

from functools import wraps
from typing import Any, Final

import click

from ledger.core import clock
from ledger.core.errors import InvalidInput
from ledger.wire import audit_pb2
from services.cli import words
from services.cli.options import SHA256, Function, with_options

VERDICTS: Final = ("keep", "reject", "conditional", "inconclusive", "unrated")
SEVERITIES: Final = ("info", "low", "medium", "high", "critical", "none")
METHODS: Final = (
    "model_judgment",
    "human_judgment",
    "synthesis",
    "runtime_execution",
    "static_inspection",
    "unknown",
)
JUDGE_KINDS: Final = ("human", "model", "organization", "unknown")
_MODEL: Final = "model:"


def source_filter_options(function: Function) -> Function:
    """Which sources, given to the command as `wanted`."""

    @wraps(function)
    def with_filter(*args: Any, **kwargs: Any) -> Any:
        named = {name: kwargs.pop(name) for name in _SOURCE_FIELDS}
        return function(*args, wanted=audit_pb2.SourceFilter(**named), **kwargs)

    return with_options(function, with_filter, *_SOURCE_FIELDS.values())


def judgment_filter_options(function: Function) -> Function:
    """Which judgments, given to the command as `wanted`."""

    @wraps(function)
    def with_filter(*args: Any, models: tuple[str, ...], since: str | None, before: str | None, **kwargs: Any) -> Any:
        named = {name: kwargs.pop(name) for name in _JUDGMENT_FIELDS if name in kwargs}
        named["reviewers"] += models_as_reviewers(models)
        named["reviewed_from_us"] = None if since is None else _moment("--from", since)
        named["reviewed_before_us"] = None if before is None else _moment("--before", before)
        return function(*args, wanted=audit_pb2.JudgmentFilter(**named), **kwargs)

    return with_options(function, with_filter, *_JUDGMENT_FIELDS.values())


def models_as_reviewers(models: tuple[str, ...]) -> tuple[str, ...]:
    """The reviewer ids of models, which begin with their kind."""
    return tuple(name if name.startswith(_MODEL) else _MODEL + name for name in models)


def _moment(flag: str, text: str) -> int:
    try:
        return clock.from_text(text)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            f"{flag}: {error}", reason="USAGE", remedy="Give a date such as 2026-10-01, or an RFC 3339 time."
        ) from None


_SOURCE_FIELDS: Final = {
    "origins": click.option(
        "--origin", "origins", multiple=True, metavar="NAME", help="Of this origin; repeat it for alternatives."
    ),
    "families": click.option("--family", "families", multiple=True, metavar="NAME", help="Of this family."),
    "qualities": click.option(
        "--quality", "qualities", multiple=True, type=click.Choice(list(words.QUALITY)), help="Shown so."
    ),
    "difficulties": click.option(
        "--difficulty", "difficulties", multiple=True, type=click.Choice(list(words.DIFFICULTY)), help="Shown so."
    ),
    "atlas_statuses": click.option(
        "--status", "atlas_statuses", multiple=True, metavar="STATUS", help="Such as Available or Excluded."
    ),
    "has_open_defects": click.option(
        "--defects/--no-defects",
        "has_open_defects",
        default=None,
        help="With an open confirmed defect, or none.",
    ),
    "is_benchmark": click.option(
        "--benchmark/--no-benchmark", "is_benchmark", default=None, help="A benchmark, or none."
    ),
    "search": click.option("--search", default="", metavar="TEXT", help="Part of an id, name, dataset id or family."),
    "include_retired": click.option("--retired", "include_retired", is_flag=True, help="Retired sources too."),
}

_JUDGMENT_FIELDS: Final = {
    "source_ids": click.option(
        "--source", "source_ids", multiple=True, metavar="ID", help="Of this source; repeat it for alternatives."
    ),
    "task_ids": click.option("--task", "task_ids", multiple=True, metavar="ID", help="Of this task."),
    "reviewers": click.option("--judge", "reviewers", multiple=True, metavar="ID", help="By this reviewer."),
    "models": click.option(
        "--model", "models", multiple=True, metavar="NAME", help="By the reviewer model:NAME, as --judge would have it."
    ),
    "reviewer_kinds": click.option(
        "--judge-kind", "reviewer_kinds", multiple=True, type=click.Choice(JUDGE_KINDS), help="By a reviewer of it."
    ),
    "verdicts": click.option("--verdict", "verdicts", multiple=True, type=click.Choice(VERDICTS), help="So judged."),
    "severities": click.option(
        "--severity", "severities", multiple=True, type=click.Choice(SEVERITIES), help="The worst issue that it names."
    ),
    "methods": click.option("--method", "methods", multiple=True, type=click.Choice(METHODS), help="How it was made."),
    "reviewed_from_us": click.option(
        "--from", "since", metavar="DATE", help="Reviewed then or later; an unknown date never is."
    ),
    "reviewed_before_us": click.option(
        "--before", "before", metavar="DATE", help="Reviewed earlier; an unknown date never is."
    ),
    "superseded": click.option(
        "--superseded/--standing", "superseded", default=None, help="Superseded ones alone, or none of them."
    ),
    "applicabilities": click.option(
        "--applicability",
        "applicabilities",
        multiple=True,
        type=click.Choice(list(words.APPLICABILITY)),
        help="Whether its review holds for the present revisions.",
    ),
    "include_unpublished": click.option(
        "--unpublished", "include_unpublished", is_flag=True, help="Also parts of collections that are not published."
    ),
    "reviews": click.option(
        "--review", "reviews", multiple=True, type=SHA256, metavar="SHA256", help="In this published collection."
    ),
}
