"""Configuration with places: every value knows the file line it stands on, so that every problem can name it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.model.json import Json, JsonObject


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A value of a job file and its line. `value` is a scalar, a list of ConfigValue, or a ConfigObject."""

    value: bool | int | float | str | list[ConfigValue] | ConfigObject | None
    line: int
    text: str | None = None
    """How a value that is no text was written, for options that want text: `1.10` is not `1.1`."""

    def plain(self) -> Json:
        """The value without its places."""
        if isinstance(self.value, ConfigObject):
            return self.value.plain()
        if isinstance(self.value, list):
            return [item.plain() for item in self.value]
        return self.value


@dataclass(slots=True)
class ConfigObject:
    """An object of a job file. Dotted keys are nested objects, as in HOCON."""

    line: int
    entries: dict[str, ConfigValue] = field(default_factory=dict)

    def plain(self) -> JsonObject:
        return {key: entry.plain() for key, entry in self.entries.items()}

    def find(self, path: str) -> ConfigValue | None:
        """The value at a dotted path, whether it was written nested or as one quoted key with dots."""
        direct = self.entries.get(path)
        if direct is not None:
            return direct
        for key, entry in self.entries.items():
            if path.startswith(key + ".") and isinstance(entry.value, ConfigObject):
                found = entry.value.find(path[len(key) + 1 :])
                if found is not None:
                    return found
        return None

    def leaves(self, prefix: str = "") -> Iterator[tuple[str, ConfigValue]]:
        """All values that are no objects (an empty object counts), by dotted path."""
        for key, entry in self.entries.items():
            path = f"{prefix}{key}"
            if isinstance(entry.value, ConfigObject) and entry.value.entries:
                yield from entry.value.leaves(path + ".")
            else:
                yield path, entry


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a job file: where, what was found, what was expected, the nearest valid."""

    line: int | None
    said: str
    file: str | None = None
    """Where it stands in a file that the job file includes."""

    def __str__(self) -> str:
        if self.file is not None:
            return f"{self.file}, line {self.line}: {self.said}"
        return f"line {self.line}: {self.said}" if self.line else self.said


def config_from_json(found: Json, line: int = 1) -> ConfigValue:
    """Configuration from plain JSON (REST, tests), with one line for all."""
    if isinstance(found, dict):
        inside = ConfigObject(line)
        for key, item in found.items():
            inside.entries[key] = config_from_json(item, line)
        return ConfigValue(inside, line)
    if isinstance(found, list):
        return ConfigValue([config_from_json(item, line) for item in found], line)
    return ConfigValue(found, line)
