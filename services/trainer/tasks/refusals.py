"""How a set of tasks that cannot be opened is refused: with the place in the file of settings."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from ledger.core.errors import InvalidInput, Problem
from services.trainer.settings import Data, problems_of

M = TypeVar("M", bound=BaseModel)


def checked(kind: type[M], data: Data) -> M:
    """The further settings of a set of tasks.

    Raises:
        InvalidInput: reason INVALID_FILE, with each that is wrong.
    """
    try:
        return kind.model_validate(data.settings)
    except ValidationError as error:
        problems = [Problem(f"data.settings.{p.place}", p.message) for p in problems_of(kind, error)]
        raise InvalidInput(
            f"{problems[0].place}, of the tasks {data.name or data.kind}: {problems[0].message}",
            reason="INVALID_FILE",
            remedy="Mend what is named in the file of settings.",
            problems=problems,
        ) from None


def refused(place: str, data: Data, why: str, remedy: str) -> InvalidInput:
    """Tasks that are not trained on."""
    message = f"data.{place}, of the tasks {data.name or data.kind}: {why}"
    return InvalidInput(message, reason="INVALID_FILE", remedy=remedy, problems=[Problem(f"data.{place}", why)])
