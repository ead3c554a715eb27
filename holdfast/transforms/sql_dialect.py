"""How sqlglot reads and writes the queries of the Sql transform. Imported when the first query is parsed.

Spark's dialect without sqlglot's own ideas of functions: a call comes out as it went in.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import TokenType

_PARSER: Any = Spark.Parser
_GENERATOR: Any = Spark.Generator
_SPECIAL = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "POSITION", "OVERLAY")
"""Functions with a syntax of their own."""
_ESCAPES = frozenset("ntrb0Z\\'\"%_u123456789")
_LITERAL = {f"\\{chr(code)}": f"\\{chr(code)}" for code in range(33, 127)}


class QueryDialect(Spark):
    """In strings, a backslash before a sign that Spark does not escape stands for itself."""

    UNESCAPED_SEQUENCES: Any = {  # noqa: RUF012 - sqlglot declares it so
        **Spark.UNESCAPED_SEQUENCES,
        **{sign: same for sign, same in _LITERAL.items() if sign[1] not in _ESCAPES},
    }

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[Any] = ["'", "\\"]
        KEYWORDS: ClassVar[Any] = {
            **Spark.Tokenizer.KEYWORDS,
            "BYTES": TokenType.VARBINARY,
            "TIMESTAMP_TZ": TokenType.TIMESTAMPLTZ,
            "TIMESTAMPTZ": TokenType.TIMESTAMPLTZ,
        }

    class Parser(_PARSER):  # type: ignore[misc]
        TRIM_PATTERN_FIRST = False
        FUNCTIONS: ClassVar[Any] = {}
        FUNCTION_PARSERS: ClassVar[Any] = {
            name: parse for name, parse in _PARSER.FUNCTION_PARSERS.items() if name in _SPECIAL
        }
        NO_PAREN_FUNCTIONS: ClassVar[Any] = {}
        NO_PAREN_FUNCTION_PARSERS: ClassVar[Any] = {
            "CASE": _PARSER.NO_PAREN_FUNCTION_PARSERS["CASE"]
        }

    class Generator(_GENERATOR):  # type: ignore[misc]
        TYPE_MAPPING: ClassVar[Any] = {
            **_GENERATOR.TYPE_MAPPING,
            exp.DataType.Type.TIME: "TIME",
        }
