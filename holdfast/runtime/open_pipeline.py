"""A pipeline with its connectors and transforms built: what the loop and the data path work on."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from holdfast.connectors.base import Context, Sink, Source
from holdfast.model.jobs import Env, Pipeline, Role, Vertex
from holdfast.outside.clock import Clock
from holdfast.runtime.catalog import Catalog
from holdfast.transforms.base import Transform


@dataclass(frozen=True)
class OpenPipeline:
    """One pipeline, ready for an attempt."""

    job_id: str
    spec: Pipeline
    env: Env
    sources: Mapping[str, Source]
    transforms: Mapping[str, Transform]
    sinks: Mapping[str, Sink]
    clock: Clock

    @property
    def name(self) -> str:
        return f"{self.job_id}/{self.spec.id}"

    def inputs_of(self, vertex: Vertex) -> list[Vertex]:
        by_location = {v.location: v for v in self.spec.vertices}
        return [by_location[location] for location in vertex.inputs]

    def sinks_fed_by(self, location: str) -> list[str]:
        """Sinks that read this vertex directly."""
        return [v.location for v in self.spec.of(Role.SINK) if location in v.inputs]

    def close(self) -> None:
        """All of them, also when one fails at it."""
        with ExitStack() as closing:
            for source in self.sources.values():
                closing.callback(source.close)
            for sink in self.sinks.values():
                closing.callback(sink.close)


def build_pipeline(
    job_id: str, env: Env, pipeline: Pipeline, catalog: Catalog, clock: Clock
) -> OpenPipeline:
    """Create the connectors and transforms. Connects to nothing."""

    def context(vertex: Vertex) -> Context:
        return Context(
            job_id, pipeline.id, vertex.location, env.mode, vertex.parallelism, clock, vertex.output
        )

    def create(role: Role) -> dict[str, Vertex]:
        return {vertex.location: vertex for vertex in pipeline.of(role)}

    return OpenPipeline(
        job_id=job_id,
        spec=pipeline,
        env=env,
        sources={
            at: catalog.source(v.kind).create(v.options, context(v))
            for at, v in create(Role.SOURCE).items()
        },
        transforms={
            at: catalog.transform(v.kind).create(v.options)
            for at, v in create(Role.TRANSFORM).items()
        },
        sinks={
            at: catalog.sink(v.kind).create(v.options, context(v))
            for at, v in create(Role.SINK).items()
        },
        clock=clock,
    )
