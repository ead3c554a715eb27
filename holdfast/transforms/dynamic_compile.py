"""DynamicCompile: code in the job file. Here the code is Python; Java and Groovy are refused with the Python form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.spec.options import option
from holdfast.transforms.python import Code as PythonCode
from holdfast.transforms.python import find_code_problems, make_code_rule
from holdfast.transforms.table_rules import (
    RULES_DOC,
    Rule,
    RuleOptions,
    TableOptions,
    table_wise_kind,
)

PYTHON_FORM = '''
  Python {
    source_code = """
def transform_row(row):
    row["compile_language"] = "PYTHON"
    row["age"] = 40 if row["age"] == 20 else row["age"]
    return row
"""
    schema { fields { name = string, age = int, compile_language = string } }
  }
'''


@dataclass(frozen=True)
class Code(PythonCode):
    """What one rule says."""

    compile_language: Literal["PYTHON", "JAVA", "GROOVY"] = option(
        "PYTHON. The others are known and refused.", default="PYTHON"
    )
    compile_pattern: Literal["SOURCE_CODE", "ABSOLUTE_PATH"] = option(
        "Where the code is: in source_code, or in the file of absolute_path.",
        default="SOURCE_CODE",
    )


@dataclass(frozen=True)
class CodeOfTable(Code, RuleOptions):
    """An entry of `table_transform`."""


@dataclass(frozen=True)
class Options(Code, TableOptions):
    """The block."""

    table_transform: list[CodeOfTable] = option(RULES_DOC, default=[])


def make_rule(code: Any) -> Rule:
    return make_code_rule(code, "DynamicCompile")


def find_problems(code: Any) -> Sequence[str]:
    if code.compile_language != "PYTHON":
        return [
            f"compile_language {code.compile_language} cannot be run: the code of a transform is"
            f" Python here. Write what getInlineOutputColumns and getInlineOutputFieldValues do as"
            f" one function, for example:\n{PYTHON_FORM}"
        ]
    name = code.compile_pattern.lower()
    if not getattr(code, name):
        return [f"compile_pattern is {code.compile_pattern}, and option '{name}' is missing"]
    return find_code_problems(code)


TRANSFORM = table_wise_kind(
    "DynamicCompile",
    Options,
    make_rule,
    find_problems,
    "Runs Python that stands in the job file; the same as the transform Python.",
)
