"""Takes secrets out of whatever is printed or stored: options, urls, headers, plain text.

Two ways, both needed: by place (options declared secret, keys that sound like one, credentials inside urls) and by
value (`secret_values` of a job, replaced wherever they turn up, in messages of drivers and answers of servers as well).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import Any

from holdfast.model.jobs import Pipeline
from holdfast.model.json import Json, JsonObject
from holdfast.spec.config import ConfigObject
from holdfast.spec.options import declared_options, option_values

HIDDEN = "******"
_KEY = (
    r"(?<![\w.-])(?:[\w.-]*(?:password|passwd|token|credential|secret(?:[_-]?key)?"
    r"|(?:private|api|access)[_-]?key)|pwd)"
)
_SENSITIVE_KEY = re.compile(
    rf"{_KEY}|[\w.-]*(?:access[_-]?key[_-]?id|authorization|auth|cookie|sasl\.jaas\.config)",
    re.IGNORECASE,
)
_USER_INFO = re.compile(r"(?P<head>\b[a-zA-Z][\w+.:-]{0,60}://[^\s/:@'\"]{0,300}:)[^\s/'\"]*(?=@)")
_PARAMETER = re.compile(rf"(?P<head>{_KEY}\s*=\s*)[^&;\s,)}}'\"…]+", re.IGNORECASE)
_QUOTED = re.compile(
    rf"(?P<head>{_KEY}['\"]?\s*[=:]\s*)(?P<quote>['\"])(?:(?!(?P=quote)).)+(?P=quote)",
    re.IGNORECASE,
)
_ORACLE = re.compile(r"(?P<head>jdbc:oracle:\w+:[^\s/@:]+/)[^\s@]+(?=@)", re.IGNORECASE)
_SCHEME = re.compile(
    r"(?P<head>\b(?:Bearer|Basic|Digest|ApiKey)\s+)[A-Za-z0-9+/=._~-]{6,}", re.IGNORECASE
)

_BARE = re.compile(
    rf"(?P<head>{_KEY}(?:['\"]?, found ['\"]*|\s+))(?![=:{{])[^\s'\",;}}]+", re.IGNORECASE
)


def is_sensitive(key: str) -> bool:
    """Whether an option or header of this name holds a secret, whoever declared it."""
    return _SENSITIVE_KEY.fullmatch(key) is not None


def redact_text(text: str, secrets: Iterable[str] = ()) -> str:
    """Text without credentials: in urls, in `password=…`, in Authorization headers, and the values given."""
    for secret in sorted({s for s in secrets if s}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    for pattern in (_USER_INFO, _ORACLE, _PARAMETER, _SCHEME):
        text = pattern.sub(rf"\g<head>{HIDDEN}", text)
    return _QUOTED.sub(rf"\g<head>\g<quote>{HIDDEN}\g<quote>", text)


def redact_syntax(text: str) -> str:
    """What is said of a text that could not be read: a secret may stand behind its key without a sign between."""
    return _BARE.sub(rf"\g<head>{HIDDEN}", redact_text(text))


def redact_json(value: Json, secrets: Iterable[str] = ()) -> Json:
    """The same value with the secrets of maps, lists and strings hidden."""
    known = list(secrets)
    if isinstance(value, dict):
        return {
            key: HIDDEN if _hides(key, inner) else redact_json(inner, known)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [redact_json(item, known) for item in value]
    return redact_text(value, known) if isinstance(value, str) else value


def shown_options(options: Any) -> JsonObject:
    """An options dataclass as it may be printed, served and stored."""
    found = redact_json(option_values(options))
    assert isinstance(found, dict)
    return found


def secret_values(options: Any) -> set[str]:
    """The secrets that an options dataclass holds: declared ones, keys that sound like one, parts of urls."""
    found: set[str] = set()
    for declared in declared_options(type(options)):
        value = getattr(options, declared.attribute)
        if declared.facts.secret or is_sensitive(declared.name):
            found |= set(_strings(value))
        else:
            found |= set(_nested_secrets(value))
    return {secret for secret in found if len(secret) > 2 and secret.strip("*")}


@contextmanager
def hiding_secrets(pipeline: Pipeline) -> Iterator[None]:
    """Errors leave without the pipeline's secrets: a driver or a server may have sent back what it was sent."""
    try:
        yield
    except Exception as error:
        secrets: set[str] = set()
        for vertex in pipeline.vertices:
            secrets |= secret_values(vertex.options)
        _hide_in_error(error, secrets)
        raise


def block_secrets(block: ConfigObject, cls: type[Any]) -> set[str]:
    """The secrets of a block as it was written, whether or not its options can be read."""
    declared = {
        name for o in declared_options(cls) if o.facts.secret for name in (o.name, *o.facts.aliases)
    }
    found: set[str] = set()
    for path, entry in block.leaves():
        value = entry.text if entry.text is not None else entry.plain()
        secret = any(path == name or path.startswith(name + ".") for name in declared)
        if secret or is_sensitive(path) or is_sensitive(path.rsplit(".", 1)[-1]):
            found |= set(_strings(value))
        else:
            found |= set(_nested_secrets(value))
    return {secret for secret in found if len(secret) > 2 and secret.strip("*")}


def _hide_in_error(error: BaseException, secrets: set[str]) -> None:
    """In the error and in those behind it, which --debug shows."""
    behind: BaseException | None = error
    while behind is not None:
        behind.args = tuple(
            redact_text(part, secrets) if isinstance(part, str) else part for part in behind.args
        )
        behind = behind.__cause__ or behind.__context__


def _hides(key: str, value: Json) -> bool:
    return is_sensitive(key) and value is not None and not isinstance(value, bool | dict | list)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _nested_secrets(value: Any) -> Iterator[str]:
    if is_dataclass(value) and not isinstance(value, type):
        yield from secret_values(value) if _declares(value) else ()
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _strings(inner) if is_sensitive(str(key)) else _nested_secrets(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _nested_secrets(inner)
    elif isinstance(value, str):
        yield from _in_url(value)


def _in_url(text: str) -> Iterator[str]:
    for pattern in (_USER_INFO, _ORACLE, _PARAMETER):
        for found in pattern.finditer(text):
            yield found.group()[len(found.group("head")) :]


def _declares(value: Any) -> bool:
    fields = getattr(type(value), "__dataclass_fields__", {})
    return all("option" in item.metadata for item in fields.values())
