"""What a run tells people, a line each. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def line_of(told: Mapping[str, Any]) -> str:
    """One line for what was told; text that was recorded is not yet made harmless."""
    match told["kind"]:
        case "begin":
            begun = f"from step {told['from_step']}" if told["from_step"] else "from the start"
            processes = f", {told['processes']} processes" if told["processes"] > 1 else ""
            return f"{told['run_id']}: attempt {told['attempt']}, {begun}, {told['steps']} steps{processes}."
        case "step":
            names = ("reward", "entropy", "grad_norm", "loss")
            numbers = "  ".join(f"{name.replace('_', ' ')} {number(told[name])}" for name in names)
            width = len(str(told["of"]))
            return f"step {told['step']:>{width}}/{told['of']}  {numbers}  {told['seconds']:.1f} s"
        case "evaluated":
            scores = ", ".join(f"{name} {number(score)}" for name, score in told["scores"].items())
            return f"evaluated after step {told['step']}: {scores}"
        case "saved":
            return f"saved step {told['step']}: {told['path']}"
        case "end":
            return f"{told['run_id']}: {told['last_step']} steps; {told['recorded'] or 'nothing was recorded'}."
    return str(told.get("text", told["kind"]))


def number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"
