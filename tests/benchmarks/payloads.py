"""What the events of a benchmark's history say: payloads of real shape and size, made of small numbers.

Nothing here but the standard library, since rivals load it in environments of their own. Fields stand in the order of
the event models and are left out where they equal the model's default: the form that clients send.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final, NamedTuple

Payload = dict[str, Any]

_SENTENCES: Final = (
    "The instruction names the file that the answer must change and the command that shows whether it did.",
    "The verifier compares the printed value with the reference after stripping white space, and nothing else.",
    "An empty answer was scored zero, and so was one that repeats the question.",
    "The reference solution passes on a clean checkout; the time limit leaves room for a slow machine.",
    "Two of the hidden tests read a fixture that the statement does not mention, though it is in the repository.",
    "The attempt stopped at the turn limit with the right plan and an unfinished edit.",
    "A solver that prints the expected constant would pass three of the five checks.",
    "Numbers are compared as text, so 0.50 is refused where 0.5 is accepted.",
)
_SAMPLING: Final = {
    "temperature": 0.7,
    "top_p": 0.95,
    "top_k": 20,
    "min_p": 0,
    "repetition_penalty": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "max_tokens": 16_384,
}
MODELS: Final = (
    ("small", "Qwen/Qwen3-Coder-30B-A3B-Instruct", _SAMPLING),
    ("large", "Qwen/Qwen3.5-122B-A10B", {**_SAMPLING, "chat_template_kwargs": {"enable_thinking": True}}),
    ("hosted", "zai-org/GLM-5.3", {**_SAMPLING, "reasoning_effort": "low"}),
)


class Source(NamedTuple):
    """A source as the catalogue lists it now."""

    id: str
    origin: str
    data: str
    verifier: str


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def prose(number: int, sentences: int) -> str:
    return " ".join(_SENTENCES[(number + i) % len(_SENTENCES)] for i in range(sentences))


def row(source: Source, number: int) -> Payload:
    return {
        "id": source.id,
        "origin": source.origin,
        "name": source.id.partition(":")[2],
        "display_name": f"Source {number:05d}",
        "family": f"family-{number % 40}",
        "url": f"https://huggingface.co/datasets/example/source-{number:05d}",
        "dataset_id": f"example/source-{number:05d}",
        "dataset_revision": source.data,
        "verifier_revision": source.verifier,
        "split": "train",
        "atlas_status": "Available",
        "intended_use": "training",
        "input_rows": 700 + number,
        "counts": [{"basis": "input", "rows": 700 + number, "revision": source.data}],
    }


def synced(collection: str, origin: str, parts: Payload, *, replaces: str | None, rows: int) -> Payload:
    declared, revised = (rows, 0) if replaces is None else (0, parts["count"])
    return {
        "collection": collection,
        "origin": origin,
        "parts": parts,
        **({} if replaces is None else {"replaces": replaces}),
        "row_count": rows,
        "counts": {
            "declared": declared,
            "revised": revised,
            "retired": 0,
            "reinstated": 0,
            "unchanged": rows - revised - declared,
        },
        "revision": digest(collection),
        "checked_at": "2026-11-01T00:00:00Z",
    }


def suspected(defect: str, number: int) -> Payload:
    return {"defect": defect, "kind": "verifier", "summary": prose(number, 1)}


def confirmed(defect: str, issue: str, source: Source, number: int) -> Payload:
    return {
        "defect": defect,
        "kind": "verifier",
        "summary": prose(number, 2),
        "native_inputs": [artifact("failing-input.json", defect)],
        "expected": "reward 0",
        "observed": "reward 1",
        "reproduction": prose(number, 1),
        "issue_state": "filed",
        "issue_url": issue,
        "dataset_revision": source.data,
        "verifier_revision": source.verifier,
    }


def validation(defect: str, source: Source) -> Payload:
    replay = {"input_sha256": digest(defect), "expected": "reward 0", "observed": "reward 0", "passed": True}
    return {
        "defect": defect,
        "dataset_revision": source.data,
        "verifier_revision": source.verifier,
        "replays": [replay],
        "controls": [{"kind": "incorrect", "expected": "reward 0", "observed": "reward 0", "passed": True}],
        "evidence": [artifact("replay.log", f"{defect} replay")],
    }


def resolved(defect: str, validated: str, collection: str) -> Payload:
    return {"defect": defect, "validation": validated, "review": digest(collection)}


def difficulty(source: Source, protocol: str, number: int) -> Payload:
    verified = 32
    return {
        "atlas_id": source.id,
        "report": artifact("difficulty.json", f"{source.id} {number}"),
        "estimated_at": time_of(number),
        "source_revision": source.data,
        "verifier_revision": source.verifier,
        "population_count": 700,
        "sampling": {"task_count": verified, "method": "reservoir", "seed": "42"},
        "protocol": {
            "id": protocol,
            "context_window": 65_536,
            "max_input_tokens": 49_152,
            "max_output_tokens": 16_384,
        },
        "models": [
            {
                "size": size,
                "model": model,
                "provider": "Together",
                "solved": (number * 7 + i * 5) % (verified + 1),
                "verified": verified,
                "unverified": 0,
                "attempted": verified,
                "generation_parameters": parameters,
            }
            for i, (size, model, parameters) in enumerate(MODELS)
        ],
        "limitations": [prose(number, 1)],
    }


def protocol_defined(protocol: str) -> Payload:
    return {
        "protocol": protocol,
        "context_window": 65_536,
        "max_input_tokens": 49_152,
        "max_output_tokens": 16_384,
        "models": [
            {"size": size, "model": model, "reasoning": "As its card says.", "generation_parameters": parameters}
            for size, model, parameters in MODELS
        ],
    }


def attestation(source: Source, number: int) -> Payload:
    """That the dataset's files are the same at two revisions."""
    before = digest(f"{source.data} before")[:40]
    return {
        "source_id": source.id,
        "kind": "dataset_revision",
        "subject": f"dataset {before} to {source.data}",
        "evidence": [artifact("dataset-revision-attestation.json", f"{source.id} {number}")],
        "scope": prose(number, 1),
        "attested_at": time_of(number),
        "dataset_revision": {
            "executed_revision": before,
            "current_revision": source.data,
            "files": [
                {"path": "data/train.parquet", "executed_sha256": digest("file"), "current_sha256": digest("file")}
            ],
            "selection": None,
        },
    }


def alias(name: str, source: Source) -> Payload:
    return {
        "alias": name,
        "source_ids": [source.id],
        "status": "confirmed",
        "applicability": "historical",
        "evidence": [artifact("card.md", name)],
    }


def artifact(name: str, of: str) -> Payload:
    return {"name": name, "sha256": digest(of)}


def subject_of(source: Source) -> str:
    return f"source:{digest(source.id)[:20]}"


def time_of(number: int) -> str:
    return f"2026-{1 + number // 1_000 % 12:02d}-{1 + number % 28:02d}T{number % 24:02d}:{number % 60:02d}:00Z"
