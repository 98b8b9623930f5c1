"""ATIF trajectories of a trial into one conversation: the last part of the chain, and which part of how many it is.

- A trial whose context was summarised goes on in another file. The last one begins with what was copied: those steps
  belong to the conversation and open no episode.
- A name in a trajectory leads to a file beside it and nowhere else. Where the chain breaks, the last part that can be
  read stands in the row, and the row does not say that it is the last.
- A step becomes a message: reasoning between think tags before it, calls of tools as JSON behind it, each result of a
  tool as a message of its own. Conversations of other agents are counted and not followed.
- Versions 1.x are read alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from services.adapters.backfill import metrics
from services.adapters.traces.cleaning import Cleaner
from services.adapters.traces.numbers import Turns
from services.adapters.traces.rows import Role, Turn

FIRST: Final = "agent/trajectory.json"
NAME: Final = re.compile(r"trajectory[\w.-]{0,100}\.json", re.ASCII)
_VERSION: Final = re.compile(r"ATIF-v1\.\d{1,3}", re.ASCII)
_MAX_PARTS: Final = 10_000
_ROLES: Final[dict[str, Role]] = {"system": "system", "user": "user", "agent": "assistant"}

Note = Callable[[str, str], None]
"""Told of something odd: its kind, and the file."""


@dataclass
class Transcript:
    """One part of a conversation, its text cleaned."""

    turns: list[Turn] = field(default_factory=list)
    tokens: Turns = field(default_factory=Turns)
    answers: int = 0
    """Steps of the agent that were not copied from an earlier part."""
    subagents: int = 0
    whole: bool = True
    """All of the file is in it."""
    agent: str | None = None
    model: str | None = None


@dataclass(frozen=True)
class Chain:
    """The parts of a trial's conversation, as far as they can be followed."""

    first: dict[str, Any]
    last: dict[str, Any]
    name: str
    """Of the last file."""
    parts: int
    broken: str | None = None
    """Why the next part, which is named, is not here."""


def follow(content: Callable[[str], bytes | None]) -> Chain | None:
    """The chain that begins with the trial's first trajectory; None if there is none.

    Raises:
        ValueError: if the first one is no trajectory that this release reads.
    """
    data = content(FIRST)
    if data is None:
        return None
    first = last = _parsed(data)
    name, seen = FIRST, {FIRST}
    while (ref := last.get("continued_trajectory_ref")) is not None:
        broken = None
        path = f"agent/{ref}"
        if not isinstance(ref, str) or not NAME.fullmatch(ref):
            broken = "a continuation that is no file beside it"
        elif path in seen or len(seen) >= _MAX_PARTS:
            broken = "a continuation that leads back"
        elif (data := content(path)) is None:
            broken = "a continuation that is not there"
        else:
            try:
                following = _parsed(data)
            except ValueError:
                broken = "a continuation that cannot be read"
        if broken is not None:
            return Chain(first, last, name, len(seen), broken)
        last, name = following, path
        seen.add(path)
    return Chain(first, last, name, len(seen))


def transcript(said: dict[str, Any], name: str, cleaner: Cleaner, note: Note) -> Transcript:
    """A trajectory as a conversation.

    Raises:
        ValueError: if a call's arguments nest too deep.
    """
    made = Transcript()
    agent = said.get("agent")
    if isinstance(agent, dict):
        made.agent, made.model = _text_or_none(agent.get("name")), _text_or_none(agent.get("model_name"))
    for step in said["steps"]:
        role = _ROLES.get(str(step.get("source"))) if isinstance(step, dict) else None
        if role is None:
            made.whole = False
            note("a step of another form, which is left out", name)
            continue
        _add_step(made, step, role, cleaner)
    if not made.whole:
        note("a conversation of which something is no text", name)
    return made


def first_of_user(said: dict[str, Any], cleaner: Cleaner) -> str | None:
    """What the trial was asked to do: the first message of a user."""
    for step in said["steps"]:
        if isinstance(step, dict) and step.get("source") == "user":
            return cleaner.text(_content(step.get("message"), Transcript()))
    return None


def _parsed(data: bytes) -> dict[str, Any]:
    said = metrics.loads(data.decode())
    if not isinstance(said, dict) or not isinstance(said.get("steps"), list):
        raise ValueError("no trajectory")  # noqa: TRY004  # of a file, not of an argument
    if not _VERSION.fullmatch(str(said.get("schema_version"))):
        raise ValueError("a trajectory of another version")
    return said


def _add_step(made: Transcript, step: dict[str, Any], role: Role, cleaner: Cleaner) -> None:
    parts = [_content(step.get("message"), made)]
    if role == "assistant":
        if reasoning := _text_or_none(step.get("reasoning_content")):
            parts.insert(0, f"<think>\n{reasoning}\n</think>\n")
        parts += [_call(call, cleaner) for call in _dicts(step.get("tool_calls"))]
        if step.get("is_copied_context") is not True:
            made.answers += 1
            measured = step.get("metrics")
            known = measured if isinstance(measured, dict) else {}
            made.tokens.add(*(known.get(key) for key in ("prompt_token_ids", "completion_token_ids", "logprobs")))
    made.turns.append(Turn(role, cleaner.text("".join(parts))))
    observation = step.get("observation")
    for result in _dicts(observation.get("results") if isinstance(observation, dict) else None):
        made.subagents += len(_dicts(result.get("subagent_trajectory_ref")))
        if result.get("content") is not None:
            made.turns.append(Turn("tool", cleaner.text(_content(result["content"], made))))


def _call(call: dict[str, Any], cleaner: Cleaner) -> str:
    """A call of a tool. Arguments are cleaned by their names, which the text around them no longer tells."""
    said = {"name": call.get("function_name"), "arguments": cleaner.value(call.get("arguments"))}
    return f"\n<tool_call>\n{json.dumps(said, ensure_ascii=False)}\n</tool_call>"


def _content(content: Any, made: Transcript) -> str:
    """The text of a message, which is a text or a list of parts; parts that are none are missed."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = []
    for part in content if isinstance(content, list) else [content]:
        text = _text_or_none(part.get("text")) if isinstance(part, dict) else None
        if text is None:
            made.whole = False
        else:
            texts.append(text)
    return "\n".join(texts)


def _dicts(value: Any) -> list[dict[str, Any]]:
    """The objects of a list, or the one object where there is no list."""
    listed = value if isinstance(value, list) else [value]
    return [one for one in listed if isinstance(one, dict)]


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None
