"""The command line. Each command is a module with `add_parser` and `run(args, out)`; errors become one message here."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from holdfast import __version__
from holdfast.cli import (
    check,
    checkpoints,
    client,
    options,
    plan,
    restore,
    run,
    savepoint,
    server,
    sim,
    state,
    storage,
    workers,
)
from holdfast.model.errors import ExitCode, HoldfastError
from holdfast.node import default_data_folder

COMMANDS = (
    run,
    check,
    plan,
    options,
    restore,
    savepoint,
    checkpoints,
    server,
    client,
    storage,
    workers,
    state,
    sim,
)
EXIT_CODES = """exit codes:
  0  finished            3  the job file or an option is wrong
  1  failed              4  restore refused
  2  wrong usage         5  stopped, goes on when run again
                         6  canceled, goes on when run again"""


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code; never raises what a user could cause."""
    _have_streams()
    args = _parser().parse_args(argv)
    try:
        return _run(args)
    except BrokenPipeError:
        # Who read our output has gone (`| head`): there is nobody left to tell.
        return int(ExitCode.FAILED)
    except KeyboardInterrupt:
        print("Canceled.", file=sys.stderr)  # noqa: T201 - the command line is where printing belongs
        return int(ExitCode.CANCELED)
    except HoldfastError as error:
        return _tell(str(error), error.exit_code, debug=args.debug)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        said = f"Cannot go on: {error.strerror or error}{where}. Mend that, then give the command again."
        return _tell(said, ExitCode.FAILED, debug=args.debug)
    except Exception as error:  # noqa: BLE001 - the outermost line: no stack trace at users
        said = f"Cannot go on: {type(error).__name__}: {error}. This is a defect; --debug shows where it lies."
        return _tell(said, ExitCode.FAILED, debug=args.debug)


def _run(args: argparse.Namespace) -> int:
    try:
        code = int(args.run(args, sys.stdout))
        sys.stdout.flush()
        return code
    finally:
        _leave_behind()


def _leave_behind() -> None:
    """What an output does not take is left behind: the interpreter would complain of it at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell(said: str, code: ExitCode, *, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(said, file=sys.stderr)  # noqa: T201 - the command line is where printing belongs
    return int(code)


def _have_streams() -> None:
    """Where the shell closed one (`>&-`), what goes there goes nowhere."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as long as the process
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as long as the process


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="holdfast",
        description="Data integration that never loses its place.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"holdfast {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(commands)
    for subparser in _leaves(parser):
        subparser.add_argument("--debug", action="store_true", help="show stack traces")
        subparser.add_argument(
            "--data",
            type=Path,
            default=default_data_folder(),
            help="where checkpoints are kept (HOLDFAST_DATA; default: ~/.holdfast)",
        )
    return parser


def _leaves(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """The parsers that stand for one command each."""
    found: list[argparse.ArgumentParser] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in dict.fromkeys(action.choices.values()):
                found += _leaves(subparser) or [subparser]
    return found


if __name__ == "__main__":
    sys.exit(main())
