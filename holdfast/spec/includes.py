"""`include "other.conf"` in a job file: the text with all that it includes put in, and where each line stood.

Done on the text, before anything is parsed: so `submit` hands over one whole text, and every problem is still told
with the file and line it stands in. Reads no file itself. As HOCON has it: a path is relative to the file that
includes it, `.conf` or `.json` may be left away, and a file that is not there is an error only inside `required(…)`
(else it is noted).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from holdfast.spec.config import Problem
from holdfast.spec.hocon_syntax import HoconError, parse_syntax

DEPTH_MAX = 20
Read = Callable[[str, str], "tuple[str, str] | None"]
"""From the including file's name and the path it names to the included file's name and text; None for no file."""

_SCAN = re.compile(
    r'"""(?s:.*?)"""+'
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|(?:\#|//)[^\n]*"
    r"|(?:\A|(?<=[\n{,]))(?P<include>[^\S\n]*include[^\S\n]+(?P<required>required\([^\S\n]*)?"
    r'(?:(?P<how>\w+)\([^\S\n]*)?"(?P<path>(?:[^"\\\n]|\\.)*)"(?:[^\S\n]*\))*)'
)
_OPENING = re.compile(r"(?:\s|(?:#|//)[^\n]*)*\{")
_LINE_IN_WORDS = re.compile(r"\b(what line|in line) (\d+)\b")


@dataclass(slots=True)
class JobText:
    """A job file with what it includes."""

    rows: list[str] = field(default_factory=list)
    places: list[tuple[str, int]] = field(default_factory=list)
    """The file and line of each row."""
    notes: list[Problem] = field(default_factory=list)
    problem: Problem | None = None
    """Why not all of it could be put in."""

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    def located(self, problem: Problem) -> Problem:
        """The same, with the line in its own file; `file` names it where it is an included one."""
        if problem.line is None or not 0 < problem.line <= len(self.places):
            return problem
        own, line = self.places[problem.line - 1]
        said = _LINE_IN_WORDS.sub(lambda found: self._in_words(found, own), problem.said)
        return replace(problem, line=line, said=said, file=None if own == self._root else own)

    def _in_words(self, found: re.Match[str], own: str) -> str:
        number = int(found[2])
        if not 0 < number <= len(self.places):
            return found[0]
        file, line = self.places[number - 1]
        return f"{found[1]} {line}" + ("" if file == own else f" of {file}")

    @property
    def _root(self) -> str:
        return self.places[0][0]

    def _begin(self, file: str, line: int) -> None:
        self.rows.append("")
        self.places.append((file, line))

    def _add(self, text: str, file: str, line: int) -> None:
        head, *following = text.split("\n")
        self.rows[-1] += head
        for behind, row in enumerate(following, start=1):
            self._begin(file, line + behind)
            self.rows[-1] = row


def include_files(name: str, text: str, read: Read) -> JobText:
    """The text of the file `name` with all it includes, as far as that can be done."""
    whole = JobText()
    whole._begin(name, 1)
    try:
        _expand(whole, name, _plain(text), read, (name,))
    except HoconError as wrong:
        whole.problem = Problem(wrong.line, wrong.said)
    return whole


def as_it_is(name: str, text: str) -> JobText:
    """A text that includes nothing: SQL."""
    rows = text.split("\n")
    return JobText(rows, [(name, line) for line in range(1, len(rows) + 1)])


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _expand(whole: JobText, file: str, text: str, read: Read, opened: tuple[str, ...]) -> None:
    at, line = 0, 1
    for found in _SCAN.finditer(text):
        if found["include"] is None:
            continue
        whole._add(text[at : found.start()], file, line)
        line += text.count("\n", at, found.start())
        at = found.end()
        if _put_in(whole, file, found, read, opened):
            whole._begin(file, line)
    whole._add(text[at:], file, line)


def _put_in(
    whole: JobText, file: str, found: re.Match[str], read: Read, opened: tuple[str, ...]
) -> bool:
    """Whether there was a file."""
    if found["how"] not in (None, "file", "required"):
        raise _wrong(whole, f"only files can be included, and this is {found['how']}(…)")
    path = re.sub(r"\\(.)", r"\1", found["path"])
    given = read(file, path)
    if given is None:
        if found["required"] or found["how"] == "required":
            raise _wrong(whole, f"there is no file '{path}' to include")
        said = f"there is no file '{path}' to include; it is left out"
        whole.notes.append(Problem(len(whole.rows), said))
        return False
    name, text = given
    if name in opened or len(opened) > DEPTH_MAX:
        raise _wrong(whole, f"'{name}' includes itself")
    whole._begin(name, 1)
    begin = len(whole.rows)
    _expand(whole, name, _without_braces(_plain(text)), read, (*opened, name))
    _check_alone("\n".join(whole.rows[begin - 1 :]), begin)
    return True


def _check_alone(text: str, begin: int) -> None:
    """What is included must be whole by itself: a brace that is missing there is told there."""
    try:
        parse_syntax(text)
    except HoconError as wrong:
        raise HoconError(
            wrong.line + begin - 1,
            _LINE_IN_WORDS.sub(lambda f: f"{f[1]} {int(f[2]) + begin - 1}", wrong.said),
        ) from wrong


def _without_braces(text: str) -> str:
    """JSON, and HOCON that is written like it, has braces around the whole."""
    opening = _OPENING.match(text)
    until = text.rfind("}")
    if opening is None or until < opening.end():
        return text
    head, inside = text[: opening.end() - 1], text[opening.end() : until]
    return f"{head} {inside} {text[until + 1 :]}"


def _wrong(whole: JobText, said: str) -> HoconError:
    return HoconError(len(whole.rows), said)
