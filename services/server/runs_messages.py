"""The messages of the service `Runs`, made of what the questions answer, and the questions made of its requests."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message

from ledger.audit.blast import Affected, Concern
from ledger.audit.checks import GOOD, Demand, Verdict
from ledger.audit.coordinates import Moment
from ledger.audit.lineage import BOTH, Edge, Node, Trace
from ledger.audit.run_lists import RunFilter, RunPage
from ledger.audit.runs import ThenAndNow, WholeRun
from ledger.audit.states import State
from ledger.audit.steps import StepRow, Wanted
from ledger.audit.sweeps import Arm, Group, Sweep
from ledger.audit.turned import Turn
from ledger.core.errors import InvalidInput
from ledger.wire import audit_pb2, runs_pb2
from services.server import audit_messages

Made = TypeVar("Made", bound=Message)


def run_filter(wire: runs_pb2.RunFilter) -> RunFilter:
    return RunFilter(
        campaigns=frozenset(wire.campaigns),
        sources=frozenset(wire.sources),
        statuses=frozenset(wire.statuses),
        anomalies=frozenset(wire.anomalies),
        has_flags=wire.has_flags if wire.HasField("has_flags") else None,
        selected=wire.selected if wire.HasField("selected") else None,
        search=wire.search,
    )


def wanted(wire: runs_pb2.StepsRequest) -> Wanted:
    return Wanted(
        run=wire.id,
        keys=frozenset(wire.keys),
        lineage_of_step=wire.lineage_of_step if wire.HasField("lineage_of_step") else None,
        lineage_of_attempt=wire.lineage_of_attempt if wire.HasField("lineage_of_attempt") else None,
    )


def trace(wire: runs_pb2.LineageRequest) -> Trace:
    return Trace(wire.node, wire.direction or BOTH, wire.depth)


def demand(wire: runs_pb2.CheckRequest) -> Demand:
    return Demand(
        sources=tuple(wire.source_ids),
        require=wire.require or GOOD,
        dataset_revisions=dict(wire.dataset_revisions),
        verifier_revisions=dict(wire.verifier_revisions),
    )


def of_source(wire: runs_pb2.BlastRadiusRequest) -> str | int:
    """What is asked about: a source, or the position of an event.

    Raises:
        InvalidInput: neither.
    """
    if wire.WhichOneof("of") == "event_pos":
        return wire.event_pos
    if not wire.source_id:
        raise InvalidInput(
            "neither a source nor an event is named", remedy="Give source_id, or event_pos of an event about a source."
        )
    return wire.source_id


def coordinates(moment: Moment, rules: str, run_rules: str, run_rules_digest: str) -> runs_pb2.RunCoordinates:
    return runs_pb2.RunCoordinates(
        size=moment.size,
        recorded_at_us=moment.recorded_at_us,
        final=moment.final,
        run_rules=run_rules,
        run_rules_digest=run_rules_digest,
        redactions_through=moment.redactions_through,
        rules=rules,
        policy_size=moment.policy_size,
    )


def parsed(fields: Mapping[str, Any], into: Made) -> Made:
    """A message of what the rules wrote under its own names; a number that is not finite stands there by name."""
    return json_format.ParseDict(dict(fields), into)


def summary(fields: Mapping[str, Any]) -> runs_pb2.RunSummary:
    return parsed(fields, runs_pb2.RunSummary())


def whole_run(found: WholeRun, at: runs_pb2.RunCoordinates) -> runs_pb2.RunAsOfResponse:
    return runs_pb2.RunAsOfResponse(
        run=parsed(found.run, runs_pb2.Run()),
        coordinates=at,
        sources=map(_then_and_now, found.sources),
        exports=[parsed(export, runs_pb2.Export()) for export in found.exports],
        campaign=None if found.campaign is None else parsed(found.campaign, runs_pb2.Campaign()),
    )


def _then_and_now(found: ThenAndNow) -> runs_pb2.SourceThenAndNow:
    return runs_pb2.SourceThenAndNow(
        atlas_id=found.atlas_id,
        at_start=_source(found.at_start),
        start_size=found.start_size,
        at_selection=_source(found.at_selection),
        selection_size=found.selection_size,
        now=_source(found.now),
        turned=found.turned,
    )


def _source(state: State | None) -> audit_pb2.Source | None:
    return None if state is None else audit_messages.source(state)


def run_page(page: RunPage, at: runs_pb2.RunCoordinates) -> runs_pb2.ListRunsResponse:
    return runs_pb2.ListRunsResponse(
        runs=map(summary, page.runs), next_page_token=page.next_token, total=page.total, coordinates=at
    )


def steps(rows: Iterable[StepRow], at: runs_pb2.RunCoordinates | None) -> runs_pb2.StepsResponse:
    """One page; where the answer stands is said on the first."""
    return runs_pb2.StepsResponse(rows=map(_step_row, rows), coordinates=at)


def _step_row(row: StepRow) -> runs_pb2.StepRow:
    return runs_pb2.StepRow(**dataclasses.asdict(row))


def sweep(found: Sweep, at: runs_pb2.RunCoordinates) -> runs_pb2.SweepResponse:
    return runs_pb2.SweepResponse(
        campaign=parsed(found.campaign, runs_pb2.Campaign()),
        arms=[_arm(arm, found.group_of(arm.run)) for arm in found.arms],
        groups=[_group(number, group) for number, group in enumerate(found.groups, 1)],
        coordinates=at,
        not_recorded=found.not_recorded,
    )


def _arm(arm: Arm, group: int) -> runs_pb2.SweepArm:
    return runs_pb2.SweepArm(
        run=summary(arm.summary),
        varies=arm.varies,
        end_step=arm.end_step,
        curve=[runs_pb2.CurvePoint(**dataclasses.asdict(point)) for point in arm.curve],
        group=group,
        likeness=[runs_pb2.Setting(**dataclasses.asdict(value)) for value in arm.likeness],
        selected_step=arm.selected_step,
        selected_ema=arm.selected_ema,
        best_ema=arm.best_ema,
    )


def _group(number: int, group: Group) -> runs_pb2.ArmGroup:
    return runs_pb2.ArmGroup(group=number, **dataclasses.asdict(group))


def lineage(nodes: Iterable[Node], edges: Iterable[Edge], at: runs_pb2.RunCoordinates) -> runs_pb2.LineageResponse:
    return runs_pb2.LineageResponse(nodes=map(_node, nodes), edges=map(_edge, edges), coordinates=at)


def _node(node: Node) -> runs_pb2.LineageNode:
    return runs_pb2.LineageNode(
        node=node.name,
        kind=node.kind,
        label=node.label,
        state=node.state,
        distance=node.distance,
        positions=node.positions,
        sample=node.sample,
    )


def _edge(edge: Edge) -> runs_pb2.LineageEdge:
    return runs_pb2.LineageEdge(**dataclasses.asdict(edge))


def blast_radius(
    concern: Concern, found: Iterable[tuple[Affected, str | None]], at: runs_pb2.RunCoordinates
) -> runs_pb2.BlastRadiusResponse:
    """Of each run also the source's Quality when it was declared."""
    return runs_pb2.BlastRadiusResponse(
        source_id=concern.source,
        affected=[_affected(one, quality) for one, quality in found],
        coordinates=at,
        event_type=concern.event_type,
        dataset_revision=concern.dataset_revision,
        verifier_revision=concern.verifier_revision,
    )


def _affected(one: Affected, quality: str | None) -> runs_pb2.Affected:
    return runs_pb2.Affected(
        run=summary(one.run.summary),
        match=one.match,
        known_at_start=one.known_at_start,
        checkpoints=one.checkpoints,
        exports=one.exports,
        models=one.models,
        traces=one.traces,
        quality_at_start=quality,
        role=one.role,
        through=one.through,
        withdrawn=one.withdrawn,
    )


def turn(found: Turn) -> runs_pb2.Turn:
    fields = dataclasses.asdict(found)
    return runs_pb2.Turn(source_id=fields.pop("source"), **fields)


def checked(
    demand: Demand, verdicts: Sequence[Verdict], moment: Moment, *, root: bytes, origin: str
) -> runs_pb2.CheckResponse:
    return runs_pb2.CheckResponse(
        passed=all(found.passed for found in verdicts),
        verdicts=map(_verdict, verdicts),
        coordinates=audit_messages.coordinates(moment),
        require=demand.require,
        root_hash=root.hex(),
        origin=origin,
    )


def _verdict(found: Verdict) -> runs_pb2.SourceVerdict:
    return runs_pb2.SourceVerdict(
        source_id=found.source,
        passed=found.passed,
        source=_source(found.state),
        reasons=found.reasons,
        warnings=found.warnings,
    )
