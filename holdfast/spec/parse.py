"""A job file's text to a `JobSpec`: every problem in one pass, each with its line. Connects to nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Protocol

from holdfast.model.jobs import Env, JobMode, JobSpec, Pipeline, Role, Vertex
from holdfast.spec.catalog import Catalog, Declared
from holdfast.spec.config import ConfigObject, ConfigValue, Problem
from holdfast.spec.env import parse_env
from holdfast.spec.fingerprint import vertex_fingerprint
from holdfast.spec.graph import Step, Wiring, wire
from holdfast.spec.hocon import Hocon, parse_hocon
from holdfast.spec.hocon_syntax import BLOCKS, HoconError
from holdfast.spec.options import nearest, read_options
from holdfast.spec.redact import block_secrets, redact_syntax, redact_text, secret_values
from holdfast.spec.shade import decode_block, find_identifier
from holdfast.spec.sql_job import parse_sql_job
from holdfast.spec.variables import Filling

ROOT_KEYS = ("env", *BLOCKS)
INPUT_NAMES = ("plugin_input", "source_table_name")
OUTPUT_NAMES = ("plugin_output", "result_table_name")
FORMATS = {"conf": "hocon", "config": "hocon", "hocon": "hocon", "json": "hocon", "sql": "sql"}


@dataclass(frozen=True, slots=True)
class Parsed:
    """What came of a job file. `spec` is None exactly when there are problems."""

    spec: JobSpec | None
    problems: list[Problem]
    notes: list[Problem]
    """What is worth knowing and stands in nobody's way."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """The secret values in it: to be hidden from whatever is printed."""


class Parse(Protocol):
    """What `parse_job` is, for those that are handed it."""

    def __call__(
        self, text: str, *, name: str, variables: Mapping[str, str], catalog: Catalog
    ) -> Parsed: ...


def parse_job(
    text: str,
    *,
    name: str,
    variables: Mapping[str, str],
    catalog: Catalog,
    format_: str | None = None,
) -> Parsed:
    """`name` is the file's: its ending decides the format (`format_`: `hocon`, `json`, `sql`) and it names the job."""
    try:
        read = _read_text(text, name, variables, format_)
    except HoconError as wrong:
        found = [Problem(w.line, redact_syntax(w.said)) for w in (wrong, *wrong.others)]
        return Parsed(None, found, [])
    return _Job(read, variables, catalog).parse(PurePath(name).stem or "job")


def _read_text(text: str, name: str, variables: Mapping[str, str], format_: str | None) -> Hocon:
    ending = format_ or PurePath(name).suffix.removeprefix(".").lower()
    if FORMATS.get(ending, ending) == "sql":
        return parse_sql_job(text, variables)
    return parse_hocon(text, variables)


@dataclass(slots=True)
class _Block:
    """One block, read: its step in the graph and its options, where they are right."""

    step: Step
    options: Any
    parallelism: int | None


class _Job:
    """One job file on its way to a spec. Collects problems; stops at none of them."""

    def __init__(self, read: Hocon, variables: Mapping[str, str], catalog: Catalog) -> None:
        self._read = read
        self._variables = variables
        self._catalog = catalog
        self._used = set(read.variables)
        self._problems: list[Problem] = []
        self._notes: list[Problem] = []
        self._secrets: set[str] = set()
        self._shaded = False
        self._unfilled: set[str] = set()
        self._mode = JobMode.BATCH

    def parse(self, default_name: str) -> Parsed:
        self._check_root()
        env = self._env(default_name)
        blocks = [block for role in Role for block in self._blocks(role)]
        steps = [block.step for block in blocks]
        wiring = wire(steps)
        self._problems += wiring.problems
        self._notes += wiring.notes
        self._note_unused_variables()
        spec = None
        if env is not None and not self._problems:
            spec = JobSpec(env, _pipelines(blocks, wiring, env))
        return Parsed(
            spec,
            self._shown(self._problems),
            self._shown(self._notes),
            frozenset(self._secrets),
        )

    def _shown(self, found: Iterable[Problem]) -> list[Problem]:
        """In file order, once each, without secrets."""
        clean = {
            Problem(p.line, redact_text(p.said, self._secrets)): None
            for p in found
            if not any(f"'{text}'" in p.said for text in self._unfilled)
        }
        return sorted(clean, key=lambda problem: problem.line or 0)

    # ------------------------------------------------------------------------------------- root

    def _check_root(self) -> None:
        for key, entry in self._read.root.entries.items():
            if key not in ROOT_KEYS and key not in self._read.referred:
                said = (
                    f"there is no block '{key}'; a job has env, source, transform and sink."
                    f"{nearest(key, ROOT_KEYS)}"
                )
                self._problems.append(Problem(entry.line, said))
        for key, first, second in self._read.repeated:
            said = f"'{key}' is given in line {first} as well; this line counts"
            self._notes.append(Problem(second, said))
        shading, problem = find_identifier(self._read.root)
        self._shaded = shading == "base64"
        if problem is not None:
            self._problems.append(problem)

    def _env(self, default_name: str) -> Env | None:
        entry = self._read.root.entries.get("env")
        block = ConfigObject(1)
        if entry is not None and isinstance(entry.value, ConfigObject):
            block = self._filled(entry.value, in_sink=False)
        elif entry is not None and entry.value is not None:
            self._problems.append(Problem(entry.line, "env: expected a block 'env { … }'"))
        env, problems, notes = parse_env(block, default_name)
        self._problems += problems
        self._notes += notes
        mode = block.find("job.mode")
        if env is not None:
            self._mode = env.mode
        elif mode is not None and str(mode.value).upper() == JobMode.STREAMING.value:
            self._mode = JobMode.STREAMING
        return env

    def _filled(self, block: ConfigObject, *, in_sink: bool) -> ConfigObject:
        filling = Filling(self._variables, in_sink)
        filled = filling.fill_object(block)
        self._used |= filling.used
        self._problems += filling.problems
        self._unfilled |= filling.unfilled
        return filled

    def _note_unused_variables(self) -> None:
        for name in sorted(set(self._variables) - self._used):
            self._notes.append(Problem(None, f"variable '{name}' (-i) is used nowhere in the file"))

    # ----------------------------------------------------------------------------------- blocks

    def _blocks(self, role: Role) -> list[_Block]:
        entry = self._read.root.entries.get(role.value)
        if entry is None or entry.value is None:
            return []
        if not isinstance(entry.value, list):
            said = (
                f"{role.value}: expected blocks '{role.value} {{ Name {{ … }} }}' or a list of them"
            )
            self._problems.append(Problem(entry.line, said))
            return []
        return [self._block(role, index, item) for index, item in enumerate(entry.value)]

    def _block(self, role: Role, index: int, item: ConfigValue) -> _Block:
        found = item.value if isinstance(item.value, ConfigObject) else None
        name = _text_at(found, ("plugin_name",))
        if found is None or not name:
            said = f"{role.value} {index}: expected a block with a 'plugin_name'"
            self._problems.append(Problem(item.line, said))
            nameless = Step(role, "?", f"{role.value}-{index}", item.line, None, None)
            return _Block(nameless, None, None)
        where = f"{role.value} {name}"
        block = self._filled(found, in_sink=role is Role.SINK)
        if self._shaded:
            block, problems = decode_block(block, where)
            self._problems += problems
        declared = self._declared(role, name, item.line)
        kind = name if declared is None else declared.name
        options = None if declared is None else self._options(declared, block, where)
        step = self._step(role, kind, f"{role.value}-{index}-{_slug(kind)}", block)
        return _Block(step, options, self._parallelism(block, where))

    def _declared(self, role: Role, name: str, line: int) -> Declared | None:
        try:
            found = self._catalog.find(role, name)
        except ImportError as missing:
            said = (
                f"{role.value} {name}: needs the Python package '{missing.name}', which is not"
                " installed here. Install it, and check again."
            )
            self._problems.append(Problem(line, said))
            return None
        if found is None:
            names = self._catalog.names(role)
            said = f"there is no {role.value} '{name}'.{nearest(name, names)} There are: {', '.join(names)}"
            self._problems.append(Problem(line, said))
        return found

    def _options(self, declared: Declared, block: ConfigObject, where: str) -> Any:
        self._secrets |= block_secrets(block, declared.options)
        options, problems = read_options(declared.options, block, where)
        if options is not None:
            self._secrets |= secret_values(options)
            # A check of `${x}` would only say in other words that x has no value.
            said = () if self._has_unfilled(block) else declared.check(options, self._mode)
            problems = [Problem(block.line, f"{where}: {text}") for text in said]
        self._problems += problems
        return options

    def _has_unfilled(self, block: ConfigObject) -> bool:
        values = [str(entry.plain()) for _, entry in block.leaves()]
        return any(text in value for text in self._unfilled for value in values)

    def _step(self, role: Role, kind: str, location: str, block: ConfigObject) -> Step:
        names, line = self._inputs(block, f"{role.value} {kind}")
        return Step(role, kind, location, block.line, _text_at(block, OUTPUT_NAMES), names, line)

    def _inputs(self, block: ConfigObject, where: str) -> tuple[tuple[str, ...] | None, int]:
        entry = _entry_at(block, INPUT_NAMES)
        if entry is None:
            return None, block.line
        items = entry.value if isinstance(entry.value, list) else [entry]
        if any(not isinstance(item.value, str) or not item.value.strip() for item in items):
            said = f"{where}: option 'plugin_input' must be a name or a list of names"
            self._problems.append(Problem(entry.line, said))
            return None, entry.line
        names = [part.strip() for item in items for part in str(item.value).split(",")]
        return tuple(name for name in names if name), entry.line

    def _parallelism(self, block: ConfigObject, where: str) -> int | None:
        entry = block.find("parallelism")
        if entry is None or entry.value is None:
            return None
        text = str(entry.value).strip()
        if not re.fullmatch(r"[1-9]\d{0,5}", text) or isinstance(entry.value, bool):
            said = f"{where}: option 'parallelism': expected a whole number from 1, found {entry.value!r}"
            self._problems.append(Problem(entry.line, said))
            return None
        return int(text)


def _pipelines(blocks: list[_Block], wiring: Wiring, env: Env) -> tuple[Pipeline, ...]:
    by_location = {block.step.location: block for block in blocks}
    made = []
    for number, locations in enumerate(wiring.pipelines, start=1):
        vertices = tuple(
            _vertex(by_location[at], wiring.inputs[at], env.parallelism) for at in locations
        )
        made.append(Pipeline(number, vertices))
    return tuple(made)


def _vertex(block: _Block, inputs: tuple[str, ...], parallelism: int) -> Vertex:
    step = block.step
    output = step.output if step.output is not None and step.role is not Role.SINK else None
    return Vertex(
        role=step.role,
        kind=step.kind,
        location=step.location,
        options=block.options,
        inputs=inputs,
        output=output or step.location,
        parallelism=block.parallelism or parallelism,
        line=step.line,
        fingerprint=vertex_fingerprint(step.kind, block.options, inputs),
    )


def _entry_at(block: ConfigObject, names: tuple[str, ...]) -> ConfigValue | None:
    for name in names:
        found = block.entries.get(name)
        if found is not None and found.value is not None:
            return found
    return None


def _text_at(block: ConfigObject | None, names: tuple[str, ...]) -> str | None:
    found = None if block is None else _entry_at(block, names)
    if found is None or isinstance(found.value, list | ConfigObject):
        return None
    return str(found.value).strip() or None


def _slug(kind: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", kind.lower()).strip("-") or "unnamed"
