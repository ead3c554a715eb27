"""A job file named on the command line: read, parsed, identified, or every problem told at once."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.decide.restore import RestoreRequest, parse_restore
from holdfast.model.errors import ConfigError
from holdfast.model.jobs import JobSpec
from holdfast.runtime.catalog import Catalog
from holdfast.runtime.jars import missing_jars
from holdfast.spec.catalog import Catalog as Declarations
from holdfast.spec.config import Problem
from holdfast.spec.env import derive_job_id, parse_job_id
from holdfast.spec.includes import JobText, as_it_is, include_files
from holdfast.spec.parse import Parsed, parse_job


class JobFileWrong(ConfigError):
    """A job file has problems; all of them are in the message."""

    code = "job-file-wrong"


@dataclass(frozen=True)
class JobFile:
    """A job, ready to run."""

    path: Path
    job_id: str
    spec: JobSpec
    parsed: Parsed


def add_job_arguments(parser: argparse.ArgumentParser) -> None:
    """What every command takes that reads a job file."""
    parser.add_argument("job", type=Path, help="the job file (.conf, .json, .sql)")
    add_variables(parser)
    parser.add_argument(
        "--job-id", help="names the job (default: job.id in env, else from the file's path)"
    )
    parser.add_argument("--name", help="overrides job.name")


def add_job_name(parser: argparse.ArgumentParser) -> None:
    """What every command takes that asks about a job."""
    parser.add_argument("job", help="a job id, or a job file")
    add_variables(parser)


def add_variables(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-i",
        "--variable",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="fills ${NAME} in the job file; may be repeated",
    )


def add_restore_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--restore",
        metavar="FROM",
        help="auto (default), latest, savepoint, checkpoint:[<pipeline>/]<id>, path:<savepoint> or none",
    )
    for name in ("on-missing", "on-incompatible"):
        parser.add_argument(f"--{name}", help="fail (default), previous, fresh or latest")


def read_job_file(args: argparse.Namespace, catalog: Catalog) -> JobFile:
    """Raises JobFileWrong with every problem, each on a line of its own."""
    text = read_job_text(args.job)
    parsed = parse_text(text, args.job, args.variable, catalog)
    parsed = replace(
        parsed,
        problems=[text.located(problem) for problem in parsed.problems],
        notes=[text.located(note) for note in parsed.notes],
    )
    if parsed.spec is None:
        places = [f"  {place_of(p, args.job)}: {p.said}" for p in parsed.problems]
        what = "1 problem. Mend it" if len(places) == 1 else f"{len(places)} problems. Mend them"
        problems = "\n".join(places)
        raise JobFileWrong(f"Cannot run {args.job}: it has {what} and run it again.\n{problems}")
    spec = parsed.spec
    if args.name:
        spec = replace(spec, env=replace(spec.env, job_name=args.name))
    given = _read_job_id(args.job_id) if args.job_id else spec.env.job_id
    return JobFile(args.job, given or derive_job_id(args.job, spec.env.job_name), spec, parsed)


def place_of(problem: Problem, path: Path) -> str:
    """`file:line`, or the file alone where it is about the whole of it."""
    file = problem.file or path
    return f"{file}:{problem.line}" if problem.line else str(file)


def read_request(args: argparse.Namespace, spec: JobSpec) -> RestoreRequest:
    """The command line comes before `env`."""
    env = spec.env
    return parse_restore(
        args.restore or env.restore,
        args.on_missing or env.on_missing,
        args.on_incompatible or env.on_incompatible,
    )


def _read_job_id(given: str) -> str:
    try:
        return parse_job_id(given)
    except ValueError as wrong:
        raise ConfigError(f"Cannot read job id {given!r}: {wrong}.") from wrong


def parse_text(text: JobText, path: Path, variables: list[str], catalog: Declarations) -> Parsed:
    """Lines are those of the whole text, with all it includes: `text` knows where they stand."""
    given = parse_variables(variables)
    if text.problem is not None:
        return Parsed(None, [text.problem], text.notes)
    parsed = parse_job(text.text, name=path.name, variables=given, catalog=catalog)
    missing = [_missing_jar(jar, text.text) for jar in missing_jars(_jars_of(parsed))]
    if missing:
        parsed = replace(parsed, spec=None, problems=[*parsed.problems, *missing])
    return replace(parsed, notes=[*text.notes, *parsed.notes])


def _jars_of(parsed: Parsed) -> tuple[str, ...]:
    return parsed.spec.env.jars if parsed.spec is not None else ()


def _missing_jar(jar: str, text: str) -> Problem:
    lines = (number for number, line in enumerate(text.splitlines(), 1) if jar in line)
    return Problem(next(lines, None), f"env: jars: there is no file {jar} on this machine")


def read_job_text(path: Path) -> JobText:
    """A job file and the files that it includes, which lie beside it or where their paths say."""
    text = read_text(path)
    if path.suffix.lower() == ".sql":
        return as_it_is(str(path), text)
    return include_files(str(path), text, _read_included)


def read_whole_text(path: Path) -> str:
    """To be handed over: the cluster knows nothing of files that lie here."""
    text = read_job_text(path)
    if text.problem is not None:
        wrong = text.located(text.problem)
        raise ConfigError(f"Cannot read {wrong.file or path}, line {wrong.line}: {wrong.said}.")
    return text.text


def _read_included(including: str, named: str) -> tuple[str, str] | None:
    target = Path(including).parent / named
    for path in (target, *(Path(f"{target}.{ending}") for ending in ("conf", "json"))):
        if path.is_file():
            return str(path), read_text(path)
    return None


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as wrong:
        raise ConfigError(f"Cannot read {path}: it is not UTF-8 text ({wrong.reason}).") from wrong
    except OSError as wrong:
        raise ConfigError(f"Cannot read {path}: {wrong.strerror}.") from wrong


def parse_variables(given: list[str]) -> Mapping[str, str]:
    return parse_pairs(given, "-i ")


def parse_pairs(given: Sequence[str], option: str = "") -> dict[str, str]:
    found = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise ConfigError(f"Cannot read {option}{item!r}: expected NAME=VALUE.")
        found[name] = value
    return found


def resolve_job_id(job: str, variables: list[str]) -> str:
    """A job id, or that of a job file that exists (with the name it gives itself)."""
    path = Path(job)
    if not path.is_file():
        return _read_job_id(job)
    args = argparse.Namespace(job=path, variable=variables, job_id=None, name=None)
    return read_job_file(args, Catalog()).job_id
