"""SeaTunnel's SQL functions in Spark's: those that Spark has not, or has with other arguments.

A function that both have with the same arguments is Spark's, unless the transform says `engine = ZETA`: then CONCAT
leaves out nulls, DAYNAME and MONTHNAME are written out, TO_DATE goes by its pattern, AES_ENCRYPT is CBC in Base64.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class FunctionProblem(ValueError):
    """A call that cannot be made here, and what to write instead."""


@dataclass(frozen=True)
class Call:
    """A call as it was written: its arguments as SQL, and their values where they are literals."""

    name: str
    texts: Sequence[str]
    literals: Sequence[str | None]

    @property
    def count(self) -> int:
        return len(self.texts)

    def literal(self, at: int) -> str | None:
        return self.literals[at] if at < self.count else None


Write = Callable[[Any], str]
"""A part of a query as SQL."""
Rewrite = Callable[[Call], str | None]
"""The call in Spark's SQL, or None: it is fine as it is."""

_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_DAYS = {"DAY": 1, "WEEK": 7}
_SECONDS = {"MILLISECOND": "/ 1000", "MICROSECOND": "/ 1000000"}
_CLOCK = ("HOUR", "MINUTE", "SECOND")
_FLAGS = {"i": "i", "n": "s", "m": "m"}

TEMPLATES: Mapping[tuple[str, int], str] = {
    ("HEXTORAW", 1): "DECODE(UNHEX({0}), 'UTF-16BE')",
    ("RAWTOHEX", 1): (
        "LOWER(CASE WHEN TYPEOF({0}) = 'binary' THEN HEX({0})"
        " ELSE HEX(ENCODE(CAST({0} AS STRING), 'UTF-16BE')) END)"
    ),
    ("TO_BASE64", 1): "BASE64({0})",
    ("TO_BASE64", 2): "BASE64(ENCODE({0}, {1}))",
    ("FROM_BASE64", 1): "DECODE(UNBASE64({0}), 'UTF-8')",
    ("FROM_BASE64", 2): "DECODE(UNBASE64({0}), {1})",
    ("INSERT", 4): "OVERLAY({0} PLACING {3} FROM {1} FOR {2})",
    ("INSTR", 3): "LOCATE({1}, {0}, {2})",
    ("LTRIM", 2): "TRIM(LEADING {1} FROM {0})",
    ("RTRIM", 2): "TRIM(TRAILING {1} FROM {0})",
    ("TO_CHAR", 1): "CAST({0} AS STRING)",
    ("TRIM_SCALE", 1): "{0}",
    ("NOW", 0): "LOCALTIMESTAMP()",
    ("CURRENT_TIMESTAMP", 0): "LOCALTIMESTAMP()",
    ("DAY_OF_MONTH", 1): "DAYOFMONTH({0})",
    ("DAY_OF_WEEK", 1): "(WEEKDAY({0}) + 1)",
    ("DAY_OF_YEAR", 1): "DAYOFYEAR({0})",
    ("WEEK", 1): "WEEKOFYEAR({0})",
    ("FORMATDATETIME", 2): "DATE_FORMAT({0}, {1})",
    ("FROM_UNIXTIME", 3): (
        "DATE_FORMAT(CONVERT_TIMEZONE({2}, CAST(TIMESTAMP_SECONDS({0}) AS TIMESTAMP_NTZ)), {1})"
    ),
    ("VECTOR_DIMS", 1): "SIZE({0})",
    ("VECTOR_NORM", 1): "SQRT({dot00})",
    ("INNER_PRODUCT", 2): "{dot01}",
    ("COSINE_DISTANCE", 2): "(1 - {dot01} / (SQRT({dot00}) * SQRT({dot11})))",
    (
        "L1_DISTANCE",
        2,
    ): "AGGREGATE(ZIP_WITH({0}, {1}, (x, y) -> ABS(CAST(x AS DOUBLE) - y)), 0D, (s, v) -> s + v)",
    ("L2_DISTANCE", 2): (
        "SQRT(AGGREGATE(ZIP_WITH({0}, {1}, (x, y) -> POWER(CAST(x AS DOUBLE) - y, 2)), 0D, (s, v) -> s + v))"
    ),
    ("VECTOR_NORMALIZE", 1): "TRANSFORM({0}, x -> CAST(x / SQRT({dot00}) AS FLOAT))",
}
"""By name and count of arguments."""

ZETA_TEMPLATES: Mapping[tuple[str, int], str] = {
    ("DAYNAME", 1): "DATE_FORMAT({0}, 'EEEE')",
    ("MONTHNAME", 1): "DATE_FORMAT({0}, 'MMMM')",
}


def rewrite_functions(tree: Any, write: Write, *, zeta: bool) -> None:
    """Change the calls within `tree`, innermost first. Raises FunctionProblem."""
    from sqlglot import exp

    _name_projections(tree, write, zeta)
    for node in reversed(list(tree.walk())):
        if isinstance(node, exp.Anonymous):
            text = _rewritten(_call_of(node, write), zeta)
        elif isinstance(node, exp.Column):
            text = _bare(node)
        elif isinstance(node, exp.AtTimeZone):
            text = _at_time_zone(write(node.this), write(node.args["zone"]))
        elif isinstance(node, exp.Extract):
            text = _extract(str(node.this.name).upper(), write(node.expression))
        else:
            continue
        if text is not None:
            node.replace(exp.Var(this=text))


def _name_projections(tree: Any, write: Write, zeta: bool) -> None:
    """An unnamed call keeps the name it would have had, whatever it is rewritten to."""
    from sqlglot import exp

    for select in tree.find_all(exp.Select):
        for one in list(select.expressions):
            if _changes(one, write, zeta):
                name = exp.to_identifier(write(one), quoted=True)
                one.replace(exp.Alias(this=one.copy(), alias=name))


def _changes(one: Any, write: Write, zeta: bool) -> bool:
    from sqlglot import exp

    if isinstance(one, exp.Anonymous):
        return _rewritten(_call_of(one, write), zeta) is not None
    if isinstance(one, exp.Column):
        return _bare(one) is not None
    return isinstance(one, exp.Extract | exp.AtTimeZone)


def _call_of(node: Any, write: Write) -> Call:
    from sqlglot import exp

    return Call(
        name=str(node.this).upper(),
        texts=[write(one) for one in node.expressions],
        literals=[
            one.this if isinstance(one, exp.Literal) and one.is_string else None
            for one in node.expressions
        ],
    )


def _rewritten(call: Call, zeta: bool) -> str | None:
    for templates, rewrites in ((ZETA_TEMPLATES, ZETA_REWRITES),) * zeta + ((TEMPLATES, REWRITES),):
        template = templates.get((call.name, call.count))
        if template is not None:
            return _filled(template, call.texts)
        rewrite = rewrites.get(call.name)
        if rewrite is not None:
            return rewrite(call)
    return None


def _filled(template: str, texts: Sequence[str]) -> str:
    dots = {
        f"dot{a}{b}": (
            f"AGGREGATE(ZIP_WITH({one}, {other}, (x, y) -> CAST(x AS DOUBLE) * y), 0D, (s, v) -> s + v)"
        )
        for a, one in enumerate(texts)
        for b, other in enumerate(texts)
    }
    return template.format(*texts, **dots)


def _bare(node: Any) -> str | None:
    """CURRENT_TIMESTAMP without brackets: SeaTunnel's is a timestamp without zone."""
    from sqlglot import exp

    is_name = isinstance(node.this, exp.Identifier) and not node.this.quoted
    if is_name and not node.table and node.name.upper() == "CURRENT_TIMESTAMP":
        return "LOCALTIMESTAMP()"
    return None


def _at_time_zone(value: str, zone: str) -> str:
    moment = f"CONVERT_TIMEZONE({zone}, CURRENT_TIMEZONE(), CAST({value} AS TIMESTAMP_NTZ))"
    return (
        f"CASE WHEN TYPEOF({value}) = 'timestamp' THEN CAST({value} AS TIMESTAMP_LTZ)"
        f" ELSE CAST({moment} AS TIMESTAMP_LTZ) END"
    )


def _extract(unit: str, value: str) -> str | None:
    """Fields that Spark's EXTRACT has not."""
    known = {
        "CENTURY": f"CAST(CEIL(YEAR({value}) / 100) AS INT)",
        "DECADE": f"CAST(FLOOR(YEAR({value}) / 10) AS INT)",
        "MILLENNIUM": f"CAST(CEIL(YEAR({value}) / 1000) AS INT)",
        "EPOCH": f"(UNIX_MICROS(CAST({value} AS TIMESTAMP_LTZ)) / 1000000)",
        "ISODOW": f"(WEEKDAY({value}) + 1)",
        "ISOYEAR": f"EXTRACT(YEAROFWEEK FROM {value})",
        "MICROSECONDS": f"CAST(EXTRACT(SECOND FROM {value}) * 1000000 AS INT)",
        "MILLISECONDS": f"CAST(EXTRACT(SECOND FROM {value}) * 1000 AS INT)",
    }
    return known.get(unit)


def _date_add(call: Call) -> str | None:
    """DATEADD(value, count, 'UNIT'); the value keeps its type where the unit allows it."""
    unit = _unit(call, 2)
    if unit is None:
        return None
    value, count = call.texts[0], call.texts[1]
    if unit in _MONTHS:
        return f"({value} + CAST(({count}) * {_MONTHS[unit]} AS INTERVAL MONTH))"
    if unit in _DAYS:
        return f"({value} + CAST(({count}) * {_DAYS[unit]} AS INTERVAL DAY))"
    if unit in _SECONDS:
        return f"({value} + MAKE_DT_INTERVAL(0, 0, 0, ({count}) {_SECONDS[unit]}))"
    return f"({value} + CAST({count} AS INTERVAL {unit}))"


def _date_diff(call: Call) -> str | None:
    """DATEDIFF(a, b, 'UNIT'): unit boundaries crossed on the way from a to b."""
    unit = _unit(call, 2)
    if unit is None:
        return None
    one, other = (f"DATE_TRUNC('{unit}', {text})" for text in call.texts[:2])
    return f"TIMESTAMPDIFF({unit}, {one}, {other})"


def _date_trunc(call: Call) -> str | None:
    """DATE_TRUNC(value, 'UNIT'); Spark's has the unit first."""
    if call.count == 1:
        return f"CAST(DATE_TRUNC('DAY', {call.texts[0]}) AS TIMESTAMP_NTZ)"
    unit = _unit(call, 1) if call.count == 2 and call.literal(0) is None else None
    return unit and f"CAST(DATE_TRUNC('{unit}', {call.texts[0]}) AS TIMESTAMP_NTZ)"


def _unit(call: Call, at: int) -> str | None:
    """The unit that SeaTunnel has as a string at the end."""
    if call.count != at + 1 or call.literal(at) is None:
        return None
    unit = str(call.literal(at)).upper()
    known = (*_MONTHS, *_DAYS, *_CLOCK, *_SECONDS)
    if unit not in known:
        raise FunctionProblem(
            f"{call.name} does not know the unit '{unit}'. Known are {', '.join(known)}"
        )
    return unit


def _truncate(call: Call) -> str | None:
    """TRUNC(number[, digits]); TRUNC(date, 'unit') is Spark's."""
    if call.count == 2 and (
        call.literal(1) is not None or not re.fullmatch(r"-?\d+", call.texts[1])
    ):
        return None
    more = f", {call.texts[1]}" if call.count == 2 else ""
    value = call.texts[0]
    return f"CASE WHEN {value} < 0 THEN CEIL({value}{more}) ELSE FLOOR({value}{more}) END"


def _parse_datetime(call: Call) -> str | None:
    """PARSEDATETIME(text, pattern): timestamp, date or time, as the pattern says."""
    if call.count != 2:
        return None
    return _by_pattern(call, "TO_TIMESTAMP_NTZ", "TO_DATE", "TO_TIME")


def _is_date(call: Call) -> str | None:
    if call.count != 2:
        return None
    return f"({_by_pattern(call, 'TRY_TO_TIMESTAMP', 'TRY_TO_DATE', 'TRY_TO_TIME')} IS NOT NULL)"


def _by_pattern(call: Call, timestamp: str, date: str, time: str) -> str:
    pattern = call.literal(1)
    letters = "yMd Hms" if pattern is None else re.sub(r"'[^']*'", "", pattern)
    has_date, has_time = bool(re.search("[yMd]", letters)), bool(re.search("[Hhms]", letters))
    name = timestamp if has_date and has_time else time if has_time else date
    return f"{name}({call.texts[0]}, {call.texts[1]})"


def _regexp_replace(call: Call) -> str | None:
    """REGEXP_REPLACE(text, pattern, replacement, 'flags'); Spark's fourth is a position."""
    if call.count != 4 or call.literal(3) is None:
        return None
    pattern = _flagged(call, 3)
    return f"REGEXP_REPLACE({call.texts[0]}, {pattern}, {call.texts[2]})"


def _regexp_like(call: Call) -> str | None:
    if call.count != 3:
        return None
    return f"REGEXP_LIKE({call.texts[0]}, {_flagged(call, 2)})"


def _regexp_substr(call: Call) -> str | None:
    """REGEXP_SUBSTR(text, pattern[, position, occurrence, flags, group])."""
    if call.count < 3:
        return None
    text, position = call.texts[0], call.texts[2]
    occurrence = call.texts[3] if call.count > 3 else "1"
    group = call.texts[5] if call.count > 5 else "0"
    pattern = _flagged(call, 4)
    found = f"REGEXP_EXTRACT_ALL(SUBSTR({text}, {position}), {pattern}, {group})"
    return f"GET({found}, {occurrence} - 1)"


def _flagged(call: Call, at: int) -> str:
    """The pattern with SeaTunnel's flags (i, c, n, m) as flags within it."""
    pattern = call.texts[1]
    flags = call.literal(at)
    if flags is None:
        if at < call.count and call.texts[at].upper() != "NULL":
            raise FunctionProblem(f"{call.name} needs its flags as a string, as in 'i'")
        return pattern
    chosen: list[str] = []
    for flag in flags:
        if flag == "c":
            chosen = [one for one in chosen if one != "i"]
        elif flag in _FLAGS:
            chosen.append(_FLAGS[flag])
        else:
            raise FunctionProblem(
                f"{call.name} does not know the flag '{flag}'. Known are i, c, n, m"
            )
    return f"CONCAT('(?{''.join(dict.fromkeys(chosen))})', {pattern})" if chosen else pattern


def _multi_if(call: Call) -> str | None:
    if call.count < 3 or call.count % 2 == 0:
        raise FunctionProblem("MULTI_IF takes pairs of condition and value, and a last value")
    pairs = zip(call.texts[:-1:2], call.texts[1::2], strict=True)
    cases = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
    return f"CASE {cases} ELSE {call.texts[-1]} END"


def _vector_reduce(call: Call) -> str | None:
    if call.count == 3 and str(call.literal(2)).upper() == "TRUNCATE":
        return f"SLICE({call.texts[0]}, 1, {call.texts[1]})"
    raise FunctionProblem("VECTOR_REDUCE knows the method 'TRUNCATE' only; use a Python transform")


def _murmur64(call: Call) -> str | None:
    raise FunctionProblem("Spark has no MURMUR64. XXHASH64 is a hash of the same size")


def _concat(call: Call) -> str | None:
    return f"CONCAT_WS('', {', '.join(call.texts)})"


def _concat_ws(call: Call) -> str | None:
    return f"CONCAT_WS(COALESCE({call.texts[0]}, ''), {', '.join(call.texts[1:])})"


def _aes_encrypt(call: Call) -> str | None:
    mode = f"{_aes_key(call)}, 'CBC', 'PKCS'"
    value = f"CAST({call.texts[0]} AS STRING)"
    if call.count < 3:
        return f"BASE64(AES_ENCRYPT({value}, {mode}))"
    # Spark puts the vector before the text, SeaTunnel leaves it out where it was given.
    return f"BASE64(SUBSTRING(AES_ENCRYPT({value}, {mode}, CAST({call.texts[2]} AS BINARY)), 17))"


def _aes_decrypt(call: Call) -> str | None:
    text = f"UNBASE64({call.texts[0]})"
    if call.count > 2:
        text = f"CONCAT(CAST({call.texts[2]} AS BINARY), {text})"
    return f"CAST(AES_DECRYPT({text}, {_aes_key(call)}, 'CBC', 'PKCS') AS STRING)"


def _aes_key(call: Call) -> str:
    key = call.literal(1)
    if key is None:
        raise FunctionProblem(f"{call.name} needs its key as a string")
    if key.startswith("base64:"):
        return f"UNBASE64('{key.removeprefix('base64:')}')"
    return f"SUBSTRING(UNHEX(SHA2({call.texts[1]}, 256)), 1, 16)"


REWRITES: Mapping[str, Rewrite] = {
    "DATEADD": _date_add,
    "TIMESTAMPADD": _date_add,
    "DATEDIFF": _date_diff,
    "DATE_TRUNC": _date_trunc,
    "TRUNC": _truncate,
    "TRUNCATE": _truncate,
    "PARSEDATETIME": _parse_datetime,
    "IS_DATE": _is_date,
    "REGEXP_REPLACE": _regexp_replace,
    "REGEXP_LIKE": _regexp_like,
    "REGEXP_SUBSTR": _regexp_substr,
    "MULTI_IF": _multi_if,
    "VECTOR_REDUCE": _vector_reduce,
    "MURMUR64": _murmur64,
}
ZETA_REWRITES: Mapping[str, Rewrite] = {
    "CONCAT": _concat,
    "CONCAT_WS": _concat_ws,
    "TO_DATE": _parse_datetime,
    "AES_ENCRYPT": _aes_encrypt,
    "AES_DECRYPT": _aes_decrypt,
}
