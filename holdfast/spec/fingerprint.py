"""What of a plan a restore compares with what a checkpoint kept, and the comparing.

A fingerprint names each vertex with its kind, the options on which a position's meaning depends (its identity), a
digest of the rest, and its inputs. Never a secret: credentials are hidden before anything is kept, so a new password
is no change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.model.jobs import Pipeline, Role
from holdfast.model.json import Json, JsonObject
from holdfast.spec.options import declared_options, identity_values
from holdfast.spec.redact import redact_json, shown_options

FORMAT = 1


def vertex_fingerprint(kind: str, options: Any, inputs: tuple[str, ...]) -> JsonObject:
    """What is kept of one vertex.

    Options that say what they would without being given are left out: a release may bring new ones, and that is no
    change of anybody's job.
    """
    given = {
        o.name
        for o in declared_options(type(options))
        if o.required or getattr(options, o.attribute) != o.default
    }
    shown = {name: value for name, value in shown_options(options).items() if name in given}
    identity: JsonObject = {n: v for n, v in identity_values(options).items() if n in given}
    digest = hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()
    return {
        "kind": kind,
        "identity": redact_json(identity),
        "options": digest[:16],
        "inputs": list(inputs),
    }


def pipeline_fingerprint(pipeline: Pipeline) -> JsonObject:
    """What is kept of a pipeline: in every checkpoint, so it is small. The runtime adds the tables."""
    vertices: JsonObject = {}
    for vertex in pipeline.vertices:
        kept: JsonObject = {"role": vertex.role.value, **vertex.fingerprint}
        if vertex.output != vertex.location:
            kept["output"] = vertex.output
        vertices[vertex.location] = kept
    return {"format": FORMAT, "vertices": vertices}


@dataclass(frozen=True, slots=True)
class Comparison:
    """A plan against what a checkpoint kept. Locations are the plan's own unless it says otherwise."""

    matches: Mapping[str, str] = field(default_factory=dict)
    """The plan's location to the checkpoint's: whose position or token a vertex goes on from."""
    added: tuple[str, ...] = ()
    """Not in the checkpoint. A new source starts where it would in a fresh job."""
    gone: tuple[str, ...] = ()
    """The checkpoint's locations that the plan has nothing for."""
    changed: Mapping[str, str] = field(default_factory=dict)
    """Matched, and no longer the same: in which way."""
    incompatible: tuple[str, ...] = ()
    """Reasons why kept positions cannot be gone on from as they are: `on-incompatible` decides."""
    changed_sources: tuple[str, ...] = ()
    """Sources whose kept position means something else now: they cannot go on from it."""
    notes: tuple[str, ...] = ()
    """What is different and does no harm to a restore."""


def compare_fingerprints(stored: JsonObject, now: JsonObject) -> Comparison:
    """Which vertex goes on from which, and what stands against it.

    Incompatible: a source is gone (its rows would silently be read no more), of another kind, or has another
    identity. A new source is not: it has no place to lose, starts fresh and is named. Transforms have no state and
    sinks decide by tokens, so that what changed there is told and does not stand in the way.
    """
    old, new = _vertices(stored), _vertices(now)
    matches: dict[str, str] = {}
    for role in Role:
        matches.update(_match(_of_role(old, role), _of_role(new, role), role))
    incompatible: list[str] = []
    notes: list[str] = []
    changed: dict[str, str] = {}
    sources: list[str] = []
    for at, vertex in new.items():
        said = _difference(old[matches[at]], vertex, matches) if at in matches else None
        if at in matches and matches[at] != at:
            notes.append(f"{at} goes on from {matches[at]}: moved in the file")
        if said is None:
            continue
        changed[at] = said
        stands = vertex["role"] == Role.SOURCE.value and not said.startswith(_HARMLESS)
        (incompatible if stands else notes).append(f"{at}: {said}")
        sources += [at] if stands else []
    added = tuple(at for at in new if at not in matches)
    gone = tuple(at for at in old if at not in matches.values())
    elsewhere = {at: old[at] for at in added if at in gone}
    _tell_added(added, elsewhere, new, notes)
    _tell_gone([at for at in gone if at not in elsewhere], old, incompatible, notes)
    return Comparison(
        matches, added, gone, changed, tuple(incompatible), tuple(sources), tuple(notes)
    )


def match_pipelines(
    stored: Mapping[int, JsonObject], now: Mapping[int, JsonObject]
) -> dict[int, int]:
    """The plan's pipeline ids to those of the checkpoints: by what their sources are, then by number.

    A pipeline that was put before the others in the file shifts their numbers; their places are still theirs.
    """

    def overlap(new_id: int, old_id: int) -> tuple[int, bool]:
        kept, found = _vertices(stored[old_id]), _vertices(now[new_id])
        same = _match(_of_role(kept, Role.SOURCE), _of_role(found, Role.SOURCE), Role.SOURCE)
        equal = sum(_key(kept[old]) == _key(found[at]) for at, old in same.items())
        return equal, new_id == old_id

    found = {(n, o): overlap(n, o) for n in sorted(now) for o in sorted(stored)}
    matches: dict[int, int] = {}
    for (new_id, old_id), alike in sorted(found.items(), key=lambda item: item[1], reverse=True):
        if new_id not in matches and old_id not in matches.values() and any(alike):
            matches[new_id] = old_id
    return matches


_HARMLESS = "its "
Vertices = dict[str, JsonObject]


def _vertices(fingerprint: JsonObject) -> Vertices:
    found = fingerprint.get("vertices")
    if not isinstance(found, dict):
        return {}
    return {at: vertex for at, vertex in found.items() if isinstance(vertex, dict)}


def _of_role(vertices: Vertices, role: Role) -> Vertices:
    return {at: vertex for at, vertex in vertices.items() if vertex.get("role") == role.value}


def _match(old: Vertices, new: Vertices, role: Role) -> dict[str, str]:
    """The surest pairs first: a name given in both files, then place, then being the only one alike.

    What is the same in kind and identity comes before what merely has the same name or place: two sources that
    changed places in the file keep their positions. A sink that writes elsewhere now is another sink: neither the
    token nor the save modes of the one before are its own.
    """
    matches: dict[str, str] = {}

    def pair(alike: Callable[[str, str], bool]) -> None:
        for at in new:
            if at in matches:
                continue
            fitting = [o for o in old if o not in matches.values() and alike(at, o)]
            rivals = [n for n in new if n not in matches and fitting and alike(n, fitting[0])]
            if len(fitting) == 1 and len(rivals) == 1:
                matches[at] = fitting[0]

    def same(at: str, o: str) -> bool:
        return _key(new[at]) == _key(old[o])

    def same_name(at: str, o: str) -> bool:
        return "output" in new[at] and new[at].get("output") == old[o].get("output")

    pair(lambda at, o: same(at, o) and same_name(at, o))
    pair(lambda at, o: same(at, o) and at == o)
    pair(same)
    if role is Role.SINK:
        return matches
    pair(same_name)
    pair(lambda at, o: at == o)
    return matches


def _key(vertex: JsonObject) -> tuple[Json, str]:
    return vertex.get("kind"), json.dumps(vertex.get("identity"), sort_keys=True)


def _difference(old: JsonObject, new: JsonObject, matches: Mapping[str, str]) -> str | None:
    """What is different, in words, or None. What begins with `its ` does no harm to a position."""
    if old.get("kind") != new.get("kind"):
        return f"was {old.get('kind')} and is {new.get('kind')}"
    before, after = old.get("identity"), new.get("identity")
    if isinstance(before, dict) and isinstance(after, dict) and before != after:
        names = [n for n in {**before, **after} if before.get(n) != after.get(n)]
        return "; ".join(
            f"'{n}' was {_short(before.get(n))} and is {_short(after.get(n))}" for n in names
        )
    if old.get("options") != new.get("options"):
        return f"{_HARMLESS}other options were changed"
    if new.get("role") != Role.SOURCE.value and matches:
        read, kept = new.get("inputs"), old.get("inputs")
        if isinstance(read, list) and isinstance(kept, list):
            translated = [matches.get(str(at)) for at in read]
            if sorted(map(str, translated)) != sorted(map(str, kept)):
                return f"{_HARMLESS}inputs were {', '.join(map(str, kept))} and are {', '.join(map(str, read))}"
    return None


def _short(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else text[:117] + "…"


def _tell_added(added: Sequence[str], elsewhere: Vertices, new: Vertices, notes: list[str]) -> None:
    """`elsewhere`: what sinks of the same place were, that write somewhere else now."""
    for at in added:
        if at in elsewhere:
            said = f"{_difference(elsewhere[at], new[at], {})}; it begins as a new sink"
        else:
            said = "is new" + (" and starts fresh" if new[at]["role"] == Role.SOURCE.value else "")
        notes.append(f"{at}: {said}")


def _tell_gone(
    gone: Sequence[str], old: Vertices, incompatible: list[str], notes: list[str]
) -> None:
    for at in gone:
        if old[at].get("role") == Role.SOURCE.value:
            incompatible.append(f"{at}: the checkpoint has its position and the job has it no more")
        else:
            notes.append(f"{at}: the job has it no more")
