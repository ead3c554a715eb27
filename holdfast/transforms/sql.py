"""Sql: a query of Spark SQL over what comes in, epoch by epoch.

FROM names the `plugin_input`, a table's path or its name, or `dual`, which is whatever comes in. A query over one
table is applied to every table that comes in under that name. A query over several tables joins the rows of one
epoch, no more: rows that arrive in different epochs never meet, and aggregates are those of one epoch.
Row kinds travel through a projection, a filter, LATERAL VIEW and UNION ALL; a query that does more refuses rows
with kinds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from holdfast.model.errors import ConfigError
from holdfast.model.jobs import JobMode
from holdfast.model.schema import KIND_COLUMN, RowKind
from holdfast.spec.options import nearest, option
from holdfast.transforms.base import TableFrame, Transform, TransformKind
from holdfast.transforms.columns import carries_kinds
from holdfast.transforms.spark_errors import telling
from holdfast.transforms.sql_functions import FunctionProblem
from holdfast.transforms.sql_query import (
    PlainSelect,
    Query,
    QueryProblem,
    parse_query,
    plain_select,
    render_query,
)
from holdfast.transforms.table_rules import (
    RULES_DOC,
    Rule,
    RuleOptions,
    TableOptions,
    TableWise,
    check_rules,
    make_table_wise,
    required,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_VIEW_NUMBERS = itertools.count(1)
"""Pipelines share a session: no two transforms may share a view."""


@dataclass(frozen=True)
class Statement:
    """What one rule says."""

    query: str | None = option("The SELECT (required).", default=None)
    engine: Literal["SPARK", "ZETA", "INTERNAL"] = option(
        "Whose meaning counts for functions that Spark and SeaTunnel both have: Spark's, or with"
        " ZETA (INTERNAL is the same) SeaTunnel's.",
        default="SPARK",
    )


@dataclass(frozen=True)
class StatementOfTable(Statement, RuleOptions):
    """An entry of `table_transform`."""


@dataclass(frozen=True)
class Options(Statement, TableOptions):
    """The block."""

    table_transform: list[StatementOfTable] = option(RULES_DOC, default=[])


class PerTable:
    """One query over one table at a time. What is derived from the query is derived once."""

    def __init__(self, query: Query) -> None:
        self.query = query
        plain = {kinds: plain_select(query, kinds=kinds) for kinds in (False, True)}
        self._projections = {k: Projection(one) for k, one in plain.items() if one is not None}
        self._view = f"holdfast_sql_{next(_VIEW_NUMBERS)}"
        self._texts: dict[bool, str] = {}

    def apply(self, found: TableFrame) -> TableFrame:
        if not _reads(self.query.relations[0], found):
            return found
        kinds = carries_kinds(found.frame)
        if kinds:
            _expect_row_wise(self.query)
        with telling(f"apply transform Sql to table '{found.table.path}'", _names(found)):
            if kinds in self._projections:
                frame = self._projections[kinds].apply(found.frame)
            else:
                text = self._text(kinds)
                with _views({self._view: found.frame}):
                    frame = found.frame.sparkSession.sql(text)
        return _after(self.query, found, frame)

    def _text(self, kinds: bool) -> str:
        if kinds not in self._texts:
            views = {self.query.relations[0]: self._view}
            self._texts[kinds] = render_query(self.query, views, kinds=kinds)
        return self._texts[kinds]


class Projection:
    """A projection and a filter, parsed by Spark once: three calls and no statement per epoch."""

    def __init__(self, plain: PlainSelect) -> None:
        self._plain = plain
        self._session: SparkSession | None = None
        self._where: Column | None = None
        self._columns: Any = None

    def apply(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

        session = frame.sparkSession
        if self._session is not session:
            self._prepare(session)
        rows = frame.alias(self._plain.alias)
        if self._where is not None:
            rows = rows.where(self._where)
        # The columns are handed over as the JVM holds them: handing over each by itself costs more than the plan.
        return ClassicFrame(rows._jdf.select(self._columns), session)

    def _prepare(self, session: SparkSession) -> None:
        from pyspark.sql import functions as F
        from pyspark.sql.classic.column import _to_java_column, _to_seq

        if self._plain.where is not None:
            self._where = F.expr(self._plain.where)
        columns = [F.expr(text) for text in self._plain.projections]
        self._columns = _to_seq(session.sparkContext, columns, _to_java_column)
        self._session = session


class Sql:
    """All queries of the transform; which tables they were given is remembered from the first call."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._tables: TableWise | None = None
        self._joined: Joined | None = None
        self._known: dict[tuple[str, str], TableFrame] = {}

    def apply(self, inputs: Sequence[TableFrame]) -> list[TableFrame]:
        if self._tables is None and self._joined is None:
            self._parse()
        for found in inputs:
            if (found.output, found.table.path) not in self._known:
                self._known[found.output, found.table.path] = found
        if self._joined is not None:
            return self._joined.apply(inputs, list(self._known.values()))
        assert self._tables is not None
        return self._tables.apply(inputs)

    def _parse(self) -> None:
        query = parsed(self._options) if self._options.query else None
        if query is not None and len(query.relations) > 1:
            self._joined = Joined(query)
        else:
            self._tables = make_table_wise(self._options, self._rule)

    def _rule(self, statement: Any) -> Rule:
        one = PerTable(parsed(statement))
        name = one.query.relations[0]

        def apply(found: TableFrame) -> TableFrame:
            if not any(_reads(name, known) for known in self._known.values()):
                raise _no_such_table(name, self._known.values())
            if not any(_reads(name, k) for k in self._known.values() if k.output == found.output):
                raise ConfigError(
                    f"Cannot apply transform Sql: its query reads '{name}' and not '{found.output}',"
                    f" which comes in as well. Name both in the query, or give the other input to"
                    f" a transform or sink of its own."
                )
            return one.apply(found)

        return apply


class Joined:
    """One query over several tables of one epoch. A table without rows in it is there, and empty."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._views = {name: f"holdfast_sql_{next(_VIEW_NUMBERS)}" for name in query.relations}
        self._text = render_query(query, self._views, kinds=False)
        self._text_with_kinds = (
            None if query.obstacle else render_query(query, self._views, kinds=True)
        )

    def apply(self, inputs: Sequence[TableFrame], known: list[TableFrame]) -> list[TableFrame]:
        used = {name: _only(name, known) for name in self._query.relations}
        self._expect_all_read(used, known)
        now = {(one.output, one.table.path): one for one in inputs}
        frames = {
            name: now.get((one.output, one.table.path)) or _without_rows(one)
            for name, one in used.items()
        }
        kinds = any(carries_kinds(one.frame) for one in frames.values())
        if kinds:
            _expect_row_wise(self._query)
            frames = {name: _with_kinds(one) for name, one in frames.items()}
        text = self._text_with_kinds if kinds else self._text
        first = frames[self._query.relations[0]]
        columns = [name for one in frames.values() for name in _names(one)]
        views = {self._views[name]: one.frame for name, one in frames.items()}
        with telling(f"apply transform Sql to {', '.join(frames)}", columns), _views(views):
            frame = first.frame.sparkSession.sql(text or "")
        read = {(one.output, one.table.path) for one in used.values()}
        others = [one for at, one in now.items() if at not in read]
        return [_after(self._query, first, frame), *others]

    def _expect_all_read(self, used: Mapping[str, TableFrame], known: list[TableFrame]) -> None:
        outputs = {one.output for one in used.values()}
        for one in known:
            if one.output not in outputs:
                raise ConfigError(
                    f"Cannot apply transform Sql: its query does not read '{one.output}', which"
                    f" comes in. Name it in the query, or take it out of plugin_input."
                )


def parsed(statement: Any) -> Query:
    try:
        return parse_query(statement.query, zeta=statement.engine != "SPARK")
    except (QueryProblem, FunctionProblem) as wrong:
        raise ConfigError(f"Cannot read the query of transform Sql: {wrong}.") from wrong


def create(options: Options) -> Transform:
    return Sql(options)


def check(options: Options, mode: JobMode) -> list[str]:
    found = check_rules(options, find_problems)
    if not found and options.query and options.table_transform:
        relations = parsed(options).relations
        if len(relations) > 1:
            found.append(
                f"the query reads {', '.join(relations)}; table_transform goes with queries over"
                f" one table only"
            )
    return found


def find_problems(statement: Any) -> Sequence[str]:
    if not statement.query:
        return required(statement, "query")
    try:
        query = parse_query(statement.query, zeta=statement.engine != "SPARK")
    except (QueryProblem, FunctionProblem) as wrong:
        return [f"the query cannot be read: {wrong}"]
    if isinstance(statement, RuleOptions) and len(query.relations) > 1:
        return ["the query of one table reads several; write it outside table_transform"]
    return []


@contextmanager
def _views(frames: Mapping[str, DataFrame]) -> Iterator[None]:
    """Views for as long as a query over them is analysed; its plan holds what it needs of them."""
    try:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        yield
    finally:
        for name, frame in frames.items():
            # Not by `catalog.dropTempView`: it would unpersist a frame that several plans read.
            inside: Any = frame.sparkSession
            inside._jsparkSession.sessionState().catalog().dropTempView(name)


def _after(query: Query, found: TableFrame, frame: DataFrame) -> TableFrame:
    table = found.table
    if query.multiplies:
        table = replace(table, primary_key=(), unique_keys=())
    return replace(found, table=table, frame=frame)


def _reads(name: str, found: TableFrame) -> bool:
    known = (found.output, found.table.path, found.table.name, "dual")
    return name.lower() in [one.lower() for one in known]


def _only(name: str, known: list[TableFrame]) -> TableFrame:
    """The one table that a name in a join stands for; a path goes before a name."""
    if name.lower() == "dual" and len(known) == 1:
        return known[0]
    for names_of in (_path_of, _name_of, _output_of):
        found = [one for one in known if names_of(one).lower() == name.lower()]
        if len(found) == 1:
            return found[0]
        if found:
            paths = ", ".join(one.table.path for one in found)
            raise ConfigError(
                f"Cannot apply transform Sql: '{name}' stands for several tables ({paths})."
                f" Name the table by its path."
            )
    raise _no_such_table(name, known)


def _path_of(found: TableFrame) -> str:
    return found.table.path


def _name_of(found: TableFrame) -> str:
    return found.table.name


def _output_of(found: TableFrame) -> str:
    return found.output


def _no_such_table(name: str, known: Iterable[TableFrame]) -> ConfigError:
    names = list(dict.fromkeys(n for one in known for n in (one.output, one.table.path)))
    return ConfigError(
        f"Cannot apply transform Sql: its query reads '{name}', and there is {', '.join(names)}."
        f"{nearest(name, names) or ' Name the plugin_input, or dual.'}"
    )


def _expect_row_wise(query: Query) -> None:
    if query.obstacle is not None:
        raise ConfigError(
            f"Cannot apply transform Sql: its query has {query.obstacle}, and the rows that come"
            f" in carry kinds (+I -U +U -D), which have no meaning behind that."
            f" Put FilterRowKind with RowKindExtractor before it, or leave it out of the query."
        )


def _without_rows(found: TableFrame) -> TableFrame:
    from pyspark.sql import functions as F

    return replace(found, frame=found.frame.where(F.lit(False)))


def _with_kinds(found: TableFrame) -> TableFrame:
    """Rows without kinds are inserts."""
    from pyspark.sql import functions as F

    if carries_kinds(found.frame):
        return found
    insert = F.lit(RowKind.INSERT.value).cast("tinyint")
    return replace(found, frame=found.frame.withColumn(KIND_COLUMN, insert))


def _names(found: TableFrame) -> list[str]:
    return found.table.column_names


TRANSFORM = TransformKind(
    "Sql",
    Options,
    create,
    "Runs a query of Spark SQL; functions of SeaTunnel's that Spark lacks are provided.",
    check,
)
