"""Asking before something is done that readers will notice."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ledger.core.errors import InvalidInput
from services.cli.output import Output

Function = TypeVar("Function", bound=Callable[..., Any])


def can_ask(out: Output) -> bool:
    """Whether somebody sits there: a program that reads JSON or a pipe is not asked."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not out.as_json


def ask(out: Output, question: str, *, otherwise: str) -> None:
    """Goes on only if the answer is yes.

    Raises:
        InvalidInput: reason USAGE, with what to do `otherwise`, when there is nobody to ask.
        click.Abort: the answer is no.
    """
    if not can_ask(out):
        raise InvalidInput("nobody can be asked here", reason="USAGE", remedy=otherwise)
    click.confirm(question, abort=True, err=True)


def yes_option(function: Function) -> Function:
    """--yes: for who has made up their mind, and for programs."""
    return click.option("--yes", is_flag=True, help="Do it without asking.")(function)
