"""Declared options: typed, documented, validated. A connector's or transform's `Options` is a frozen dataclass.

    @dataclass(frozen=True)
    class Options:
        path: str = option("The folder or file to read.", identity=True)
        batch_size: int = option("Rows per statement.", default=1000, minimum=1)
        password: str | None = option("…", default=None, secret=True)
        row_num: int = option("Rows to make.", default=5, name="row.num")

Types: str, int, float, bool, `X | None`, `list[X]`, `dict[str, str]`, `dict[str, Json]`, `JsonObject`,
`Literal[...]` (case does not count), `list[JsonObject]`, another options dataclass or a list of those.
`read_options` turns one block of a job file into an instance and reports every problem it finds, not only the first.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from holdfast.model.json import Json, JsonObject
from holdfast.spec.config import ConfigObject, ConfigValue, Problem

T = TypeVar("T")
COMMON = (
    "plugin_input",
    "plugin_output",
    "source_table_name",
    "result_table_name",
    "plugin_name",
    "parallelism",
    "metadata_table_id",
    "metalake_type",
    "multi_table_sink_replica",
)
"""Names that stand in every block and are read by the planner, not by the connector."""


Place = tuple[str | int, ...]
"""The keys and indexes that lead to a part of a value."""


class WrongParts(ValueError):
    """What a `parse` raises where several parts of one value are wrong: each is told with its own line."""

    def __init__(self, parts: list[tuple[Place, str]]) -> None:
        super().__init__("; ".join(said for _, said in parts))
        self.parts = parts


@dataclass(frozen=True, slots=True)
class OptionFacts:
    """What is declared of one option."""

    doc: str
    name: str | None
    aliases: tuple[str, ...]
    secret: bool
    identity: bool
    minimum: float | None
    maximum: float | None
    parse: Callable[[Json], Any] | None
    type_name: str | None


def option(  # noqa: PLR0913 - each is a fact of its own, all by keyword
    doc: str,
    *,
    default: Any = MISSING,
    name: str | None = None,
    aliases: tuple[str, ...] = (),
    secret: bool = False,
    identity: bool = False,
    minimum: float | None = None,
    maximum: float | None = None,
    parse: Callable[[Json], Any] | None = None,
    type_name: str | None = None,
) -> Any:
    """Declare an option.

    `name`: as in the job file, where that is no Python name. `identity`: a position kept under another value of
    it would mean something else (path, table, topic), so restore compares it. `parse`: for values that no plain
    type describes (a schema block); raises ValueError with what was expected; `type_name` then names it in docs.
    A list or dict default is copied for each instance.
    """
    facts = OptionFacts(doc, name, aliases, secret, identity, minimum, maximum, parse, type_name)
    metadata = {"option": facts}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: default.copy(), metadata=metadata)
    return field(default=default, metadata=metadata, kw_only=True)


@dataclass(frozen=True, slots=True)
class DeclaredOption:
    """One option as it is shown: by `holdfast options`, in the docs, over REST."""

    attribute: str
    name: str
    type: Any
    type_name: str
    required: bool
    default: Any
    facts: OptionFacts


def declared_options(cls: type[Any]) -> list[DeclaredOption]:
    """The options of a dataclass, in the order they were declared."""
    # A dataclass may say `JsonObject` without importing the `Json` that it is made of.
    hints = get_type_hints(cls, localns={"Json": Json})
    found = []
    for item in fields(cls):
        facts = item.metadata["option"]
        default = item.default
        if default is MISSING and item.default_factory is not MISSING:
            default = item.default_factory()
        found.append(
            DeclaredOption(
                attribute=item.name,
                name=facts.name or item.name,
                type=hints[item.name],
                type_name=facts.type_name or type_text(hints[item.name]),
                required=default is MISSING,
                default=None if default is MISSING else default,
                facts=facts,
            )
        )
    return found


def all_options(cls: type[Any]) -> list[DeclaredOption]:
    """With those inside objects and lists of objects: `rules.row_rules.rule_type`.

    What a part takes just as the whole does (`tables_configs`, `table_transform`) is listed once, for the whole.
    """
    return list(_with_inner(cls, frozenset()))


def _with_inner(
    cls: type[Any], outside: frozenset[tuple[str, str]]
) -> typing.Iterator[DeclaredOption]:
    new = [o for o in declared_options(cls) if (o.name, o.facts.doc) not in outside]
    known = outside.union((o.name, o.facts.doc) for o in new)
    for declared in new:
        yield declared
        inside = _options_inside(declared.type)
        for inner in _with_inner(inside, known) if inside else ():
            yield replace(inner, name=f"{declared.name}.{inner.name}")


def _options_inside(hint: Any) -> type[Any] | None:
    if isinstance(hint, type) and is_dataclass(hint):
        declares = all("option" in item.metadata for item in fields(hint))
        return hint if declares else None
    return next(filter(None, map(_options_inside, get_args(hint))), None)


def read_options(
    cls: type[T], block: ConfigObject, where: str, *, common: tuple[str, ...] = COMMON
) -> tuple[T | None, list[Problem]]:
    """An instance of `cls` from one block of a job file, or every problem found in it."""
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    known = declared_options(cls)
    for declared in known:
        entry = _entry_of(block, declared)
        if entry is None:
            if declared.required:
                problems.append(
                    Problem(
                        block.line,
                        f"{where}: option '{declared.name}' is required"
                        f" ({declared.type_name}) and missing",
                    )
                )
            continue
        values[declared.attribute] = _read_value(declared, entry, where, problems)
    problems += _unknown_options(known, block, where, common)
    if problems:
        return None, problems
    return cls(**values), []


def option_values(options: Any) -> JsonObject:
    """The options by their job-file names, secrets replaced: safe to print and to store."""
    found: JsonObject = {}
    for declared in declared_options(type(options)):
        value = getattr(options, declared.attribute)
        if declared.facts.secret and value is not None:
            found[declared.name] = "******"
        else:
            found[declared.name] = _to_json(value)
    return found


def identity_values(options: Any) -> JsonObject:
    """The options on which the meaning of a position depends: part of the plan's fingerprint."""
    return {
        declared.name: _to_json(getattr(options, declared.attribute))
        for declared in declared_options(type(options))
        if declared.facts.identity
    }


def type_text(hint: Any) -> str:
    """A type as users read it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " | ".join(type_text(a) for a in arguments if a is not type(None))
    if origin is Literal:
        return " | ".join(str(a) for a in arguments)
    if origin is list:
        return f"list of {type_text(arguments[0])}"
    if origin is dict or hint is dict:
        return "map"
    names = {str: "string", int: "int", float: "number", bool: "boolean"}
    if hint in names:
        return names[hint]
    return "object" if is_dataclass(hint) else "any"


def number_text(number: float) -> str:
    """A limit as people write it: `2147483647`, not `2.14748e+09`."""
    return str(int(number)) if float(number).is_integer() and abs(number) < 1e19 else f"{number:g}"


def nearest(name: str, known: typing.Iterable[str]) -> str:
    """` Did you mean 'x'?`, or nothing."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    found = get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return f" Did you mean '{by_lower[found[0]]}'?" if found else ""


def _entry_of(block: ConfigObject, declared: DeclaredOption) -> ConfigValue | None:
    for name in (declared.name, *declared.facts.aliases):
        found = block.find(name)
        if found is not None and found.value is not None:
            return found
    return None


def _read_value(
    declared: DeclaredOption, entry: ConfigValue, where: str, problems: list[Problem]
) -> Any:
    facts = declared.facts
    place = f"{where}: option '{declared.name}'"
    try:
        if facts.parse is not None:
            return facts.parse(entry.plain())
        value = _convert(declared.type, entry, place, problems)
    except WrongParts as wrong:
        problems += [Problem(_line_at(entry, at), f"{place}: {said}") for at, said in wrong.parts]
        return None
    except ValueError as wrong:
        problems.append(Problem(entry.line, f"{place}: {wrong}"))
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        if facts.minimum is not None and value < facts.minimum:
            problems.append(
                Problem(
                    entry.line, f"{place} is {value}; {number_text(facts.minimum)} is the least"
                )
            )
        if facts.maximum is not None and value > facts.maximum:
            problems.append(
                Problem(entry.line, f"{place} is {value}; {number_text(facts.maximum)} is the most")
            )
    return value


def _line_at(entry: ConfigValue, place: Place) -> int:
    """As near to the part as the value can be followed."""
    for step in place:
        inside = entry.value
        if isinstance(inside, ConfigObject) and step in inside.entries:
            entry = inside.entries[str(step)]
        elif isinstance(inside, list) and isinstance(step, int):
            entry = inside[step]
    return entry.line


def _convert(hint: Any, entry: ConfigValue, place: str, problems: list[Problem]) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType) and type(None) in arguments:
        inner = [a for a in arguments if a is not type(None)]
        return _convert(inner[0] if len(inner) == 1 else Any, entry, place, problems)
    if is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(entry.value, ConfigObject):
            raise ValueError(f"expected an object, found {_shown(entry)}")
        made, found = read_options(hint, entry.value, place, common=())
        problems += found
        return made
    if origin is list:
        items = entry.value if isinstance(entry.value, list) else [entry]
        return [_convert(arguments[0], item, place, problems) for item in items]
    if origin is Literal:
        return _choice(arguments, entry)
    if origin is dict or hint is dict:
        if not isinstance(entry.value, ConfigObject):
            raise ValueError(f"expected a map, found {_shown(entry)}")
        if arguments and arguments[1] is str:
            return {path: _text(leaf) for path, leaf in entry.value.leaves()}
        return entry.value.plain()
    if hint in _SCALARS:
        return _SCALARS[hint](entry)
    return entry.plain()


def _choice(choices: tuple[Any, ...], entry: ConfigValue) -> Any:
    for choice in choices:
        if str(choice).lower() == str(entry.value).lower():
            return choice
    text = ", ".join(str(c) for c in choices)
    hint = nearest(str(entry.value), [str(c) for c in choices])
    raise ValueError(f"{_shown(entry)} is not one of {text}.{hint}")


def _text(entry: ConfigValue) -> str:
    if entry.text is not None:
        return entry.text
    if isinstance(entry.value, list | ConfigObject):
        raise ValueError(f"expected a string, found {_shown(entry)}")
    if isinstance(entry.value, bool):
        return "true" if entry.value else "false"
    return str(entry.value)


def _int(entry: ConfigValue) -> int:
    value = entry.value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        try:
            return int(value.strip(), 0)
        except ValueError:
            pass
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"expected a whole number, found {_shown(entry)}")
    return value


def _float(entry: ConfigValue) -> float:
    value = entry.value
    if isinstance(value, str):
        try:
            return float.fromhex(value) if "0x" in value.lower() else float(value)
        except ValueError:
            pass
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"expected a number, found {_shown(entry)}")
    return float(value)


def _bool(entry: ConfigValue) -> bool:
    text = str(entry.value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"expected true or false, found {_shown(entry)}")
    return text == "true"


_SCALARS: dict[Any, Callable[[ConfigValue], Any]] = {
    str: _text,
    int: _int,
    float: _float,
    bool: _bool,
}


def _shown(entry: ConfigValue) -> str:
    if isinstance(entry.value, ConfigObject):
        return "an object"
    if isinstance(entry.value, list):
        return "a list"
    return repr(entry.value)


def _unknown_options(
    known: list[DeclaredOption], block: ConfigObject, where: str, common: tuple[str, ...]
) -> list[Problem]:
    names = [name for d in known for name in (d.name, *d.facts.aliases)]
    owned = {*names, *common}
    found = []
    for path, entry in block.leaves():
        if not any(path == name or path.startswith(name + ".") for name in owned):
            problem = f"{where}: there is no option '{path}'.{nearest(path, names)}"
            found.append(Problem(entry.line, problem))
    return found


def _to_json(value: Any) -> Json:
    if is_dataclass(value) and not isinstance(value, type):
        return option_values(value) if _declares_options(value) else str(value)
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _to_json(item) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _declares_options(value: Any) -> bool:
    return all("option" in item.metadata for item in fields(value))
