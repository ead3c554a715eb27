"""Errors that cross from an executor to the driver: in `model`, as transforms raise them there too."""

from holdfast.model.carried import CarriedError, ExecutorFailed, carrying_errors, restore_error

__all__ = ["CarriedError", "ExecutorFailed", "carrying_errors", "restore_error"]
