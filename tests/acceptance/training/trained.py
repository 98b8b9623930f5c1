"""One run of a served ledger: told by a trainer's recorder or as typed facts, asked about at both doors.

with trained.recorder() as rec:          # a trainer
    trained.declare(rec)
    trained.steps(rec, {1: 0.5, 2: 0.6})
trained.run().attempts                   # what service Runs answers, once the card was seen to tell the same flags
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

from ledger.client.connection import Connection
from ledger.client.reader import coordinates
from ledger.client.recording import Recorder
from ledger.client.runs import Runs
from ledger.core.errors import LedgerError
from ledger.core.ids import sha256_hex
from ledger.wire import audit_pb2, log_pb2, provenance_pb2, provenance_pb2_grpc, runs_pb2
from tests.acceptance.doors import Doors
from tests.server.said import fact

REWARD = "reward/avg_raw_reward"
ENTROPY = "policy/policy_entropy"
BASE = {"name": "org/base-8b", "repository": "org/base-8b", "commit": "b" * 40}
ALGORITHM: dict[str, Any] = {
    "advantage_estimator": "rloo_n",
    "loss_reduction": "seq_mean_token_sum_norm",
    "train_batch_size": 64,
    "policy_mini_batch_size": 64,
    "micro_train_batch_size_per_gpu": 1,
    "update_epochs_per_batch": 1,
    "n_samples_per_prompt": 8,
    "max_input_length": 24_576,
    "max_generate_length": 8_192,
}
TRAINER = {"role": "trainer", "name": "skyrl-train", "commit": "a559688c"}
ENGINE = {"role": "rollout_engine", "name": "vllm", "version": "0.11.0"}
RULE = {"id": "trailing-ema", "metric": REWARD, "interval": 5}
"""Every save at a multiple of five may be chosen, from step 10 on."""

_FLAGGED = re.compile(r"^- Flagged as `([A-Z_]+)`", re.MULTILINE)


def sha(name: str) -> str:
    """A digest that stands for something's bytes."""
    return sha256_hex(name.encode())


class Trained:
    """One run, and all that is told and asked of it."""

    def __init__(self, doors: Doors, run_id: str, folder: Path) -> None:
        self.doors = doors
        self.id = run_id
        self.folder = folder
        self.runs = Runs(doors.connection)

    # Telling

    def recorder(self, **options: Any) -> Recorder:
        """A trainer's recorder, which raises what it cannot record and sends what it records to this ledger."""
        known: dict[str, Any] = {"run": self.id, "spool": self.folder / self.id / "spool", "strict": True}
        return Recorder(self.doors.connection.address, **{**known, **options})

    def declare(self, rec: Recorder, *sources: Mapping[str, Any], **fields: Any) -> None:
        """A run of eighty steps that saves every five, unless told otherwise."""
        known: dict[str, Any] = {
            "rl_start": BASE,
            "sources": list(sources) or [{"atlas_id": None, "dataset_id": "org/tasks"}],
            "algorithm": ALGORITHM,
            "code": [TRAINER, ENGINE],
            "planned_steps": 80,
            "checkpoint_interval": 5,
        }
        rec.declare_run(**{**known, **fields})

    def steps(self, rec: Recorder, rewards: Mapping[int, float], **more: Mapping[int, float]) -> None:
        """Steps with their rewards and, by step, their entropies."""
        entropies = more.get("entropy", {})
        for step, reward in rewards.items():
            metrics = {REWARD: reward} | ({ENTROPY: entropies[step]} if step in entropies else {})
            rec.step(step, metrics, weight_version=step - 1)

    def save(self, rec: Recorder, step: int, content: str = "", **fields: Any) -> str:
        """A checkpoint with files of its own, as a trainer saves one; gives its digest."""
        folder = self.folder / self.id / f"attempt-{rec.attempt}" / f"global_step_{step}"
        policy = folder / "policy"
        policy.mkdir(parents=True, exist_ok=True)
        (policy / "model_world_size_1_rank_0.pt").write_text(content or f"{self.id} {rec.attempt} {step}")
        rec.saving(step)
        rec.checkpoint(step, folder, **fields).result()
        return self.digest(step, rec)

    def digest(self, step: int, rec: Recorder) -> str:
        """Of the checkpoint of a step that was committed last."""
        assert rec.flush().waiting == 0
        return [c.digest for c in self.runs.run(self.id, self._now()).run.checkpoints if c.step == step][-1]

    def tell(self, type_: str, /, **payload: Any) -> int:
        """One typed fact through Provenance; gives its position."""
        return int(self._record([fact(type_, payload)])[0].pos)

    def tell_at_once(self, *facts: tuple[str, Mapping[str, Any]]) -> list[int]:
        """Several typed facts in one request, in their order."""
        return [int(r.pos) for r in self._record([fact(type_, dict(payload)) for type_, payload in facts])]

    def refused(self, type_: str, /, **payload: Any) -> LedgerError:
        """The error of a decision that is refused, with nothing recorded."""
        before = self.doors.size
        with pytest.raises(LedgerError) as refused:
            self.tell(type_, **payload)
        assert self.doors.size == before
        assert refused.value.remedy
        return refused.value

    def _record(self, facts: list[provenance_pb2.Fact]) -> list[log_pb2.Receipt]:
        address = self.doors.connection.address
        with grpc.insecure_channel(address) as channel:
            record = provenance_pb2_grpc.ProvenanceStub(channel).Record
            request = provenance_pb2.RecordRequest(facts=facts, atomic=True)
            return list(Connection(channel, address).call(record, request).receipts)

    # Asking

    def answer(self) -> runs_pb2.RunAsOfResponse:
        """The run with its sources and exports, as both doors show it with everything that is recorded by now."""
        answer = self.runs.run(self.id, self._now())
        told = self.doors.tell("run", "show", self.id)
        answer.ClearField("coordinates")
        assert ParseDict(_less(told, "coordinates"), runs_pb2.RunAsOfResponse()) == answer
        return answer

    def run(self) -> runs_pb2.Run:
        """The run alone; its card tells the same flags, and no other."""
        run = self.answer().run
        assert sorted(_FLAGGED.findall(self.card())) == sorted(flag.code for flag in run.flags)
        return run

    def flagged(self, code: str) -> str:
        """The message of the one flag of a code, whose events are in the log."""
        (flag,) = [flag for flag in self.run().flags if flag.code == code]
        assert flag.positions
        assert all(self.doors.reader.event(pos).pos == pos for pos in flag.positions)
        return str(flag.message)

    def codes(self) -> list[str]:
        """The codes of all flags."""
        return [flag.code for flag in self.run().flags]

    def card(self) -> str:
        """The run's card, as the command writes it."""
        ran = self.doors.run("card", self.id)
        assert ran.code == 0, ran.err
        return ran.out

    def sweep(self, campaign: str, *, compare_unlike: bool = False) -> runs_pb2.SweepResponse:
        """A campaign's arms, as both doors set them side by side."""
        answer = self.runs.sweep(campaign, self._now(), compare_unlike=compare_unlike)
        flags = ["--compare-unlike"] if compare_unlike else []
        told = self.doors.tell("sweep", "show", campaign, *flags)
        answer.ClearField("coordinates")
        assert ParseDict(_less(told, "coordinates"), runs_pb2.SweepResponse()) == answer
        return answer

    def affected(self, of: str | int) -> dict[str, runs_pb2.Affected]:
        """Whom a source, or an event about it, concerns: by run, as both doors list them."""
        found = self.runs.blast_radius(of, self._now()).affected
        rows = [_own(row, runs_pb2.Affected()) for row in self.doors.tell("affected", of)]
        assert [ParseDict(row, runs_pb2.Affected()) for row in rows] == list(found)
        return {one.run.id: one for one in found}

    def turned(self) -> list[runs_pb2.Turn]:
        """What turned about the run's sources after it had taken them, as both doors tell it."""
        turns = list(self.runs.turned([self.id], self._now()).turns)
        told = self.doors.tell("turned", "--run", self.id)
        assert [int(row["pos"]) for row in told] == [turn.pos for turn in turns]
        return turns

    def verdict(self, source: str, *, dataset_revision: str | None = None) -> runs_pb2.SourceVerdict:
        """Whether the source may be trained on, as service Runs and the exit code of the command say."""
        pinned = {} if dataset_revision is None else {source: dataset_revision}
        (verdict,) = self.runs.check([source], self._now(), dataset_revisions=pinned).verdicts
        flags = [word for name, revision in pinned.items() for word in ("--dataset-revision", f"{name}={revision}")]
        assert self.doors.run("check", source, *flags).code == (0 if verdict.passed else 5)
        return verdict

    def _now(self) -> audit_pb2.Coordinates:
        return coordinates(min_size=self.doors.size)

    def rows(self, **asked: Any) -> list[runs_pb2.StepRow]:
        """Every step as it was logged, or those alone behind one checkpoint's weights."""
        return [row for page in self.runs.steps(self.id, self._now(), **asked) for row in page.rows]

    def payloads(self, type_: str) -> list[dict[str, Any]]:
        """What the run's events of a type say, as the command shows each."""
        read = self.doors.reader.events(streams=[f"run/{self.id}"], types=[type_])
        return [self.doors.payload(event.pos) for event in read]


def _less(told: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name not in names}


def _own(row: Mapping[str, Any], message: Message) -> dict[str, Any]:
    """Of a row that a command lists, what is the message's: each row says where the answer stands too."""
    return {name: value for name, value in row.items() if name in message.DESCRIPTOR.fields_by_name}


def checkpoint(run: runs_pb2.Run, step: int, attempt: int = 1) -> runs_pb2.Checkpoint:
    """The one checkpoint of a step and an attempt."""
    (found,) = [c for c in run.checkpoints if (c.step, c.attempt) == (step, attempt)]
    return found


def problems(error: LedgerError) -> dict[str, str]:
    """What a refusal says against each place."""
    return {problem.place: problem.message for problem in error.problems}


def exported(
    trained: Trained, export: str, *files: tuple[str, str], step: int = 10, **fields: Any
) -> list[dict[str, str]]:
    """An export that was started and completed with these files; gives them as they are recorded."""
    digests = [{"path": path, "sha256": sha(content)} for path, content in files]
    trained.tell(
        "export.started", export_id=export, checkpoint={"run_id": trained.id, "step": step}, route="in_trainer"
    )
    trained.tell("export.completed", export_id=export, digest=sha(export), files=digests, **fields)
    return digests


def numbers(**fields: Any) -> dict[str, Any]:
    """Numbers of a verification that add up, but for those given."""
    whole = {
        "shard_files": 2,
        "shards_named": 2,
        "shards_in_names": 2,
        "index_total_size": 50,
        "tensor_bytes": 50,
        "tensors_in_index": 3,
        "tensors_in_shards": 3,
        "parameter_count": 21,
    }
    return {**whole, **fields}


CHECKS = [
    {"name": name, "outcome": "passed"}
    for name in ("index_parses", "shards_present", "weight_map_complete", "total_size", "not_truncated")
]


def export_of(answer: runs_pb2.RunAsOfResponse, export: str) -> runs_pb2.Export:
    """One export of a run."""
    (found,) = [e for e in answer.exports if e.id == export]
    return found


def codes_of(flags: Iterable[runs_pb2.Flag]) -> list[str]:
    return [flag.code for flag in flags]
