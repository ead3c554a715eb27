"""SQL job files to the same configuration that a HOCON file gives: sources, `Sql` transforms, sinks.

    /* config env { job.mode = "BATCH" } */
    CREATE TABLE orders WITH ('connector' = 'Jdbc', 'type' = 'source', …);
    CREATE TABLE paid AS SELECT … FROM orders;
    INSERT INTO target SELECT … FROM paid;      -- or INSERT INTO target SELECT orders, for all of its tables

Only the frame of a statement is read here; what a SELECT says is Spark's business.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from holdfast.spec.config import ConfigObject, ConfigValue
from holdfast.spec.hocon import Hocon, parse_hocon
from holdfast.spec.hocon_syntax import TEXT_MAX, HoconError
from holdfast.spec.options import nearest

T = TypeVar("T")
_CONFIG = re.compile(r"/\*\s*config\b(.*?)\*/", re.DOTALL | re.IGNORECASE)
_TOKEN = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?\*/)"
    r"|(?P<string>'(?:[^']|'')*')"
    r'|(?P<quoted>`[^`\n]+`|"[^"\n]+")'
    r"|(?P<word>\w[\w$]*)"
    r"|(?P<sign>\S)",
    re.DOTALL,
)
_ENDS_FROM = (
    *("where", "group", "order", "having", "limit", "union", "except", "intersect"),
    *("select", "window", "on", "using"),
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int
    end: int
    line: int

    def says(self, *words: str) -> bool:
        return self.kind in ("word", "sign") and self.text.lower() in words


@dataclass(slots=True)
class _Tables:
    """What the statements so far have declared."""

    sources: dict[str, ConfigObject] = field(default_factory=dict)
    transforms: list[ConfigObject] = field(default_factory=list)
    derived: set[str] = field(default_factory=set)
    sinks: dict[str, ConfigObject] = field(default_factory=dict)
    taken: dict[str, list[ConfigValue]] = field(default_factory=dict)

    def readable(self) -> list[str]:
        return [*self.sources, *self.derived]


def parse_sql_job(text: str, variables: Mapping[str, str]) -> Hocon:
    """Raises HoconError with all statements that cannot be read, or that read what is not there."""
    if len(text) > TEXT_MAX:
        raise HoconError(1, f"the text has {len(text)} characters; {TEXT_MAX} is the most")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    config = parse_hocon(_config_text(text), variables)
    tables = _Tables()
    # Statements may stand in any order: what reads tables waits until all of them are known.
    cursors = [_Cursor(found, text) for found in _statements(text)]
    _do_all(_do_all(partial(_read_statement, cursor, tables) for cursor in cursors))
    _do_all(partial(_feed, name, sink, tables) for name, sink in tables.sinks.items())
    root = ConfigObject(1, dict(config.root.entries))
    for role, blocks in (
        ("source", tables.sources.values()),
        ("transform", tables.transforms),
        ("sink", tables.sinks.values()),
    ):
        root.entries[role] = ConfigValue([ConfigValue(b, b.line) for b in blocks], 1)
    return replace(config, root=root)


def _do_all(steps: Iterable[Callable[[], T]]) -> list[T]:
    """What each of them gives, or all that is wrong with them."""
    done: list[T] = []
    wrong: list[HoconError] = []
    for step in steps:
        try:
            done.append(step())
        except HoconError as error:
            wrong.append(error)
    if wrong:
        wrong[0].others = tuple(wrong[1:])
        raise wrong[0]
    return done


def _feed(name: str, sink: ConfigObject, tables: _Tables) -> None:
    if name not in tables.taken:
        raise HoconError(sink.line, f"nothing is inserted into table '{name}'")
    _set(sink, "plugin_input", tables.taken[name], sink.line)


def _config_text(text: str) -> str:
    """The config comments alone, each on the lines it stands on."""
    kept = ""
    for found in _CONFIG.finditer(text):
        line = text.count("\n", 0, found.start(1))
        kept += "\n" * max(line - kept.count("\n"), 1 if kept else 0) + found.group(1)
    return kept


def _statements(text: str) -> Iterator[list[_Token]]:
    tokens: list[_Token] = []
    line, seen = 1, 0
    for found in _TOKEN.finditer(text):
        line += text.count("\n", seen, found.start())
        seen = found.start()
        kind = str(found.lastgroup)
        if kind == "comment":
            continue
        if kind == "sign" and found.group() == "'":
            raise HoconError(line, "a string that begins with ' is not closed")
        if kind == "sign" and found.group() == ";":
            if tokens:
                yield tokens
            tokens = []
            continue
        tokens.append(_Token(kind, found.group(), found.start(), found.end(), line))
    if tokens:
        yield tokens


class _Cursor:
    """Walks over the tokens of one statement."""

    def __init__(self, tokens: list[_Token], text: str) -> None:
        self.tokens = tokens
        self._text = text
        self._at = 0

    @property
    def line(self) -> int:
        return self.tokens[min(self._at, len(self.tokens) - 1)].line

    def peek(self) -> _Token | None:
        return self.tokens[self._at] if self._at < len(self.tokens) else None

    def says(self, *words: str) -> bool:
        token = self.peek()
        return token is not None and token.says(*words)

    def accept(self, *words: str) -> bool:
        """Take these words, one after the other, or nothing."""
        ahead = self.tokens[self._at : self._at + len(words)]
        if len(ahead) < len(words) or any(not t.says(w) for t, w in zip(ahead, words, strict=True)):
            return False
        self._at += len(words)
        return True

    def expect(self, sign: str, place: str) -> None:
        if not self.accept(sign):
            raise self.error(f"expected {sign.upper()!r} {place}, found {self.found()}")

    def name(self, place: str) -> str:
        token = self.peek()
        if token is None or token.kind not in ("word", "quoted"):
            raise self.error(f"expected a table's name {place}, found {self.found()}")
        self._at += 1
        return token.text.strip('`"')

    def string(self, place: str) -> str:
        token = self.peek()
        if token is None or token.kind != "string":
            raise self.error(f"expected text in single quotes {place}, found {self.found()}")
        self._at += 1
        return token.text[1:-1].replace("''", "'")

    def rest(self) -> tuple[str, list[_Token]]:
        """What is left of the statement, as written and as tokens."""
        left = self.tokens[self._at :]
        return self._text[left[0].at : left[-1].end] if left else "", left

    def found(self) -> str:
        token = self.peek()
        return "the end of the statement" if token is None else repr(token.text[:30])

    def error(self, said: str) -> HoconError:
        return HoconError(self.line, said)


def _read_statement(cursor: _Cursor, tables: _Tables) -> Callable[[], None]:
    """Take in what a statement declares. What is returned reads the rest of it."""
    if cursor.accept("create", "table"):
        cursor.accept("if", "not", "exists")
        line = cursor.line
        name = cursor.name("after CREATE TABLE")
        if name in tables.readable() or name in tables.sinks:
            raise HoconError(line, f"table '{name}' is created twice")
        if cursor.accept("as"):
            tables.derived.add(name)
            return partial(_add_transform, cursor, name, line, tables)
        if cursor.says("("):
            raise cursor.error(
                f"table '{name}' has a list of columns here; give them as 'schema' inside WITH (…)"
            )
        cursor.expect("with", f"or AS after CREATE TABLE {name}")
        _add_table(cursor, name, line, tables)
        return _nothing_more
    if cursor.accept("insert", "into"):
        return partial(_add_insert, cursor, tables)
    raise cursor.error(
        f"expected CREATE TABLE … WITH, CREATE TABLE … AS or INSERT INTO, found {cursor.found()}"
    )


def _nothing_more() -> None:
    return None


def _add_table(cursor: _Cursor, name: str, line: int, tables: _Tables) -> None:
    block = ConfigObject(line)
    cursor.expect("(", "after WITH")
    while not cursor.accept(")"):
        at = cursor.line
        key = cursor.string(f"as the name of an option of table '{name}'")
        cursor.expect("=", f"after '{key}'")
        block.entries[key] = _value(cursor.string(f"as the value of '{key}'"), at)
        if not cursor.accept(",") and not cursor.says(")"):
            raise cursor.error(f"expected ',' or ')' after '{key}', found {cursor.found()}")
    if cursor.peek() is not None:
        raise cursor.error(f"expected ';' behind table '{name}', found {cursor.found()}")
    connector = block.entries.pop("connector", None)
    type_ = block.entries.pop("type", None)
    if connector is None:
        raise HoconError(line, f"table '{name}' needs an option 'connector'")
    kind = "" if type_ is None else str(type_.value).lower()
    if kind not in ("source", "sink"):
        raise HoconError(line, f"table '{name}' needs 'type' = 'source' or 'type' = 'sink'")
    block.entries = {"plugin_name": connector, **block.entries}
    if kind == "source":
        _set(block, "plugin_output", name, line)
        tables.sources[name] = block
    else:
        tables.sinks[name] = block


def _add_insert(cursor: _Cursor, tables: _Tables) -> None:
    line = cursor.line
    name = cursor.name("after INSERT INTO")
    if name not in tables.sinks:
        raise HoconError(
            line, f"there is no sink table '{name}' in this file.{nearest(name, tables.sinks)}"
        )
    if cursor.says("("):
        raise cursor.error("INSERT INTO takes no list of columns; name them in the SELECT")
    if not cursor.says("select", "with"):
        raise cursor.error(f"expected SELECT after INSERT INTO {name}, found {cursor.found()}")
    taken = tables.taken.setdefault(name, [])
    _, tokens = cursor.rest()
    direct = tokens[1].text.strip('`"') if len(tokens) == 2 else ""
    if direct in tables.readable():
        taken.append(ConfigValue(direct, line))
        return
    output = f"{name}__{len(taken) + 1}"
    _add_transform(cursor, output, line, tables)
    taken.append(ConfigValue(output, line))


def _add_transform(cursor: _Cursor, output: str, line: int, tables: _Tables) -> None:
    query, tokens = cursor.rest()
    if not cursor.says("select", "with"):
        raise cursor.error(f"expected SELECT, found {cursor.found()}")
    read = _tables_read(tokens)
    known = [name for name in read if name in tables.readable()]
    if not known:
        if not read:
            raise HoconError(line, "the SELECT names no table after FROM")
        hint = nearest(read[0], tables.readable())
        said = f"the SELECT reads from '{read[0]}'; there is no such table in this file.{hint}"
        raise HoconError(line, said)
    block = ConfigObject(line)
    _set(block, "plugin_name", "Sql", line)
    _set(block, "plugin_input", [ConfigValue(name, line) for name in known], line)
    _set(block, "plugin_output", output, line)
    _set(block, "query", query, tokens[0].line)
    tables.transforms.append(block)


def _tables_read(tokens: list[_Token]) -> list[str]:
    """The names behind FROM and JOIN, and behind the commas of a FROM, once each."""
    found: dict[str, None] = {}
    in_from = expecting = False
    for token in tokens:
        if token.says("from"):
            in_from = expecting = True
        elif token.says("join") or (in_from and token.says(",")):
            expecting = True
        elif expecting and token.kind in ("word", "quoted") and not token.says("select"):
            found[token.text.strip('`"')] = None
            expecting = False
        elif token.says(*_ENDS_FROM, ")"):
            in_from = expecting = False
        else:
            expecting = False
    return list(found)


def _value(text: str, line: int) -> ConfigValue:
    """An option's value: `{…}` and `[…]` hold HOCON; the text is kept for options that want it as it is."""
    if text.strip()[:1] not in ("{", "["):
        return ConfigValue(text, line)
    try:
        inner = parse_hocon("\n" * (line - 1) + "value = " + text).root.entries["value"]
    except HoconError:
        return ConfigValue(text, line)
    return ConfigValue(inner.value, line, text)


def _set(block: ConfigObject, key: str, value: str | list[ConfigValue], line: int) -> None:
    block.entries[key] = ConfigValue(value, line)
