"""The contract suite, for whoever writes a connector: the cases, the rules, and how to run them all at once.

`docs/write-a-connector.md` shows it at work.
"""

from holdfast.testing.recovery import RecoveryCase, check_recovery
from holdfast.testing.rules import Rule
from holdfast.testing.sink_contract import SINK_RULES, SinkCase, check_sink
from holdfast.testing.source_contract import SOURCE_RULES, SourceCase, check_source
from holdfast.testing.walking import row_text

__all__ = [
    "SINK_RULES",
    "SOURCE_RULES",
    "RecoveryCase",
    "Rule",
    "SinkCase",
    "SourceCase",
    "check_recovery",
    "check_sink",
    "check_source",
    "row_text",
]
