"""A small catalog of connectors and transforms that exist for these tests alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.model.jobs import JobMode, JobSpec, Role
from holdfast.model.schema import Table
from holdfast.spec.catalog import Declared
from holdfast.spec.options import option
from holdfast.spec.parse import Parsed, parse_job
from holdfast.spec.schema_block import parse_schema


@dataclass(frozen=True)
class FakeSource:
    row_num: int = option("Rows.", default=5, name="row.num", minimum=0)
    schema: Table | None = option("Columns.", default=None, parse=parse_schema, type_name="schema")


@dataclass(frozen=True)
class Jdbc:
    url: str = option("Where.", identity=True)
    table: str | None = option("Which.", default=None, identity=True)
    query: str | None = option("What.", default=None)
    user: str | None = option("Who.", default=None, aliases=("username",))
    password: str | None = option("Secret.", default=None, secret=True)
    properties: dict[str, str] = option("Driver's own.", default={})


@dataclass(frozen=True)
class Sql:
    query: str = option("The SELECT.")


@dataclass(frozen=True)
class Filter:
    include_fields: list[str] = option("Kept.", default=[])
    exclude_fields: list[str] = option("Dropped.", default=[])


@dataclass(frozen=True)
class Console:
    print_data: bool = option("Whether rows are shown.", default=True, name="log.print.data")


@dataclass(frozen=True)
class LocalFile:
    path: str = option("The folder.", identity=True)
    file_name_expression: str = option("Names.", default="${transactionId}")


def _one_of_both(options: Any, mode: JobMode) -> Sequence[str]:
    both = bool(options.include_fields) == bool(options.exclude_fields)
    return ["give one of include_fields and exclude_fields"] if both else []


def _only_batch(options: Any, mode: JobMode) -> Sequence[str]:
    return ["reads in BATCH mode only"] if mode is JobMode.STREAMING else []


class ACatalog:
    """Jdbc reads in batch only, so that a check that looks at the mode is there as well."""

    known: Mapping[tuple[Role, str], Declared] = {
        (role, name): Declared(name, options, check)
        for role, name, options, check in [
            (Role.SOURCE, "FakeSource", FakeSource, lambda options, mode: ()),
            (Role.SOURCE, "Jdbc", Jdbc, _only_batch),
            (Role.TRANSFORM, "Sql", Sql, lambda options, mode: ()),
            (Role.TRANSFORM, "Filter", Filter, _one_of_both),
            (Role.SINK, "Console", Console, lambda options, mode: ()),
            (Role.SINK, "Jdbc", Jdbc, lambda options, mode: ()),
            (Role.SINK, "LocalFile", LocalFile, lambda options, mode: ()),
        ]
    }

    def find(self, role: Role, name: str) -> Declared | None:
        if name == "NeedsDriver":
            raise ModuleNotFoundError("No module named 'driver_x'", name="driver_x")
        for (of, known), declared in self.known.items():
            if of is role and known.lower() == name.lower():
                return declared
        return None

    def names(self, role: Role) -> list[str]:
        return sorted(name for of, name in self.known if of is role)


def parse(text: str, *, name: str = "orders.conf", **variables: str) -> Parsed:
    return parse_job(text, name=name, variables=variables, catalog=ACatalog())


def spec_of(text: str, *, name: str = "orders.conf", **variables: str) -> JobSpec:
    """The spec of a text that must have no problems."""
    parsed = parse(text, name=name, **variables)
    assert parsed.problems == []
    assert parsed.spec is not None
    return parsed.spec


def said_of(text: str, *, name: str = "orders.conf", **variables: str) -> list[str]:
    """All problems of a text, as a user reads them."""
    parsed = parse(text, name=name, **variables)
    assert (parsed.spec is None) == bool(parsed.problems)
    return [str(problem) for problem in parsed.problems]
