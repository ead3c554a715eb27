"""The JSON that positions, tokens and manifests are made of. Everything stored is JSON, never pickle."""

from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = dict[str, Json]
