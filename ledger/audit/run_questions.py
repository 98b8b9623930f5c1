"""Every question about the runs of one log, put together once.

    questions = RunQuestions(log, states, rules, clockwork, sources)
    questions.run("arm-0", moment, "")

An answer needs the small states of runs at its size: while their projection has not come so far, `Unavailable` with the
reason BEHIND is raised, as of the projection of sources.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import orjson

from ledger.audit import blast, checks, run_lists, sweeps
from ledger.audit.blast import Affected, Concern
from ledger.audit.checks import Demand, Verdict
from ledger.audit.coordinates import Clockwork, Moment
from ledger.audit.disregards import Disregards
from ledger.audit.lineage import Edge, Graph, Node, Trace
from ledger.audit.reading import Check, Events, go_on
from ledger.audit.roots import Roots
from ledger.audit.run_briefs import Briefs, ExportBrief, RunBrief
from ledger.audit.run_facts import RunFacts, RunRules
from ledger.audit.run_graph import add_checkpoint, graph_of
from ledger.audit.run_lists import RunFilter, RunPage
from ledger.audit.runs import OneRun, WholeRun
from ledger.audit.sources import Sources
from ledger.audit.states import State
from ledger.audit.steps import Steps
from ledger.audit.sweeps import Sweep
from ledger.audit.turned import Turn, Turning, known_runs
from ledger.audit.wording import quoted
from ledger.core.errors import NotFound
from ledger.core.text import is_header_text
from ledger.log import limits
from ledger.log.log import Log
from ledger.projections.runs import RunStates
from ledger.rules.training_1.show import LATEST


class RunQuestions:
    """Answers about runs. Safe to use from many threads."""

    def __init__(self, log: Log, states: RunStates, rules: RunRules, clockwork: Clockwork, sources: Sources) -> None:
        self._log = log
        self._sources = sources
        self._shelf = shelf = sources.shelf
        self._events = Events(log)
        self.briefs = Briefs(states)
        self._roots = Roots(log)
        self._turning = Turning(self._events, shelf, clockwork)
        self.facts = RunFacts(log, rules, Disregards(self._events))
        self.steps = Steps(self._events, self.facts)
        self._one = OneRun(self.facts, self.briefs, shelf, clockwork, self._turning)

    @property
    def origin(self) -> str:
        """The log's."""
        return self._log.origin

    def run(self, run_id: str, moment: Moment, rules: str, check: Check = go_on) -> WholeRun:
        """One run; `rules` as `OneRun.as_of` has them."""
        return self._one.as_of(run_id, moment, rules, check)

    def page(self, moment: Moment, which: RunFilter, *, size: int = 0, start: int = 0) -> RunPage:
        """The runs that pass, from the one with the number `start`."""
        return run_lists.page(self.briefs.runs(moment.size), which, moment, size=size, start=start)

    def sweep(self, moment: Moment, campaign: str, *, compare_unlike: bool = False, check: Check = go_on) -> Sweep:
        """The arms of a campaign.

        Raises:
            NotFound: it was not declared, and no run names it.
        """
        runs = self.briefs.runs(moment.size)
        named = any(run.summary.get("campaign_id") == campaign for run in runs)
        dossier = self.facts.campaign(campaign, moment, named=named)
        arms = run_lists.of_campaign(runs, campaign, sweeps.planned_runs(dossier))
        return sweeps.sweep(dossier, arms, self.facts, moment, compare_unlike=compare_unlike, check=check)

    def lineage(self, moment: Moment, asked: Trace) -> tuple[list[Node], list[Edge]]:
        """What a node comes from and what came of it; of sources their Quality.

        Raises:
            NotFound: nothing names the node.
        """
        runs, exports = self.briefs.runs(moment.size), self.briefs.exports(moment.size)
        graph = self._graph(runs, exports, asked, moment)
        if asked.node not in graph.nodes:
            raise NotFound(
                f"nothing that was recorded names {quoted(asked.node)!r} at size {moment.size}",
                remedy="Names are case sensitive; `ledger run list` and `ledger source list` show those there are.",
                details={"node": quoted(asked.node), "size": str(moment.size)},
            )
        met = {node.label for node in graph.trace(asked)[0] if node.kind == "run"}
        graph = self._graph(self._with_all_checkpoints(runs, met, moment), exports, asked, moment)
        self._add_unsaid(graph, [node.name for node in graph.trace(asked)[0]], moment)
        nodes, edges = graph.trace(asked)
        return self._rated(nodes, moment), edges

    def _graph(self, runs: Sequence[RunBrief], exports: Sequence[ExportBrief], asked: Trace, moment: Moment) -> Graph:
        """Everything that the briefs name, and what is asked about."""
        graph = graph_of(runs, exports)
        self._add_unsaid(graph, [asked.node], moment)
        self._add_listed(graph, asked.node, moment)
        return graph

    def _with_all_checkpoints(self, runs: Sequence[RunBrief], names: Collection[str], moment: Moment) -> list[RunBrief]:
        """The runs; those of these names with every checkpoint, since of many the small states keep the latest."""
        return [
            run.with_checkpoints(self.facts.checkpoints(run.id, moment))
            if run.id in names and len(run.checkpoints) >= LATEST
            else run
            for run in runs
        ]

    def _add_unsaid(self, graph: Graph, names: Iterable[str], moment: Moment) -> None:
        """Of checkpoints that the small states leave out, what their runs say in full."""
        for name in names:
            known = graph.nodes.get(name)
            if known is None or (known.kind == "checkpoint" and known.state is None):
                add_checkpoint(graph, name, lambda run: self.facts.dossier(f"run/{run}", moment))

    def _add_listed(self, graph: Graph, node: str, moment: Moment) -> None:
        """A source of the Atlas is a node also where no run took it."""
        kind, _, source = node.partition("/")
        if node in graph.nodes or kind != "source" or not is_header_text(source, limits.STREAM_BYTES):
            return
        if self._shown([source], moment):
            graph.add(Node(node, source))

    def _rated(self, nodes: Iterable[Node], moment: Moment) -> list[Node]:
        """The nodes, sources with the Quality that is shown of them."""
        nodes = list(nodes)
        known = self._shown([n.label for n in nodes if n.name.startswith("source/")], moment)
        return [
            replace(n, state=known[n.label]["quality"]) if n.name.startswith("source/") and n.label in known else n
            for n in nodes
        ]

    def _shown(self, sources: Sequence[str], moment: Moment) -> dict[str, State]:
        found = self._shelf.states(moment).some(sources)
        return {source: orjson.loads(state) for source, state in found.items()}

    def blast_radius(
        self, moment: Moment, of: str | int, rules: str = "", check: Check = go_on
    ) -> tuple[Concern, list[tuple[Affected, str | None]]]:
        """Every run that a source, or an event about it, touches; with the source's Quality when it was declared.

        Args:
            moment: Where the answer stands.
            of: The source's Atlas id, or the position of an event of its stream.
            rules: Those under which its Quality is told; empty: the ones in force when the run was declared.
            check: Called between runs.

        Raises:
            NotFound: no run took the source and it is not listed, or there is no such event.
        """
        concern = blast.concern_of(of, moment, self._events) if isinstance(of, int) else Concern(of)
        runs, exports = self.briefs.runs(moment.size), self.briefs.exports(moment.size)
        met = {one.run.id for one in blast.affected(concern, runs, graph_of(runs, exports))}
        whole = self._with_all_checkpoints(runs, met, moment)
        found = blast.affected(concern, whole, graph_of(whole, exports))
        if not found and concern.pos is None:
            self._sources.one(concern.source, moment)  # which says that there is none
        rated = []
        for one in found:
            check()
            rated.append((one, None if one.pos is None else self._quality(concern.source, one.pos + 1, rules, moment)))
        return concern, rated

    def _quality(self, source: str, size: int, rules: str, moment: Moment) -> str | None:
        state = self._one.shown(source, size, rules, moment)
        return None if state is None else str(state["quality"])

    def turned(self, moment: Moment, runs: Collection[str] = (), since: int = 0, check: Check = go_on) -> list[Turn]:
        """What turned about sources after these runs, or any, had consumed them.

        Raises:
            NotFound: a run that is named is not known.
        """
        for run in sorted(runs):
            self.facts.of_run(run, moment)
        return self._turning.turns(moment, known_runs(self.briefs.consumed(moment.size), runs), since, check)

    def check(self, moment: Moment, demand: Demand, check: Check = go_on) -> tuple[tuple[Verdict, ...], bytes]:
        """A verdict for each source, and the root of the log that it rests on."""
        return checks.check_sources(demand, moment, self._shelf), self._roots.at(moment.size, check)
