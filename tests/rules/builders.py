"""One-line builders of valid events, and a story that puts them into log order.

story = Story().listed()                    # the source is in the catalogue
story.review("r1")                          # a published review that supports Good
story.add(confirmed("d1"))
story.shown()["quality"]                    # "some_issues"
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from ledger.core.errors import Problem
from ledger.core.ids import ids_digest, sha256_hex
from ledger.events.catalogue import (
    AliasMapped,
    CatalogueRow,
    CatalogueSynced,
    SourceDeclared,
    SourceReinstated,
    SourceRetired,
    SourceRevised,
    SyncCounts,
)
from ledger.events.defects import (
    Control,
    DefectConfirmed,
    DefectReopened,
    DefectResolved,
    DefectSuspected,
    DefectValidationRecorded,
    DefectWithdrawn,
    Replay,
)
from ledger.events.difficulty import DifficultyReported, ReportedModel, ReportProtocol, Sampling
from ledger.events.fields import ArtifactRef, Parts, Person
from ledger.events.policy import ProtocolAdopted, ProtocolDefined, RulesAdopted
from ledger.events.registry import REGISTRY
from ledger.events.reviews import (
    Coverage,
    Evidence,
    Finding,
    JudgmentRecorded,
    ObservationRecorded,
    ReviewPublished,
    ReviewSuperseded,
    Subject,
    SynthesisRecorded,
    TagAssigned,
    TagTarget,
    Verification,
)
from ledger.rules import RuleEvent, RuleSet, source_of
from ledger.rules.atlas_page_1 import RULES, V2

SOURCE = "MarinSkyRL:svamp"
ORIGIN = "MarinSkyRL"
DATA, VERIFIER = "data-1", "verifier-1"
ISSUE = "https://github.com/example/atlas/issues/7"
_TYPES = {t.model: t.type for t in REGISTRY}
_SOLVER = Person(id="model:example/solver", label="Solver", kind="model")
_UNKNOWN_COVERAGE = Coverage(
    scope="unknown", sample_count=None, population_count=None, sampling_method=None, seed=None, samples=[]
)


def sha(name: str) -> str:
    """A digest that a name stands for."""
    return sha256_hex(name.encode())


def ref(name: str) -> ArtifactRef:
    return ArtifactRef(name=name, sha256=sha(name))


def row(source: str = SOURCE, **fields: Any) -> CatalogueRow:
    known = {"id": source, "origin": ORIGIN, "name": "svamp", "dataset_revision": DATA, "verifier_revision": VERIFIER}
    return CatalogueRow(**{**known, **fields})


def declared(collection: str = "c1", **fields: Any) -> SourceDeclared:
    return SourceDeclared(collection=collection, row=row(**fields))


def revised(collection: str, **fields: Any) -> SourceRevised:
    return SourceRevised(collection=collection, row=row(**fields))


def retired(collection: str) -> SourceRetired:
    return SourceRetired(collection=collection, reason="absent from the inventory")


def reinstated(collection: str, **fields: Any) -> SourceReinstated:
    return SourceReinstated(collection=collection, row=row(**fields))


def parts(ids: list[str]) -> Parts:
    return Parts(count=len(ids), digest=ids_digest(ids), ids=ids)


def synced(collection: str = "c1", ids: list[str] | None = None, *, replaces: str | None = None, **fields: Any):
    counts = SyncCounts(declared=0, revised=0, retired=0, reinstated=0, unchanged=0)
    known = {"origin": ORIGIN, "parts": parts(ids or []), "replaces": replaces, "row_count": 1, "counts": counts}
    return CatalogueSynced(collection=collection, **{**known, **fields})


def finding(severity: str | None = "medium", kind: str = "issue") -> Finding:
    return Finding(id="f", dimension="verifier", text="what was seen", severity=severity, kind=kind)


def _review_fields(collection: str, level: str, **fields: Any) -> dict[str, Any]:
    task = {"task_id": "t1", "task_path": "tasks/1", "row_index": 1}
    nothing = {"task_id": None, "task_path": None, "row_index": None}
    subject = Subject(
        id="source:1" if level == "source" else "source:1/task/t1",
        level=level,
        repository="ChilleD/SVAMP",
        dataset_revision=fields.pop("dataset_revision", DATA),
        source_id=fields.pop("source_id", SOURCE),
        **(nothing if level == "source" else task),
    )
    known = {
        "review_id": "review",
        "reviewer": _SOLVER,
        "publisher": _SOLVER,
        "reviewed_at": None,
        "imported_at": "2026-10-02T00:00:00Z",
        "tests_executed": None,
        "coverage": _UNKNOWN_COVERAGE,
        "summary": "what was found",
        "verdict": "keep",
        "metrics": [],
        "findings": [],
        "evidence": [Evidence(artifact=ref("trace"), retrieved_at=None, locator=None, artifact_revision=None)],
        "derived_from_review_ids": [],
        "supersedes_review_id": None,
        "attributes": {},
    }
    return {"collection": collection, "subject": subject, **known, **fields}


def run(collection: str, *, status: str = "verified", level: str = "task", **fields: Any) -> ObservationRecorded:
    """A native run of the verifier."""
    known = {"method": "runtime_execution", "tests_executed": True, "verdict": "unrated"}
    known["verification"] = Verification(status=status)
    return ObservationRecorded(**_review_fields(collection, level, **{**known, **fields}))


def judgment(collection: str, verdict: str = "keep", *findings: Finding, by: str = "", **fields: Any):
    """A judge's opinion of a task."""
    known = {"method": "model_judgment", "reviewed_at": "2026-10-01T00:00:00Z"}
    reviewer = Person(id=by or _SOLVER.id, label="Judge", kind="model")
    opinion = {"verdict": verdict, "findings": list(findings), "reviewer": reviewer}
    return JudgmentRecorded(**_review_fields(collection, "task", **{**known, **opinion, **fields}))


def synthesis(collection: str, verdict: str = "keep", *findings: Finding, level: str = "source", **fields: Any):
    """The opinions brought together."""
    known = {"method": "synthesis", "verdict": verdict, "findings": list(findings)}
    return SynthesisRecorded(**_review_fields(collection, level, **{**known, **fields}))


def tag(collection: str | None) -> TagAssigned:
    return TagAssigned(
        collection=collection,
        assignment_id="t1",
        target=TagTarget(kind="subject", id="source:1"),
        namespace="license",
        value="mit",
        origin="curated",
        assigned_by=_SOLVER,
        assigned_at="2026-10-01T00:00:00Z",
        evidence_review_ids=[],
        note=None,
        supersedes_assignment_id=None,
    )


def published(review: str, collection: str, ids: list[str], **fields: Any) -> ReviewPublished:
    known = {
        "source_id": SOURCE,
        "document": ref("quality-reviews.json"),
        "schema_version": "0.3.0",
        "created_at": "2026-10-02T00:00:00Z",
        "dataset_revision": DATA,
        "verifier_revision": VERIFIER,
        "verifier_revision_basis": "execution",
        "executed_commit": "a" * 40,
        "reference_commit": "b" * 40,
        "execution_provenance": None,
    }
    return ReviewPublished(review=sha(review), collection=collection, parts=parts(ids), **{**known, **fields})


def superseded(review: str, by: str | None = None) -> ReviewSuperseded:
    return ReviewSuperseded(review=sha(review), superseded_by=by and sha(by), reason="a better review")


def good(collection: str, **fields: Any) -> list[BaseModel]:
    """The parts of a review that supports Good."""
    return [run(collection, **fields), *[judgment(collection) for _ in range(3)], synthesis(collection)]


def some_issues(collection: str) -> list[BaseModel]:
    return [run(collection), judgment(collection, "keep", finding("medium")), synthesis(collection)]


def bad(collection: str) -> list[BaseModel]:
    judges = [judgment(collection, "reject", finding("high")) for _ in range(3)]
    return [run(collection), *judges, synthesis(collection, "reject")]


def fixed(collection: str, **claim: Any) -> list[BaseModel]:
    """The parts of a review that says that the fix was validated."""
    known = {
        "issue_url": ISSUE,
        "dataset_revision": DATA,
        "verifier_revision": VERIFIER,
        "fix_validated": True,
    }
    return [*good(collection), judgment(collection, attributes={"resolved_verifier_issues": [{**known, **claim}]})]


def suspected(defect: str = "d1", kind: str = "verifier") -> DefectSuspected:
    return DefectSuspected(defect=defect, kind=kind, summary="it may reward wrong answers")


def confirmed(defect: str = "d1", *, kind: str = "verifier", issue: str | None = ISSUE, **fields: Any):
    known = {
        "summary": "it rewards wrong answers",
        "native_inputs": [ref("input-1"), ref("input-2")],
        "expected": "reward 0",
        "observed": "reward 1",
        "reproduction": "run the verifier on the inputs",
        "issue_state": "filed" if issue else "missing",
        "issue_url": issue,
    }
    return DefectConfirmed(defect=defect, kind=kind, **{**known, **fields})


def replay(name: str, *, passed: bool = True) -> Replay:
    return Replay(input_sha256=sha(name), expected="reward 0", observed="reward 0", passed=passed)


def control(kind: str = "incorrect", *, passed: bool = True) -> Control:
    return Control(kind=kind, expected="reward 0", observed="reward 0", passed=passed)


def validation(defect: str = "d1", **fields: Any) -> DefectValidationRecorded:
    known = {
        "dataset_revision": DATA,
        "verifier_revision": VERIFIER,
        "replays": [replay("input-1"), replay("input-2")],
        "controls": [control()],
        "evidence": [ref("replay.log")],
    }
    return DefectValidationRecorded(defect=defect, **{**known, **fields})


def resolved(validation_id: str, review: str, defect: str = "d1") -> DefectResolved:
    return DefectResolved(defect=defect, validation=validation_id, review=sha(review))


def reopened(defect: str = "d1") -> DefectReopened:
    return DefectReopened(defect=defect, reason="it is there again")


def withdrawn(defect: str = "d1") -> DefectWithdrawn:
    return DefectWithdrawn(defect=defect, reason="the input was wrong")


def measured(size: str, solved: int, verified: int, **fields: Any) -> ReportedModel:
    """A model's outcome under the protocol v2, unless told otherwise."""
    terms = next(m for m in V2.models if m.size == size)
    known = {"model": terms.model, "unverified": 0, "attempted": verified}
    known["generation_parameters"] = terms.generation_parameters
    return ReportedModel(size=size, solved=solved, verified=verified, **{**known, **fields})


def report(*models: ReportedModel, protocol: str = V2.protocol, limits: Any = None, **fields: Any):
    asked = {n: getattr(V2, n) for n in ("context_window", "max_input_tokens", "max_output_tokens")}
    known = {
        "atlas_id": SOURCE,
        "report": ref("difficulty.json"),
        "estimated_at": "2026-10-05T00:00:00Z",
        "source_revision": DATA,
        "verifier_revision": VERIFIER,
        "sampling": Sampling(task_count=32),
    }
    outcomes = models or (measured("small", 11, 32), measured("large", 17, 32), measured("hosted", 21, 32))
    ran = ReportProtocol(id=protocol, **{**asked, **(limits or {})})
    return DifficultyReported(protocol=ran, models=list(outcomes), **{**known, **fields})


def rules_adopted(digest: str = "one", rules: str = "atlas-page-1") -> RulesAdopted:
    return RulesAdopted(rules=rules, digest=sha(digest))


def defined(protocol: str = V2.protocol, **changes: Any) -> ProtocolDefined:
    return V2.model_copy(update={"protocol": protocol, **changes})


def adopted(definition: str, protocol: str = V2.protocol, replaces: str | None = None) -> ProtocolAdopted:
    return ProtocolAdopted(protocol=protocol, definition=definition, replaces=replaces)


class Story:
    """Events in log order, folded as a projector folds them: the environment, and the facts of each source."""

    def __init__(self, rules: RuleSet[Any, Any] = RULES) -> None:
        self.rules = rules
        self.size = 0
        self.environment = rules.initial_environment()
        self.facts: dict[str, Any] = {}
        self.events: list[RuleEvent] = []

    def add(self, payload: BaseModel, *, stream: str = "", sample: bool = False, principal: str | None = None) -> str:
        """Appends an event and gives its id."""
        return self.append(self.event(payload, stream=stream, sample=sample, principal=principal))

    def append(self, event: RuleEvent) -> str:
        self.events.append(event)
        self.size += 1
        self.environment = self.rules.fold_environment(self.environment, event)
        if source := source_of(event.stream):
            self.facts[source] = self.rules.fold(self.facts_of(source), event)
        return event.id

    def event(
        self, payload: BaseModel, *, stream: str = "", sample: bool = False, principal: str | None = None
    ) -> RuleEvent:
        """The event that would come next."""
        type_, stream = _TYPES[type(payload)], stream or _stream(payload)
        return RuleEvent(self.size, f"e{self.size}", type_, stream, payload, sample=sample, principal=principal)

    def listed(self, collection: str = "c1", **fields: Any) -> Story:
        """Declares the source, closes the refresh, and adopts the protocol v2."""
        self.refresh(declared(collection, **fields))
        self.add(adopted(self.add(defined())))
        return self

    def refresh(self, *payloads: BaseModel, sample: bool = False, **fields: Any) -> str:
        """A refresh of the origin with these parts, closed."""
        ids = [self.add(p, sample=sample) for p in payloads]
        replaces = self.environment.synced.get(ORIGIN)
        return self.add(synced(payloads[0].collection, ids, replaces=replaces, **fields), sample=sample)

    def revise(self, collection: str, **fields: Any) -> str:
        return self.refresh(revised(collection, **fields))

    def review(self, name: str, kind: Any = good, *, sample: bool = False, **fields: Any) -> str:
        """Publishes a review whose parts `kind` makes, under its name."""
        ids = [self.add(part, sample=sample) for part in kind(name)]
        return self.add(published(name, name, ids, **fields), sample=sample)

    def resolve(self, defect: str = "d1", review: str = "fix", **fields: Any) -> str:
        """Validates the fix, publishes the review that says so, and resolves the defect."""
        validated = self.add(validation(defect, **fields))
        self.review(review, fixed)
        return self.add(resolved(validated, review, defect))

    def shown(self, source: str = SOURCE) -> dict[str, Any]:
        state = self.rules.show(source, self.facts_of(source), self.environment)
        assert state is not None, f"{source} is not in the catalogue"
        return state

    def against(self, payload: BaseModel, *, stream: str = "") -> tuple[Problem, ...]:
        """What `decide` has against the event that would come next."""
        event = self.event(payload, stream=stream)
        return self.rules.decide(event, self.facts_of(source_of(event.stream) or ""), self.environment)

    def facts_of(self, source: str) -> Any:
        return self.facts.get(source) or self.rules.initial_facts()

    def rules_of(self, field: str) -> list[str]:
        """The names of the rules behind a field."""
        return [r["rule"] for r in self.shown()["reasons"] if r["field"] == field]

    def text_of(self, rule: str) -> str:
        return next(r["text"] for r in self.shown()["reasons"] if r["rule"] == rule)

    def cited_by(self, rule: str) -> list[str]:
        """The types of the events that a reason names."""
        return [self.events[pos].type for pos in self.positions_of(rule)]

    def positions_of(self, rule: str) -> list[int]:
        return next(r["events"] for r in self.shown()["reasons"] if r["rule"] == rule)


def _stream(payload: BaseModel) -> str:
    match payload:
        case CatalogueSynced():
            return f"origin/{payload.origin}"
        case RulesAdopted():
            return "policy/rules"
        case ProtocolDefined() | ProtocolAdopted():
            return "policy/protocols"
        case AliasMapped():
            return f"alias/{payload.alias}"
        case SourceDeclared() | SourceRevised() | SourceReinstated():
            return f"source/{payload.row.id}"
        case _:
            return f"source/{SOURCE}"
