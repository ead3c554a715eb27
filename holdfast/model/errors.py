"""Errors are part of the interface: what was being done, to what, what was found, what to do next.

`Cannot <verb> <what, with its id>: <found, against expected>. <what to do next>.`
The kind says whether trying again can help; `code` is stable and documented; the exit code is for schedulers.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """What `holdfast` returns to a scheduler."""

    FINISHED = 0
    FAILED = 1
    USAGE = 2
    CONFIG_ERROR = 3
    RESTORE_REFUSED = 4
    STOPPED = 5
    CANCELED = 6


class HoldfastError(Exception):
    """The root of all errors that are shown to a user as one message."""

    code = "error"
    exit_code = ExitCode.FAILED


class Terminal(HoldfastError):
    """Trying again will not help: something has to be changed first."""

    code = "terminal"


class Transient(HoldfastError):
    """The same call may succeed later."""

    code = "transient"


class OutcomeUnknown(HoldfastError):
    """The call may or may not have happened. Read again; never repeat blindly."""

    code = "outcome-unknown"


class ConfigError(Terminal):
    """A job file, an option or a flag is wrong."""

    code = "config-error"
    exit_code = ExitCode.CONFIG_ERROR


class RestoreRefused(Terminal):
    """A restore would lose or repeat data in a way that nobody agreed to."""

    code = "restore-refused"
    exit_code = ExitCode.RESTORE_REFUSED


class PositionGone(Terminal):
    """The source can no longer be read from the position that was kept."""

    code = "position-gone"


class SinkRejected(Terminal):
    """The sink's system answered that it will not take these rows."""

    code = "sink-rejected"


class Canceled(HoldfastError):
    """Work was ended because somebody asked for it."""

    code = "canceled"
    exit_code = ExitCode.CANCELED
