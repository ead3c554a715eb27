"""Shaded values: `shade.identifier = base64` in env says that the sensitive values of the blocks are encoded.

This hides them from a glance, not from an attacker; it is offered because job files use it. Pure functions: the
`--encrypt` and `--decrypt` flags print what they return.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable

from holdfast.model.errors import ConfigError
from holdfast.spec.config import ConfigObject, ConfigValue, Problem
from holdfast.spec.hocon import parse_hocon
from holdfast.spec.hocon_syntax import BLOCKS
from holdfast.spec.options import nearest

SENSITIVE = frozenset({"password", "username", "auth", "token", "access_key", "secret_key"})
IDENTIFIERS = ("default", "base64")


def encode_value(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def decode_value(text: str) -> str:
    """Raises ValueError; its message does not hold the value."""
    try:
        return base64.b64decode(text.encode(), validate=True).decode()
    except (binascii.Error, UnicodeError):
        raise ValueError("is not base64, though env says shade.identifier = base64") from None


def find_identifier(root: ConfigObject) -> tuple[str, Problem | None]:
    """What env says about shading, `default` being none at all."""
    found = root.find("env.shade.identifier")
    if found is None or found.value is None:
        return "default", None
    name = str(found.value).strip().lower()
    if name in IDENTIFIERS:
        return name, None
    said = (
        f"env: shade.identifier {found.value!r} is not one of {', '.join(IDENTIFIERS)}."
        f"{nearest(name, IDENTIFIERS)}"
    )
    return "default", Problem(found.line, said)


def decode_block(block: ConfigObject, where: str) -> tuple[ConfigObject, list[Problem]]:
    """The block with its sensitive values decoded."""
    problems: list[Problem] = []

    def decode(key: str, entry: ConfigValue) -> ConfigValue:
        try:
            return ConfigValue(decode_value(str(entry.value)), entry.line)
        except ValueError as wrong:
            problems.append(Problem(entry.line, f"{where}: the value of '{key}' {wrong}"))
            return entry

    return _changed(block, decode), problems


def encrypt_job(text: str) -> str:
    """A job file with its sensitive values encoded, as JSON. Raises ConfigError."""
    root = parse_hocon(text).root
    plain: list[str] = []

    def encode(key: str, entry: ConfigValue) -> ConfigValue:
        if not _is_encoded(str(entry.value)):
            plain.append(key)
        return _encoded(entry)

    changed = _changed_blocks(root, encode)
    # Job files that are to be encrypted may name the shade beforehand; only their values tell.
    if find_identifier(root)[0] != "default" and not plain:
        raise ConfigError(
            "Cannot encrypt this job file: env names a shade and every sensitive value is encoded."
            " Decrypt it first, or leave it."
        )
    _set_identifier(changed, "base64")
    return json.dumps(changed.plain(), indent=2, ensure_ascii=False)


def decrypt_job(text: str) -> str:
    """The reverse. Raises ConfigError."""
    root = parse_hocon(text).root

    def decode(key: str, entry: ConfigValue) -> ConfigValue:
        try:
            return ConfigValue(decode_value(str(entry.value)), entry.line)
        except ValueError:
            raise ConfigError(
                f"Cannot decrypt '{key}' in line {entry.line}: it is not base64."
                " Check that the file was encrypted."
            ) from None

    changed = _changed_blocks(root, decode)
    _set_identifier(changed, "default")
    return json.dumps(changed.plain(), indent=2, ensure_ascii=False)


def _is_encoded(text: str) -> bool:
    try:
        decode_value(text)
    except ValueError:
        return False
    return True


def _encoded(entry: ConfigValue) -> ConfigValue:
    text = entry.text if entry.text is not None else str(entry.value)
    return ConfigValue(encode_value(text), entry.line)


def _changed_blocks(
    root: ConfigObject, change: Callable[[str, ConfigValue], ConfigValue]
) -> ConfigObject:
    entries = {
        key: _changed_value(key, entry, change) if key in BLOCKS else entry
        for key, entry in root.entries.items()
    }
    return ConfigObject(root.line, entries)


def _changed(
    block: ConfigObject, change: Callable[[str, ConfigValue], ConfigValue]
) -> ConfigObject:
    entries = {key: _changed_value(key, entry, change) for key, entry in block.entries.items()}
    return ConfigObject(block.line, entries)


def _changed_value(
    key: str, entry: ConfigValue, change: Callable[[str, ConfigValue], ConfigValue]
) -> ConfigValue:
    if isinstance(entry.value, ConfigObject):
        return ConfigValue(_changed(entry.value, change), entry.line)
    if isinstance(entry.value, list):
        return ConfigValue([_changed_value(key, i, change) for i in entry.value], entry.line)
    if key.rsplit(".", 1)[-1].lower() in SENSITIVE and entry.value is not None:
        return change(key, entry)
    return entry


def _set_identifier(root: ConfigObject, identifier: str) -> None:
    env = root.entries.get("env")
    inside = env.value if env is not None and isinstance(env.value, ConfigObject) else None
    kept = {} if inside is None else dict(inside.entries)
    shade = kept.get("shade")
    if shade is not None and isinstance(shade.value, ConfigObject):
        shade = ConfigValue(ConfigObject(1, dict(shade.value.entries)), 1)
    else:
        shade = ConfigValue(ConfigObject(1), 1)
    kept.pop("shade.identifier", None)
    assert isinstance(shade.value, ConfigObject)
    shade.value.entries["identifier"] = ConfigValue(identifier, 1)
    kept["shade"] = shade
    root.entries["env"] = ConfigValue(ConfigObject(1, kept), 1)
