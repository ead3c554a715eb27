"""The syntax of HOCON: text to nodes that still hold their references. Nothing is merged away or resolved here.

At the root, `source`, `transform` and `sink` are lists of named blocks: the same name twice is two blocks, where
HOCON would merge them into one.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TypeAlias

from holdfast.model.errors import ConfigError

BLOCKS = ("source", "transform", "sink")
DEPTH_MAX = 60
TEXT_MAX = 8_000_000
"""Characters of a job file, and of what its references make of it."""


class HoconError(ConfigError):
    """A job file that cannot be read, and the line where reading ended."""

    code = "config-syntax"

    def __init__(self, line: int, said: str) -> None:
        super().__init__(f"line {line}: {said}")
        self.line = line
        self.said = said
        self.others: tuple[HoconError, ...] = ()
        """What is wrong elsewhere in a text that is read in parts."""


@dataclass(slots=True)
class Scalar:
    """A value of one piece. `text`: how it was written; `space`: whitespace between the pieces of a value."""

    value: bool | int | float | str | None
    line: int
    text: str
    space: bool = False


@dataclass(slots=True)
class Reference:
    """`${path}` or `${?path}`, with a default behind a colon as job files have it."""

    path: tuple[str, ...]
    optional: bool
    line: int
    text: str


@dataclass(slots=True)
class Joined:
    """Several pieces side by side: strings, lists or objects to be put together."""

    parts: list[Node]
    line: int


@dataclass(slots=True)
class Items:
    items: list[Node]
    line: int


@dataclass(slots=True)
class Fields:
    line: int
    entries: dict[str, Node] = field(default_factory=dict)
    by_path: bool = False
    """Made for a key with dots alone: `a.b = ${?x}` leaves no `a` where there is no x."""


@dataclass(slots=True)
class Override:
    """A key given again where one of the two values is known only after its references are."""

    earlier: Node
    later: Node
    line: int


@dataclass(slots=True)
class Appended:
    """`key += item`."""

    earlier: Node | None
    item: Node
    line: int


@dataclass(slots=True)
class Blocks:
    """The named blocks of `source`, `transform` or `sink`, in file order."""

    items: list[tuple[str, int, Node]]
    line: int


Node: TypeAlias = Scalar | Reference | Joined | Items | Fields | Override | Appended | Blocks


@dataclass(slots=True)
class Syntax:
    """What a text says. `repeated`: keys that a later line gave another value, with both lines."""

    root: Fields
    repeated: list[tuple[str, int, int]]


def parse_syntax(text: str) -> Syntax:
    """Raises HoconError."""
    if len(text) > TEXT_MAX:
        raise HoconError(1, f"the text has {len(text)} characters; {TEXT_MAX} is the most")
    parser = _Parser(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    return Syntax(parser.parse(), parser.repeated)


_NUMBER = re.compile(r"-?(0|[1-9]\d{0,37})(\.\d{1,40})?([eE][+-]?\d{1,4})?")
_UNQUOTED = re.compile(r"(?:(?!//|\$\{)[^\s{}\[\],\"#:=\\])+")
_KEY = re.compile(r"(?:(?!//|\+=|\$\{)[^\n{}\[\],\"#:=\\])+")
_SPACE = re.compile(r"[^\S\n]+")
_INCLUDE = re.compile(r'include[^\S\n]+("|required\(|file\(|url\(|classpath\()')
_ESCAPES = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}


class _Parser:
    """A descent by hand: HOCON's rules on newlines and on pieces side by side suit no token stream."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1
        self._depth = 0
        self._after_object = False
        """Blocks may stand side by side on one line: there is nothing else that could be meant."""
        self.repeated: list[tuple[str, int, int]] = []

    # -------------------------------------------------------------------------------- structure

    def parse(self) -> Fields:
        self._skip()
        if self._peek() == "[":
            raise self._error("expected blocks (env, source, transform, sink), found a list")
        if self._peek() == "{":
            root = self._fields_in_braces(at_root=True)
        else:
            root = Fields(1)
            self._fields(root, "", at_root=True)
        self._skip()
        if self._at < len(self._text):
            raise self._error(f"expected the end of the file, found {self._found()}")
        return root

    def _fields_in_braces(self, *, at_root: bool = False) -> Fields:
        fields = Fields(self._line)
        self._enter()
        self._fields(fields, "}", at_root=at_root)
        self._leave("}", fields.line)
        return fields

    def _fields(self, fields: Fields, closing: str, *, at_root: bool = False) -> None:
        while self._more(closing):
            line = self._line
            path = self._key()
            sign = self._separator(path)
            node: Node | _Pending
            if sign == "+=":
                node = _Pending(self._value())
            elif at_root and len(path) == 1 and path[0] in BLOCKS and self._peek() == "{":
                node = self._blocks()
            else:
                node = self._value()
            self._put(fields, path, node, line)
            self._end_of_item(closing)

    def _blocks(self) -> Blocks:
        blocks = Blocks([], self._line)
        self._enter()
        while self._more("}"):
            line = self._line
            path = self._key()
            self._separator(path)
            blocks.items.append((".".join(path), line, self._value()))
            self._end_of_item("}")
        self._leave("}", blocks.line)
        return blocks

    def _items(self) -> Items:
        items = Items([], self._line)
        self._enter()
        while self._more("]"):
            items.items.append(self._value())
            self._end_of_item("]")
        self._leave("]", items.line)
        return items

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._error(f"nested deeper than {DEPTH_MAX} levels")
        self._at += 1

    def _leave(self, closing: str, opened: int) -> None:
        self._depth -= 1
        if self._peek() != closing:
            raise self._error(
                f"expected '{closing}' to close what line {opened} opened, found {self._found()}"
            )
        self._at += 1

    def _more(self, closing: str) -> bool:
        self._skip()
        return self._peek() not in ("", closing or "")

    def _end_of_item(self, closing: str) -> None:
        """After an item: a comma, a newline, or what closes the list."""
        before = self._line
        self._skip()
        if self._peek() == ",":
            self._at += 1
            self._skip()
            if self._peek() == ",":
                raise self._error("expected an item between two commas")
        elif self._peek() not in ("", closing) and self._line == before and not self._after_object:
            raise self._error(f"expected a comma or a new line, found {self._found()}")

    # ------------------------------------------------------------------------------------- keys

    def _key(self) -> tuple[str, ...]:
        if _INCLUDE.match(self._text, self._at):
            raise self._error(
                "'include' needs files, and there are none here: put everything into one text"
            )
        start = self._line
        pieces: list[list[_KeyPart]] = [[]]
        while True:
            if self._peek() == '"':
                pieces[-1].append(_KeyPart(self._string(), quoted=True))
                continue
            found = _KEY.match(self._text, self._at)
            if found is None:
                break
            self._at = found.end()
            head, *rest = found.group().split(".")
            pieces[-1].append(_KeyPart(head, quoted=False))
            pieces += [[_KeyPart(following, quoted=False)] for following in rest]
        if len(pieces) == 1 and not any(part.quoted or part.text.strip() for part in pieces[0]):
            raise self._error(f"expected a key, found {self._found()}")
        return tuple(_join_key(parts, start) for parts in pieces)

    def _separator(self, path: tuple[str, ...]) -> str:
        self._skip()
        for sign in ("+=", "=", ":", "{"):
            if self._text.startswith(sign, self._at):
                if sign != "{":
                    self._at += len(sign)
                    self._skip()
                return sign
        key = ".".join(path)
        raise self._error(f"expected '=', ':' or '{{' after '{key}', found {self._found()}")

    def _put(self, fields: Fields, path: tuple[str, ...], node: Node | _Pending, line: int) -> None:
        for key in path[:-1]:
            fields = _inner(fields, key, line)
        earlier = fields.entries.get(path[-1])
        if isinstance(node, _Pending):
            fields.entries[path[-1]] = Appended(earlier, node.item, line)
            return
        if isinstance(earlier, Scalar) and isinstance(node, Scalar) and earlier.value != node.value:
            self.repeated.append((".".join(path), earlier.line, node.line))
        fields.entries[path[-1]] = node if earlier is None else _merge(earlier, node, line)

    # ----------------------------------------------------------------------------------- values

    def _value(self) -> Node:
        parts: list[Node] = []
        line = self._line
        while True:
            space = _SPACE.match(self._text, self._at)
            if space is not None:
                self._at = space.end()
            self._after_object = bool(parts) and isinstance(parts[-1], Fields)
            if self._after_object and self._peek() not in ("{", "$"):
                break
            part = self._piece()
            if part is None:
                break
            if space is not None and parts:
                parts.append(Scalar(space.group(), self._line, space.group(), space=True))
            parts.append(part)
        if not parts:
            raise self._error(f"expected a value, found {self._found()}")
        if len(parts) > 1:
            return Joined(parts, line)
        return _typed(parts[0])

    def _piece(self) -> Node | None:
        sign = self._peek()
        if sign == '"':
            line = self._line
            text = self._string()
            return Scalar(text, line, text)
        if sign == "{":
            return self._fields_in_braces()
        if sign == "[":
            return self._items()
        if self._text.startswith("${", self._at):
            return self._reference()
        found = _UNQUOTED.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
            return _Word(found.group(), self._line, found.group())
        if sign and sign in ":=\\":
            hint = ", or a comma or a new line is missing" if sign == "=" else ""
            raise self._error(f"{sign!r} cannot stand in a value without quotes around it{hint}")
        return None

    def _reference(self) -> Reference:
        start = self._at
        until = self._text.find("}", start)
        newline = self._text.find("\n", start)
        if until < 0 or 0 <= newline < until:
            raise self._error("expected '}' to close '${'")
        self._at = until + 1
        text = self._text[start : self._at]
        name, optional, _ = split_reference(text)
        if not name:
            raise self._error(f"expected a name in {text!r}")
        return Reference(_path_of(name), optional, self._line, text)

    def _string(self) -> str:
        if self._text.startswith('"""', self._at):
            return self._raw_string()
        opened = self._line
        self._at += 1
        pieces: list[str] = []
        while True:
            sign = self._peek()
            if sign in ("", "\n"):
                raise HoconError(opened, "a quoted string is not closed on its line")
            self._at += 1
            if sign == '"':
                return _without_halves("".join(pieces), opened)
            pieces.append(self._escape() if sign == "\\" else sign)

    def _raw_string(self) -> str:
        until = self._text.find('"""', self._at + 3)
        if until < 0:
            raise self._error('a string that begins with """ is not closed')
        end = until + 3
        while self._text.startswith('"', end):
            end += 1
        found = self._text[self._at + 3 : end - 3]
        self._line += found.count("\n")
        self._at = end
        return _without_halves(found, self._line)

    def _escape(self) -> str:
        sign = self._peek()
        self._at += 1
        if sign in _ESCAPES:
            return _ESCAPES[sign]
        digits = self._text[self._at : self._at + 4]
        if sign == "u" and re.fullmatch(r"[0-9a-fA-F]{4}", digits):
            self._at += 4
            return chr(int(digits, 16))
        raise self._error(rf"'\{sign}' is no escape; a backslash itself is written '\\'")

    # ------------------------------------------------------------------------------------- text

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip(self) -> None:
        """Whitespace, newlines and comments."""
        while self._at < len(self._text):
            sign = self._text[self._at]
            if sign == "\n":
                self._line += 1
                self._at += 1
            elif sign.isspace():
                self._at += 1
            elif sign == "#" or self._text.startswith("//", self._at):
                until = self._text.find("\n", self._at)
                self._at = len(self._text) if until < 0 else until
            else:
                return

    def _found(self) -> str:
        if self._at >= len(self._text):
            return "the end of the file"
        rest = self._text[self._at : self._at + 20].split("\n")[0]
        return repr(rest) if rest else "the end of the line"

    def _error(self, said: str) -> HoconError:
        return HoconError(self._line, said)


@dataclass(slots=True)
class _Pending:
    """The item of a `+=`, on its way into the object."""

    item: Node


@dataclass(frozen=True, slots=True)
class _KeyPart:
    text: str
    quoted: bool


class _Word(Scalar):
    """A piece without quotes: it may turn out to be a number, a boolean or null."""


def split_reference(text: str) -> tuple[str, bool, str | None]:
    """`${?name:default}` to its name, whether it is optional, and its default."""
    inside = text[2:-1].strip()
    optional = inside.startswith("?")
    name, colon, default = inside.removeprefix("?").partition(":")
    shown = default.strip()
    if len(shown) > 1 and shown[0] == shown[-1] == '"':
        shown = shown[1:-1]
    return name.strip().strip('"'), optional, shown if colon else None


def _path_of(name: str) -> tuple[str, ...]:
    return tuple(piece.strip().strip('"') for piece in name.split("."))


def _join_key(parts: list[_KeyPart], line: int) -> str:
    """What stands between two dots of a key: whitespace counts inside quotes, and between two words."""
    kept = [part for part in parts if part.quoted or part.text.strip()]
    if not kept:
        raise HoconError(line, "a key has nothing between two dots")
    texts = [part.text for part in kept]
    if not kept[0].quoted:
        texts[0] = texts[0].lstrip()
    if not kept[-1].quoted:
        texts[-1] = texts[-1].rstrip()
    return "".join(texts)


def _typed(node: Node) -> Node:
    if not isinstance(node, _Word):
        return node
    text = node.text
    if text in ("true", "false"):
        return Scalar(text == "true", node.line, text)
    if text == "null":
        return Scalar(None, node.line, text)
    number = _NUMBER.fullmatch(text)
    if number is None:
        return node
    if number.group(2) is None and number.group(3) is None:
        return Scalar(int(text), node.line, text)
    value = float(text)
    return Scalar(value, node.line, text) if math.isfinite(value) else node


def _without_halves(text: str, line: int) -> str:
    """Surrogate pairs, as JSON escapes them, put together; half of one is nothing that can be written."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise HoconError(line, "a string holds half of a surrogate pair (\\ud800 … )") from None


def _inner(fields: Fields, key: str, line: int) -> Fields:
    """The object at `key`, made where there is none."""
    found = fields.entries.get(key)
    if isinstance(found, Fields):
        return found
    if isinstance(found, Override) and isinstance(found.later, Fields):
        return found.later
    made = Fields(line, by_path=True)
    fields.entries[key] = made if found is None else Override(found, made, line)
    return made


def _merge(earlier: Node, later: Node, line: int) -> Node:
    if isinstance(earlier, Fields) and isinstance(later, Fields):
        for key, node in later.entries.items():
            old = earlier.entries.get(key)
            earlier.entries[key] = node if old is None else _merge(old, node, line)
        return earlier
    if isinstance(earlier, Blocks) and isinstance(later, Blocks):
        earlier.items.extend(later.items)
        return earlier
    if isinstance(later, Scalar):
        return later
    return Override(earlier, later, line)
