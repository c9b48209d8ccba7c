"""The exceptions that zephon raises: one small tree.

Every error names the thing that is wrong and the way out. An error of the
configuration is also a :class:`ValueError` or :class:`TypeError`, so callers
that expect the built-in ones keep working.
"""

from __future__ import annotations

import os


class ZephonError(Exception):
    """Base of everything that zephon raises on purpose."""


class ConfigError(ZephonError, ValueError):
    """An argument or option has a value that cannot work."""


class ConfigTypeError(ConfigError, TypeError):
    """An argument or option has the wrong type."""


class LifecycleError(ZephonError, RuntimeError):
    """An object was used before, after or beside the time when that is possible."""


class StateError(ZephonError, ValueError):
    """Bytes given as a state are damaged, foreign or of another stream."""


class DataError(ZephonError):
    """Data on disk or in memory is missing, damaged or not what it claims to be.

    Attributes
    ----------
    file : str or None
        Path of the file, where there is one.
    record : int or None
        Record of that file (a line, a sequence, a row), counted from 1.
    byte_offset : int or None
        Where in the file the record or the damage begins.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | os.PathLike[str] | None = None,
        record: int | None = None,
        byte_offset: int | None = None,
    ) -> None:
        self.file = None if file is None else os.fspath(file)
        self.record = record
        self.byte_offset = byte_offset
        place = [] if self.file is None else [self.file]
        if record is not None:
            place.append(f"record {record}")
        if byte_offset is not None:
            place.append(f"byte {byte_offset}")
        super().__init__(f"{', '.join(place)}: {message}" if place else message)
        self.message = message

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders with their place intact.
        return _rebuild_data_error, (self.message, self.file, self.record, self.byte_offset)


class OperatorError(DataError):
    """A function of the user failed on a document; its own error is the ``__cause__``.

    Attributes
    ----------
    operator : str
        The call that added the function, and the function's name.
    """

    def __init__(
        self,
        message: str,
        *,
        operator: str,
        file: str | os.PathLike[str] | None = None,
        record: int | None = None,
        byte_offset: int | None = None,
    ) -> None:
        super().__init__(message, file=file, record=record, byte_offset=byte_offset)
        self.operator = operator

    def __reduce__(self) -> tuple[object, ...]:
        place = (self.file, self.record, self.byte_offset)
        return _rebuild_operator_error, (self.message, self.operator, *place)


def _rebuild_operator_error(
    message: str, operator: str, file: str | None, record: int | None, byte_offset: int | None
) -> OperatorError:
    return OperatorError(
        message, operator=operator, file=file, record=record, byte_offset=byte_offset
    )


def _rebuild_data_error(
    message: str, file: str | None, record: int | None, byte_offset: int | None
) -> DataError:
    return DataError(message, file=file, record=record, byte_offset=byte_offset)
