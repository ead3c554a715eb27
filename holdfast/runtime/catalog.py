"""All connectors and transforms there are, by role and name. Tests hand in their own beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.connectors.base import Connector
from holdfast.connectors.registry import find_connector, list_connectors
from holdfast.model.jobs import Role
from holdfast.spec.catalog import Declared
from holdfast.transforms.base import TransformKind
from holdfast.transforms.registry import find_transform, list_transforms


@dataclass(frozen=True)
class Catalog:
    """The registries, with `own` connectors before them."""

    own: Mapping[tuple[Role, str], Connector] = field(default_factory=dict)

    def source(self, name: str) -> Connector:
        return self._connector(Role.SOURCE, name)

    def sink(self, name: str) -> Connector:
        return self._connector(Role.SINK, name)

    def transform(self, name: str) -> TransformKind:
        found = find_transform(name)
        assert found is not None, f"the spec was parsed with another catalog: {name}"
        return found

    def find(self, role: Role, name: str) -> Declared | None:
        if role is Role.TRANSFORM:
            kind = find_transform(name)
            return None if kind is None else Declared(kind.name, kind.options, kind.check)
        found = self._find_connector(role, name)
        return None if found is None else Declared(found.name, found.options, found.check)

    def names(self, role: Role) -> list[str]:
        if role is Role.TRANSFORM:
            return list_transforms()
        own = [name for own_role, name in self.own if own_role is role]
        return sorted({*own, *list_connectors(role.value)})

    def _connector(self, role: Role, name: str) -> Connector:
        found = self._find_connector(role, name)
        assert found is not None, f"the spec was parsed with another catalog: {name}"
        return found

    def _find_connector(self, role: Role, name: str) -> Connector | None:
        for (own_role, own_name), connector in self.own.items():
            if own_role is role and own_name.lower() == name.lower():
                return connector
        return find_connector(role.value, name)
