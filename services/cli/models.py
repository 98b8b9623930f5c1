"""Payloads from what was typed: a wrong value is a usage error that names the field."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ledger.core import strictjson
from ledger.core.errors import InvalidInput, Problem
from ledger.events.wording import words

Model = TypeVar("Model", bound=BaseModel)


def made(model: type[Model], **fields: Any) -> Model:
    """The payload.

    Raises:
        InvalidInput: reason USAGE, with every field that is wrong.
    """
    try:
        return model(**fields)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
    problems = [Problem(strictjson.pointer(*f["loc"]), words(f)) for f in found]
    raise InvalidInput(
        "1 value is wrong" if len(problems) == 1 else f"{len(problems)} values are wrong",
        reason="USAGE",
        remedy="Correct the value; --help says what each option takes.",
        problems=problems,
    )
