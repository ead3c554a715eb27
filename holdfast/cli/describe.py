"""A parsed job as plain data, with what its sinks promise, for `check`, `plan` and whoever asks for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from holdfast.cli.checked_file import CheckedFile
from holdfast.connectors.base import Connector, Context, Sink, Source
from holdfast.model.errors import HoldfastError
from holdfast.model.jobs import JobSpec, Pipeline, Role, Vertex
from holdfast.model.json import JsonObject
from holdfast.outside.clock import RealClock
from holdfast.runtime.catalog import Catalog
from holdfast.runtime.guarantees import describe_guarantee
from holdfast.spec.config import Problem


@dataclass(frozen=True, slots=True)
class Promise:
    """What a sink guarantees with these options, and what it comes to behind these sources."""

    guarantee: str
    condition: str
    said: str


@dataclass(frozen=True, slots=True)
class Described:
    """A job file with its sinks' promises, by location. A job of which nothing can be built has problems."""

    file: CheckedFile
    promises: Mapping[str, Promise] = field(default_factory=dict)


def describe_file(file: CheckedFile, catalog: Catalog) -> Described:
    """Builds the connectors, which connects to nothing, to hear what they promise or what they lack."""
    if file.parsed.spec is None:
        return Described(file)
    builder = _Builder(file.parsed.spec, catalog)
    promises = builder.promises()
    if builder.problems:
        parsed = replace(file.parsed, spec=None, problems=builder.problems)
        return Described(replace(file, parsed=parsed))
    return Described(file, promises)


class _Builder:
    """The connectors of a job, built once each; what cannot be built is a problem."""

    def __init__(self, spec: JobSpec, catalog: Catalog) -> None:
        self._spec = spec
        self._catalog = catalog
        self.problems: list[Problem] = []

    def promises(self) -> dict[str, Promise]:
        return {at: p for pipeline in self._spec.pipelines for at, p in self._of(pipeline).items()}

    def _of(self, pipeline: Pipeline) -> dict[str, Promise]:
        sources: dict[str, Source] = {}
        for vertex in pipeline.of(Role.SOURCE):
            source = self._build(self._catalog.source(vertex.kind), vertex, pipeline)
            if source is not None:
                sources[vertex.location] = source  # type: ignore[assignment]
        found: dict[str, Promise] = {}
        for vertex in pipeline.of(Role.SINK):
            sink: Sink | None = self._build(self._catalog.sink(vertex.kind), vertex, pipeline)  # type: ignore[assignment]
            if sink is not None:
                feeding = [s for at, s in sources.items() if at in _sources_of(vertex, pipeline)]
                said = describe_guarantee(sink, feeding, back=None)
                found[vertex.location] = Promise(sink.guarantee.value, sink.condition, said)
        return found

    def _build(self, connector: Connector, vertex: Vertex, pipeline: Pipeline) -> object | None:
        mode, clock = self._spec.env.mode, RealClock()
        context = Context(
            *(self._spec.env.job_id or "check", pipeline.id, vertex.location, mode),
            *(vertex.parallelism, clock, vertex.output),
        )
        try:
            built: object = connector.create(vertex.options, context)
        except HoldfastError as error:
            self.problems.append(
                Problem(vertex.line, f"{vertex.role.value} {vertex.kind}: {error}")
            )
            return None
        return built


def _sources_of(vertex: Vertex, pipeline: Pipeline) -> set[str]:
    """The locations of everything that a vertex reads, however far away."""
    inputs = {v.location: v.inputs for v in pipeline.vertices}
    found: set[str] = set()
    waiting = list(vertex.inputs)
    while waiting:
        at = waiting.pop()
        if at not in found:
            found.add(at)
            waiting += inputs[at]
    return found


def to_json(described: Described) -> JsonObject:
    """Everything that `check` and `plan` print."""
    file = described.file
    found: JsonObject = {
        "file": str(file.path),
        "ok": file.parsed.spec is not None,
        "problems": [_problem(p) for p in file.problems()],
        "notes": [_problem(p) for p in file.notes()],
    }
    spec = file.parsed.spec
    if spec is not None:
        env = spec.env
        found["job"] = {"id": env.job_id, "name": env.job_name, "mode": env.mode.value}
        found["pipelines"] = [
            {"id": p.id, "vertices": [_vertex(v, described) for v in p.vertices]}
            for p in spec.pipelines
        ]
    return found


def _problem(problem: Problem) -> JsonObject:
    place: JsonObject = {"line": problem.line, "said": problem.said}
    return place if problem.file is None else {**place, "file": problem.file}


def _vertex(vertex: Vertex, described: Described) -> JsonObject:
    found: JsonObject = {
        "location": vertex.location,
        "role": vertex.role.value,
        "kind": vertex.kind,
        "line": vertex.line,
        "inputs": list(vertex.inputs),
        "output": None if vertex.role is Role.SINK else vertex.output,
        "parallelism": vertex.parallelism,
    }
    promise = described.promises.get(vertex.location)
    if promise is not None:
        found |= {
            "guarantee": promise.guarantee,
            "condition": promise.condition,
            "said": promise.said,
        }
    return found
