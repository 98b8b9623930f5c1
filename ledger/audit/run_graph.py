"""The graph of everything that was recorded of runs, of the small states at one size.

Names are all that joins what different streams say, and a name is no identity: a run that began with a model of the
same repository and commit as a published one comes of it; where a commit is not known, that is inferred, and said so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ledger.audit.lineage import Graph, Node
from ledger.audit.run_briefs import Begun, ExportBrief, Model, Named, Published, RunBrief, Saved, Taken
from ledger.audit.run_facts import Dossier
from ledger.core.text import is_header_text
from ledger.log.limits import STREAM_BYTES

RECORDED: Final = "recorded"
INFERRED: Final = "inferred"
DIGITS: Final = 12
"""Of a digest, in a checkpoint's name."""
_NUMBER: Final = re.compile(r"[0-9]{1,16}", re.ASCII)


def graph_of(runs: Sequence[RunBrief], exports: Sequence[ExportBrief]) -> Graph:
    """Every node and edge."""
    building = _Building(runs, exports)
    for export in exports:
        building.add_export(export)
    for run in runs:
        building.add_run(run)
    return building.graph


class _Building:
    def __init__(self, runs: Iterable[RunBrief], exports: Iterable[ExportBrief]) -> None:
        self.graph = Graph()
        self._saved = {run.id: run.checkpoints for run in runs}
        self._published: dict[str, set[str | None]] = {}
        for export in exports:
            for model in export.models:
                self._published.setdefault(model.repository, set()).add(model.commit)

    def add_run(self, run: RunBrief) -> None:
        at = (run.declared_pos,)
        name = self.graph.add(Node(f"run/{run.id}", run.id, run.summary.get("status"), at, run.sample))
        for taken in run.sources:
            relation = "trained_on" if taken.role == "train" else "evaluated_on"
            self.graph.join(name, relation, self._source(taken), (taken.pos,), run.basis)
        self._add_start(run, name, at)
        for begun in run.resumed_from_runs:
            self.graph.join(name, "resumed_from", self._checkpoint(begun.run_id, begun), (begun.pos,), RECORDED)
        for saved in run.checkpoints:
            self.graph.join(name, "saved", self._checkpoint(run.id, saved), (saved.pos,), saved.basis)
        for kind, published in (("traces", run.traces), ("logs", run.logs)):
            for one in published:
                to = self.graph.add(Node(f"{kind}/{one.repository}", _label(one), "published", (one.pos,), run.sample))
                self.graph.join(name, "published_as", to, (one.pos,), one.basis)

    def add_export(self, export: ExportBrief) -> None:
        state, at = export.status, (export.pos,)
        name = self.graph.add(Node(f"export/{export.id}", export.id, state, at, export.sample))
        if export.checkpoint is not None:
            of = export.checkpoint
            self.graph.join(name, "exported_from", self._checkpoint(of.run_id, of), at, export.basis)
        for model in export.models:
            to = self.graph.add(Node(f"model/{model.repository}", _label(model), state, (model.pos,), export.sample))
            self.graph.join(name, "published_as", to, (model.pos,), model.basis)

    def _source(self, taken: Taken) -> str:
        if taken.atlas_id is None:
            return self.graph.add(Node(f"dataset/{taken.dataset_id}", taken.dataset_id))
        return self.graph.add(Node(f"source/{taken.atlas_id}", taken.atlas_id))

    def _add_start(self, run: RunBrief, name: str, at: tuple[int, ...]) -> None:
        if run.rl_start is None:
            return
        to, sure = self._model(run.rl_start)
        self.graph.join(name, "started_from", to, at, run.basis if sure else INFERRED)
        if run.root_architecture is not None and run.root_architecture.key != run.rl_start.key:
            root, sure = self._model(run.root_architecture)
            self.graph.join(to, "descends_from", root, at, run.basis if sure else INFERRED)

    def _model(self, model: Model) -> tuple[str, bool]:
        """The node of a model that a run began with, and whether it is certain to be that one."""
        commits = self._published.get(model.key)
        if commits is not None and (model.commit is None or model.commit in commits or None in commits):
            sure = model.commit is not None and model.commit in commits
            return self.graph.add(Node(f"model/{model.key}", model.key)), sure
        label = model.key if model.commit is None else f"{model.key}@{model.commit}"
        return self.graph.add(Node(f"base/{model.key}", label)), True

    def _checkpoint(self, run_id: str, named: Saved | Named | Begun) -> str:
        """The node of a checkpoint; a step with two digests is two."""
        self.graph.add(Node(f"run/{run_id}", run_id))
        known = [saved for saved in self._saved.get(run_id, ()) if saved.step == named.step]
        digests = {saved.digest for saved in known if saved.digest is not None}
        name = f"{run_id}@{named.step}"
        if named.digest is not None and digests - {named.digest}:
            name = f"{name}#{named.digest[:DIGITS]}"
        meant = next((saved for saved in known if named.digest in {None, saved.digest}), None)
        state, at = (meant.status, (meant.pos,)) if meant else (None, ())
        made = self.graph.add(Node(f"checkpoint/{name}", name, state, at))
        # Somebody names it who did not save it: it is the run's all the same.
        if meant is None:
            self.graph.join(f"run/{run_id}", "saved", made, (), INFERRED)
        return made


def _label(one: Published) -> str:
    return one.repository if one.commit is None else f"{one.repository}@{one.commit}"


def add_checkpoint(graph: Graph, node: str, dossier_of: Callable[[str], Dossier | None]) -> None:
    """Adds the checkpoint that a node names, which the small states leave out, if its run saved it."""
    kind, _, rest = node.partition("/")
    run_id, _, label = rest.rpartition("@")
    step, _, digest = label.partition("#")
    if kind != "checkpoint" or not run_id or not _NUMBER.fullmatch(step) or not is_header_text(run_id, STREAM_BYTES):
        return
    dossier = dossier_of(run_id)
    saved = (dossier or {}).get("checkpoints") or ()
    meant = [c for c in saved if c["step"] == int(step) and (c.get("digest") or "").startswith(digest)]
    for checkpoint in meant:
        at = (checkpoint["committed_pos"],) if checkpoint.get("committed_pos") is not None else ()
        graph.add(Node(node, rest, checkpoint["status"], at))
        graph.join(f"run/{run_id}", "saved", node, at, checkpoint.get("basis") or RECORDED)
