"""A query of the Sql transform, parsed: which tables it reads, whether row kinds can travel through it, its Spark text.

Functions are left as they were written, but for those that `sql_functions` knows. In strings a backslash that
begins no escape of Spark's stands for itself, so that `'\\d{4}'` is the pattern it looks like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.model.schema import KIND_COLUMN
from holdfast.transforms.sql_functions import rewrite_functions

_AGGREGATES = """
ANY ANY_VALUE APPROX_COUNT_DISTINCT APPROX_PERCENTILE ARRAY_AGG AVG BIT_AND BIT_OR BIT_XOR BOOL_AND BOOL_OR
COLLECT_LIST COLLECT_SET CORR COUNT COUNT_IF COVAR_POP COVAR_SAMP EVERY FIRST FIRST_VALUE GROUPING GROUPING_ID
HISTOGRAM_NUMERIC KURTOSIS LAST LAST_VALUE LISTAGG MAX MAX_BY MEAN MEDIAN MIN MIN_BY MODE PERCENTILE
PERCENTILE_APPROX PERCENTILE_CONT PERCENTILE_DISC REGR_AVGX REGR_AVGY REGR_COUNT REGR_SLOPE SKEWNESS SOME STD
STDDEV STDDEV_POP STDDEV_SAMP STRING_AGG SUM TRY_AVG TRY_SUM VAR_POP VAR_SAMP VARIANCE
"""
_GENERATORS = "EXPLODE EXPLODE_OUTER POSEXPLODE POSEXPLODE_OUTER INLINE STACK"
AGGREGATES = frozenset(_AGGREGATES.split())
GENERATORS = frozenset(_GENERATORS.split())
_ROW_WISE = frozenset({"expressions", "from", "from_", "where", "laterals", "order", "hint"})
_PLAIN = frozenset({"expressions", "from", "from_", "where"})


class QueryProblem(ValueError):
    """What is wrong with a query, with its line and position where they are known."""


@dataclass(frozen=True)
class Query:
    """A parsed query. `tree` is sqlglot's and is never changed: what changes it works on a copy."""

    tree: Any
    relations: tuple[str, ...]
    """Names of the tables it reads, as written, each once."""
    obstacle: str | None
    """Why row kinds cannot travel through it."""
    multiplies: bool
    """It may make several rows of one, or one of several: keys do not survive it."""


@dataclass(frozen=True)
class PlainSelect:
    """A query that is a projection and a filter over one table: no view and no statement is needed for it."""

    alias: str
    projections: tuple[str, ...]
    where: str | None


def parse_query(text: str, *, zeta: bool = False) -> Query:
    """`zeta`: functions that Spark and SeaTunnel both have are SeaTunnel's."""
    from sqlglot import exp

    tree = _parse(text)
    if not isinstance(tree, exp.Query):
        raise QueryProblem("it is no SELECT. Write one SELECT statement")
    relations = _relations(tree)
    if not relations:
        raise QueryProblem("it reads no table. Write FROM and the plugin_input, or FROM dual")
    obstacle = _obstacle(tree)
    laterals = any(True for _ in tree.find_all(exp.Lateral))
    multiplies = laterals or obstacle is not None or _calls(tree, GENERATORS) is not None
    rewrite_functions(tree, _write, zeta=zeta)
    if _relations(tree) != relations:
        raise QueryProblem(
            "a SELECT stands within the arguments of a function of SeaTunnel's."
            " Write it as a join, or use a function of Spark's"
        )
    return Query(tree, relations, obstacle, multiplies)


def render_query(query: Query, views: Mapping[str, str], *, kinds: bool) -> str:
    """The query over views. `views`: from names as written. `kinds`: carry the kind column through."""
    from sqlglot import exp

    tree = query.tree.copy()
    for table in list(_tables(tree)):
        alias = table.alias or table.name
        view = views[_name_of(table)]
        for part in ("db", "catalog"):
            table.set(part, None)
        table.set("this", exp.to_identifier(view))
        if not table.args.get("alias"):
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    if kinds:
        _carry_kinds(tree)
    return _write(tree)


def plain_select(query: Query, *, kinds: bool) -> PlainSelect | None:
    """The parts of a query that is no more than a projection and a filter."""
    from sqlglot import exp

    tree = query.tree
    table = _from_of(tree) if isinstance(tree, exp.Select) else None
    if (
        not isinstance(table, exp.Table)
        or query.obstacle
        or _args(tree) - _PLAIN
        or _args(table) - {"this", "db", "catalog", "alias"}
        or len(list(tree.find_all(exp.Query))) > 1
    ):
        return None
    tree = tree.copy()
    if kinds:
        _carry_kinds(tree)
    where = tree.args.get("where")
    texts = tuple(_write(one) for one in tree.expressions)
    return PlainSelect(
        alias=table.alias or table.name,
        projections=texts,
        where=_write(where.this) if where else None,
    )


def _parse(text: str) -> Any:
    import sqlglot
    from sqlglot.errors import ParseError, TokenError

    try:
        trees = [tree for tree in sqlglot.parse(_decode(text), dialect=_dialect()) if tree]
    except ParseError as wrong:
        raise QueryProblem(_said(wrong.errors[0])) from wrong
    except TokenError as wrong:
        raise QueryProblem(f"{wrong}. Look for a quote that is not closed") from wrong
    if len(trees) != 1:
        raise QueryProblem(f"it holds {len(trees)} statements. Write one SELECT statement")
    return trees[0]


def _said(found: Mapping[str, Any]) -> str:
    said = re.sub(r" but got <Token.*", "", str(found["description"]))
    near = f" near '{found['highlight']}'" if found.get("highlight") else ""
    return f"{said} in line {found['line']}, position {found['col']}{near}. Correct the query"


def _decode(text: str) -> str:
    """Numbered escapes (\\u0041, \\101), which the tokenizer does not know, to their characters."""

    def character(found: re.Match[str]) -> str:
        hexadecimal, octal = found.group(2), found.group(3)
        return found[1] + chr(int(hexadecimal, 16) if hexadecimal else int(octal, 8))

    numbered = r"(?<!\\)((?:\\\\)*)\\(?:u([0-9a-fA-F]{4})|([0-3][0-7]{2}))"
    return re.sub(numbered, character, text)


def _write(tree: Any) -> str:
    return str(tree.sql(dialect=_dialect(), normalize_functions=False))


def _dialect() -> Any:
    from holdfast.transforms.sql_dialect import QueryDialect

    return QueryDialect


def _tables(tree: Any) -> Iterator[Any]:
    """The tables that are read, without those that the query itself names by WITH."""
    from sqlglot import exp

    own = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        is_own = table.name.lower() in own and not table.args.get("db")
        if isinstance(table.this, exp.Identifier) and not is_own:
            yield table


def _relations(tree: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_name_of(table) for table in _tables(tree)))


def _name_of(table: Any) -> str:
    return ".".join(part.name for part in table.parts)


def _from_of(select: Any) -> Any:
    found = select.args.get("from_") or select.args.get("from")
    return found.this if found is not None else None


def _args(node: Any) -> set[str]:
    return {name for name, value in node.args.items() if value}


def _obstacle(tree: Any) -> str | None:
    from sqlglot import exp

    if isinstance(tree, exp.Union):
        if tree.args.get("distinct"):
            return "UNION (write UNION ALL)"
        return _obstacle(tree.left) or _obstacle(tree.right)
    if not isinstance(tree, exp.Select):
        return type(tree).__name__.upper()
    source = _from_of(tree)
    if isinstance(source, exp.Subquery):
        return _row_obstacle(tree) or _obstacle(source.this)
    if not isinstance(source, exp.Table):
        return "a SELECT without FROM"
    return _row_obstacle(tree)


def _row_obstacle(select: Any) -> str | None:
    """What makes a row of the result more than the image of one row."""
    from sqlglot import exp

    named = {"with_": "WITH", "with": "WITH", "joins": "JOIN", "group": "GROUP BY"}
    more = sorted(_args(select) - _ROW_WISE) or sorted(
        _args(_from_of(select)) & {"joins", "pivots", "sample"}
    )
    if more:
        return named.get(more[0], more[0].upper())
    if any(True for part in select.expressions for _ in part.find_all(exp.Window)):
        return "a window function"
    where = select.args.get("where")
    parts = [*select.expressions, *([where] if where else [])]
    if any(True for part in parts for _ in part.find_all(exp.Query)):
        return "a subquery"
    return _calls(select, AGGREGATES)


def _calls(tree: Any, names: frozenset[str]) -> str | None:
    """The first function of these names in the query's own projection."""
    from sqlglot import exp

    for part in getattr(tree, "expressions", ()):
        for call in part.find_all(exp.Anonymous):
            if str(call.this).upper() in names:
                return f"{str(call.this).upper()}()"
    return None


def _carry_kinds(tree: Any) -> None:
    """Add the kind column at the end of every SELECT on the way, and take it out of the stars."""
    from sqlglot import exp

    if isinstance(tree, exp.Union):
        _carry_kinds(tree.left)
        _carry_kinds(tree.right)
        return
    source = _from_of(tree)
    if isinstance(source, exp.Subquery):
        _carry_kinds(source.this)
    for one in tree.expressions:
        star = one.this if isinstance(one, exp.Column) else one
        if isinstance(star, exp.Star):
            kept = star.args.get("except_") or star.args.get("except") or []
            name = "except_" if "except_" in exp.Star.arg_types else "except"
            star.set(name, [*kept, exp.to_identifier(KIND_COLUMN, quoted=True)])
    kind = exp.column(exp.to_identifier(KIND_COLUMN, quoted=True))
    tree.set("expressions", [*tree.expressions, kind])
