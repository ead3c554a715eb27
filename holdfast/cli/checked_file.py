"""A job file as `check` and `plan` look at it: with its problems, which for them are not an error but the answer."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from holdfast.cli.job_file import parse_text, place_of, read_job_text
from holdfast.model.errors import ConfigError
from holdfast.model.jobs import JobSpec
from holdfast.spec.catalog import Catalog
from holdfast.spec.config import Problem
from holdfast.spec.includes import JobText
from holdfast.spec.parse import Parsed


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A job file, read and parsed."""

    path: Path
    parsed: Parsed
    """Its lines are those of `text`."""
    text: JobText

    def problems(self) -> list[Problem]:
        """Every problem, with the line of its own file."""
        return [self.text.located(problem) for problem in self.parsed.problems]

    def notes(self) -> list[Problem]:
        return [self.text.located(note) for note in self.parsed.notes]

    def problem_lines(self) -> list[str]:
        """Every problem, as `file:line: what`."""
        return [self._told(problem, problem.said) for problem in self.problems()]

    def note_lines(self) -> list[str]:
        return [self._told(note, f"note: {note.said}") for note in self.notes()]

    def count(self) -> str:
        number = len(self.parsed.problems)
        return f"{number} problem{'' if number == 1 else 's'}"

    def spec(self) -> JobSpec:
        """The job. Raises ConfigError with all problems where there are any."""
        if self.parsed.spec is None:
            lines = "\n".join(self.problem_lines())
            raise ConfigError(f"Cannot read {self.path}: it has {self.count()}.\n{lines}")
        return self.parsed.spec

    def _told(self, problem: Problem, said: str) -> str:
        return f"{place_of(problem, self.path)}: {said}"


def add_checked_file(parser: argparse.ArgumentParser) -> None:
    """The arguments that name a job file and its variables."""
    parser.add_argument("job", type=Path, help="the job file (.conf, .json, .sql)")
    parser.add_argument(
        "-i",
        "--variable",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="fills ${NAME} in the job file; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def open_checked_file(args: argparse.Namespace, catalog: Catalog) -> CheckedFile:
    """Raises ConfigError where the file or a variable cannot be read at all."""
    text = read_job_text(args.job)
    return CheckedFile(args.job, parse_text(text, args.job, args.variable, catalog), text)
