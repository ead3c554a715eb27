"""What a request holds, read as what is expected."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.model.errors import ConfigError

if TYPE_CHECKING:
    from holdfast.api.app import Call


NUMBER_MAX = 1_000_000
_FLAGS = {"true": True, "false": False, "": False}


def read_object(call: Call) -> dict[str, Any]:
    found = _read_json(call)
    if not isinstance(found, dict):
        raise ConfigError("Cannot read the request: expected a JSON object.")
    return found


def read_list(call: Call) -> list[dict[str, Any]]:
    found = _read_json(call)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise ConfigError("Cannot read the request: expected a list of JSON objects.")
    return found


def _read_json(call: Call) -> object:
    try:
        return json.loads(call.body or b"{}")
    except ValueError as wrong:
        raise ConfigError(f"Cannot read the request: it is not JSON ({wrong}).") from wrong


def read_flag(given: Mapping[str, Any], name: str) -> bool:
    """Also as text: a word that only looks true would end a job by force."""
    found = given.get(name)
    if found is None or isinstance(found, bool):
        return bool(found)
    if isinstance(found, str) and found.lower() in _FLAGS:
        return _FLAGS[found.lower()]
    raise ConfigError(f"Cannot read {name}={found!r}: expected true or false.")


def read_number(call: Call, name: str, default: int) -> int:
    """A parameter of the query that counts something."""
    text = call.query.get(name, str(default))
    if not text.isdecimal() or int(text) < 1 or int(text) > NUMBER_MAX:
        raise ConfigError(
            f"Cannot read {name}={text!r}: expected a whole number from 1 to {NUMBER_MAX}."
        )
    return int(text)
