"""What an error of MySQL means: whether trying again helps, and what to do."""

from __future__ import annotations

import re

from pymysql import err

from holdfast.model.errors import HoldfastError, SinkRejected, Terminal, Transient

_LOGIN_REFUSED = (1044, 1045, 1049, 1130, 1251, 1524, 1698, 1862, 2026, 2059, 2061)
_AWAY = (
    *(1040, 1053, 1077, 1080, 1152, 1158, 1159, 1160, 1161, 1184, 1203, 1226, 1927),
    *(2002, 2003, 2005, 2006, 2013, 2055, 4031),
)
"""The server is not there, is going, has no room for one more, or has ended the connection."""
_LATER = (1021, 1028, 1037, 1041, 1114, 1205, 1213, 1290, 1317, 1637, 1836, 1969, 3024)
"""Locks, space, memory, limits of time, a server that is read-only while it is being replaced."""
_REJECTED = (
    *(1048, 1062, 1136, 1153, 1216, 1217, 1263, 1264, 1265, 1292, 1364, 1366, 1367, 1369, 1406),
    *(1411, 1416, 1451, 1452, 1526, 1586, 1644, 1690, 3140, 3156, 3819, 4025),
)
_NAMELESS = re.compile(r"Name or service not known|nodename nor servname|name resolution", re.I)


def explain(error: BaseException) -> tuple[type[HoldfastError], str] | None:
    """See `Dialect.explain`."""
    if not isinstance(error, err.Error):
        return None
    code, said = _parts(error)
    if code in _LOGIN_REFUSED or (code == 2003 and _NAMELESS.search(said)):
        return Terminal, f"{said}. Check the url, the user and the password."
    if code == 0:
        return Transient, f"{said}. Check that the server runs and can be reached."
    if code in _AWAY:
        return Transient, f"{said}. Check that the server runs and can be reached."
    if code in _LATER:
        return Transient, said
    if code in _REJECTED or isinstance(error, err.DataError | err.IntegrityError):
        return SinkRejected, said
    return Terminal, said


def _parts(error: err.Error) -> tuple[int, str]:
    """The number and one line of text; a closed connection has neither."""
    options = error.args
    code = options[0] if options and isinstance(options[0], int) else 1
    text = options[-1] if options and isinstance(options[-1], str) else ""
    said = " ".join(text.split()).rstrip(".")[:500]
    if said:
        return code, said
    return 0, "the connection was closed"
