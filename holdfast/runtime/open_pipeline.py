"""A pipeline with its connectors and transforms built: what the loop and the data path work on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.connectors.base import Context, Sink, Source, no_spark
from holdfast.model.jobs import Env, Pipeline, Role, Vertex
from holdfast.outside.clock import Clock
from holdfast.runtime.catalog import Catalog
from holdfast.transforms.base import Transform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    def needs_frames(self) -> bool:
        """Whether Spark plans the way of the rows: for transforms, and for connectors that it reads or writes."""
        by_spark = [
            *(source for source in self.sources.values() if hasattr(source, "frame")),
            *(sink for sink in self.sinks.values() if hasattr(sink, "stage_frame")),
        ]
        return bool(self.transforms or by_spark)

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
    job_id: str,
    env: Env,
    pipeline: Pipeline,
    catalog: Catalog,
    clock: Clock,
    spark: Callable[[], SparkSession] = no_spark,
) -> OpenPipeline:
    """Create the connectors and transforms. Connects to nothing."""

    def context(vertex: Vertex) -> Context:
        return Context(
            job_id=job_id,
            pipeline_id=pipeline.id,
            location=vertex.location,
            mode=env.mode,
            parallelism=vertex.parallelism,
            clock=clock,
            name_in_plan=vertex.output,
            spark=spark,
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
