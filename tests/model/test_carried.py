"""What Spark says of a failed task, as the error that it stands for."""

from __future__ import annotations

from holdfast.model.carried import ExecutorFailed, RowNotComputed, restore_error

_CAST = (
    '[CAST_INVALID_INPUT] The value \'a b\' of the type "STRING" cannot be cast to "INT"'
    " because it is malformed. SQLSTATE: 22018"
)
_STACK = "\n\tat org.apache.spark.sql.errors.QueryExecutionErrors$.x(QueryExecutionErrors.scala:1)"


def test_a_value_that_cannot_be_computed_is_told_and_never_tried_again() -> None:
    error = restore_error(RuntimeError(f"Job aborted. Lost task 0.0: {_CAST}\n== SQL =={_STACK}"))

    assert type(error) is RowNotComputed
    assert str(error) == (
        "Cannot compute a row (CAST_INVALID_INPUT): The value 'a b' of the type \"STRING\" cannot"
        ' be cast to "INT" because it is malformed.'
    )


def test_what_a_query_raises_itself_is_told_in_its_own_words() -> None:
    text = "[USER_RAISED_EXCEPTION] Cannot read '$.a': there is none. SQLSTATE: P0001"

    error = restore_error(RuntimeError(text + _STACK))

    assert type(error) is RowNotComputed
    assert str(error) == "Cannot read '$.a': there is none."


def test_what_spark_says_of_anything_else_may_pass() -> None:
    said = "[SYSTEM_THING] The disk of the executor is full. SQLSTATE: 53100"

    error = restore_error(RuntimeError(said + _STACK))

    assert type(error) is ExecutorFailed
    assert str(error) == f"Cannot run a task: {said}"
