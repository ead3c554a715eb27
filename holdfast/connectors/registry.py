"""Finds connectors by name. Modules are loaded at first use: a missing driver is an error of the job that needs it.

Ours are listed here; a stranger's package announces its own by the entry point groups `holdfast.sources` and
`holdfast.sinks`, each entry pointing at a `Connector`.
"""

from importlib import import_module
from importlib.metadata import entry_points

from holdfast.connectors.base import Connector

SOURCES = {
    "FakeSource": "holdfast.connectors.fake:SOURCE",
    "LocalFile": "holdfast.connectors.localfile:SOURCE",
    "Jdbc": "holdfast.connectors.jdbc:SOURCE",
    "Http": "holdfast.connectors.http:SOURCE",
    "Socket": "holdfast.connectors.socket:SOURCE",
}
SINKS = {
    "Console": "holdfast.connectors.console:SINK",
    "LocalFile": "holdfast.connectors.localfile:SINK",
    "Jdbc": "holdfast.connectors.jdbc:SINK",
    "Assert": "holdfast.connectors.assert_sink:SINK",
    "Http": "holdfast.connectors.http:SINK",
}
_OURS = {"source": SOURCES, "sink": SINKS}


def list_connectors(role: str) -> list[str]:
    """The names that a job file may use as `role` (`source` or `sink`)."""
    strangers = [point.name for point in entry_points(group=f"holdfast.{role}s")]
    return sorted({*_OURS[role], *strangers})


def find_connector(role: str, name: str) -> Connector | None:
    """The declaration of a connector, or None where there is none of that name (case does not count)."""
    for known, target in _OURS[role].items():
        if known.lower() == name.lower():
            module, _, attribute = target.partition(":")
            found = getattr(import_module(module), attribute)
            assert isinstance(found, Connector)
            return found
    for point in entry_points(group=f"holdfast.{role}s"):
        if point.name.lower() == name.lower():
            found = point.load()
            assert isinstance(found, Connector)
            return found
    return None
