"""HOCON and JSON text to configuration with lines: references resolved, keys merged, values joined.

`${path}` is looked up in the variables first (a flag is the nearest thing said), then in the file. What is found
in neither stays in the text as it was written: a sink may fill it (`${table_name}`), and who reads the job file
says what is left over. The blocks of `source`, `transform` and `sink` come out as lists of objects with a
`plugin_name`, whichever way they were written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.spec.config import ConfigObject, ConfigValue
from holdfast.spec.hocon_syntax import (
    TEXT_MAX,
    Appended,
    Blocks,
    Fields,
    HoconError,
    Items,
    Joined,
    Node,
    Override,
    Reference,
    Scalar,
    parse_syntax,
)
from holdfast.spec.variables import list_items

Path = tuple[str, ...]
NODE_COST = 20
"""What a value counts for, in characters: many small ones are as much work as a long text."""


@dataclass(frozen=True, slots=True)
class Hocon:
    """A text's configuration, and what was seen on the way."""

    root: ConfigObject
    repeated: tuple[tuple[str, int, int], ...]
    """Keys given twice with different values: the key, both lines. The later one counts."""
    referred: frozenset[str]
    """The names at the root that some reference names: definitions, not blocks."""
    variables: frozenset[str]
    """The variables that were used."""


def parse_hocon(text: str, variables: Mapping[str, str] | None = None) -> Hocon:
    """Raises HoconError, and nothing else, whatever the text."""
    syntax = parse_syntax(text)
    resolver = _Resolver(syntax.root, variables or {})
    try:
        root = resolver.resolve(syntax.root, ())
    except RecursionError:
        said = "references or repeated keys build on each other too many times over"
        raise HoconError(1, said) from None
    assert root is not None
    assert isinstance(root.value, ConfigObject)
    return Hocon(
        root.value,
        tuple(syntax.repeated),
        frozenset(resolver.referred),
        frozenset(resolver.used),
    )


class _Resolver:
    """One pass over the nodes; keeps which references are being followed, to end cycles."""

    def __init__(self, root: Fields, variables: Mapping[str, str]) -> None:
        self._root = root
        self._variables = variables
        self._open: set[Path] = set()
        self._earlier: dict[Path, Node] = {}
        self._spent = 0
        self.referred: set[str] = set()
        self.used: set[str] = set()

    def resolve(self, node: Node | _Known, path: Path) -> ConfigValue | None:
        """The node's value, or None where optional references leave nothing."""
        self._spend(NODE_COST, 0 if isinstance(node, _Known) else node.line)
        match node:
            case _Known():
                return node.value
            case Scalar():
                self._spend(len(node.text), node.line)
                kept = None if isinstance(node.value, str) else node.text
                return ConfigValue(node.value, node.line, kept)
            case Fields():
                return self._fields(node, path)
            case Items():
                return self._items(node.items, node.line, path)
            case Reference():
                return self._reference(node, path)
            case Joined():
                return self._joined(node, path)
            case Override():
                return self._override(node, path)
            case Appended():
                return self._appended(node, path)
            case Blocks():
                return self._blocks(node, path)

    def _spend(self, amount: int, line: int) -> None:
        self._spent += amount
        if self._spent > TEXT_MAX:
            raise HoconError(line, f"references make more than {TEXT_MAX} characters of this file")

    def _fields(self, node: Fields, path: Path) -> ConfigValue | None:
        made = ConfigObject(node.line)
        for key, inner in node.entries.items():
            found = self.resolve(inner, (*path, key))
            if found is not None:
                made.entries[key] = found
        if node.by_path and not made.entries:
            return None
        return ConfigValue(made, node.line)

    def _items(self, items: list[Node], line: int, path: Path) -> ConfigValue:
        found = [self.resolve(item, (*path, str(index))) for index, item in enumerate(items)]
        return ConfigValue([item for item in found if item is not None], line)

    def _blocks(self, node: Blocks, path: Path) -> ConfigValue:
        made: list[ConfigValue] = []
        for index, (name, line, inner) in enumerate(node.items):
            found = self.resolve(inner, (*path, f"{name} #{index}"))
            if found is None:
                continue
            if not isinstance(found.value, ConfigObject):
                raise HoconError(
                    line,
                    f"expected a block '{name} {{ … }}' in '{path[-1]}', found '{name} = …'",
                )
            block = ConfigObject(line, {"plugin_name": ConfigValue(name, line)})
            block.entries.update(found.value.entries)
            made.append(ConfigValue(block, line))
        return ConfigValue(made, node.line)

    def _reference(self, node: Reference, path: Path) -> ConfigValue | None:
        """Of a value that has no path of its own, being a part of a text, no list is made."""
        name = ".".join(node.path)
        if name in self._variables:
            self.used.add(name)
            self._spend(len(self._variables[name]), node.line)
            given = self._variables[name]
            items = list_items(given, path[-1]) if path else None
            if items is not None:
                return ConfigValue([ConfigValue(item, node.line) for item in items], node.line)
            return ConfigValue(given, node.line)
        self.referred.add(node.path[0])
        if node.path in self._earlier:
            earlier = self._earlier.pop(node.path)
            found = self.resolve(earlier, node.path)
            self._earlier[node.path] = earlier
            return found
        if node.path in self._open:
            raise HoconError(node.line, f"{node.text} refers to itself")
        self._open.add(node.path)
        target = self._look_up(node.path)
        found = None if target is None else self.resolve(target, node.path)
        self._open.discard(node.path)
        if found is None and not node.optional:
            return ConfigValue(node.text, node.line)
        return found

    def _look_up(self, path: Path) -> Node | _Known | None:
        node: Node | _Known | None = self._root
        for depth, key in enumerate(path):
            node = self._child(node, key, path[:depth])
        return node

    def _child(self, node: Node | _Known | None, key: str, path: Path) -> Node | _Known | None:
        match node:
            case None | Scalar() | Items():
                return None
            case Fields():
                return node.entries.get(key)
            case Blocks():
                return next((inner for name, _, inner in node.items if name == key), None)
            case _Known():
                inside = node.value.value
                found = inside.entries.get(key) if isinstance(inside, ConfigObject) else None
                return None if found is None else _Known(found)
            case Override():
                later = self._child(node.later, key, path)
                return self._child(node.earlier, key, path) if later is None else later
            case _:
                known = self.resolve(node, path)
                return None if known is None else self._child(_Known(known), key, path)

    def _override(self, node: Override, path: Path) -> ConfigValue | None:
        outer = self._earlier.get(path)
        self._earlier[path] = node.earlier
        later = self.resolve(node.later, path)
        del self._earlier[path]
        if outer is not None:
            self._earlier[path] = outer
        if later is not None and not isinstance(later.value, ConfigObject):
            return later
        earlier = self.resolve(node.earlier, path)
        return _merged(earlier, later)

    def _appended(self, node: Appended, path: Path) -> ConfigValue | None:
        item = self.resolve(node.item, path)
        earlier = None if node.earlier is None else self.resolve(node.earlier, path)
        if earlier is not None and not isinstance(earlier.value, list):
            raise HoconError(node.line, f"'+=' needs a list, and '{path[-1]}' is none")
        kept = (
            list(earlier.value) if earlier is not None and isinstance(earlier.value, list) else []
        )
        return ConfigValue([*kept, *([] if item is None else [item])], node.line)

    def _joined(self, node: Joined, path: Path) -> ConfigValue | None:
        parts: list[tuple[ConfigValue, bool]] = []
        for part in node.parts:
            is_variable = isinstance(part, Reference) and ".".join(part.path) in self._variables
            found = self.resolve(part, () if is_variable else path)
            if found is not None:
                parts.append((found, isinstance(part, Scalar) and part.space))
        solid = [value for value, space in parts if not space]
        if not solid:
            return None
        if all(isinstance(value.value, ConfigObject) for value in solid):
            made: ConfigValue | None = None
            for value in solid:
                made = _merged(made, value)
            return made
        if all(isinstance(value.value, list) for value in solid):
            items = [i for value in solid if isinstance(value.value, list) for i in value.value]
            return ConfigValue(items, node.line)
        if any(isinstance(value.value, list | ConfigObject) for value in solid):
            said = "text, lists and objects cannot be joined in one value: a comma or a new line is missing"
            raise HoconError(node.line, said)
        text = "".join(_text_of(value) for value, _ in parts)
        self._spend(len(text), node.line)
        return ConfigValue(text, node.line)


@dataclass(slots=True)
class _Known:
    """A value that is resolved already, met on the way along a path."""

    value: ConfigValue


def _text_of(value: ConfigValue) -> str:
    return value.text if value.text is not None else str(value.value)


def _merged(earlier: ConfigValue | None, later: ConfigValue | None) -> ConfigValue | None:
    if earlier is None or later is None:
        return earlier if later is None else later
    if not isinstance(earlier.value, ConfigObject) or not isinstance(later.value, ConfigObject):
        return later
    made = ConfigObject(earlier.value.line, dict(earlier.value.entries))
    for key, entry in later.value.entries.items():
        found = _merged(made.entries.get(key), entry)
        assert found is not None
        made.entries[key] = found
    return ConfigValue(made, later.line)
