"""What can be found wrong with a pipeline before its first batch, as a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from zephon.errors import ConfigError

__all__ = ["Issue", "ValidationError", "ValidationReport", "preflight_tokenizers"]

Severity = Literal["error", "warning", "info"]
_RANK = ("error", "warning", "info")


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that was found.

    Attributes
    ----------
    severity : {"error", "warning", "info"}
        An error keeps the stream from running, or makes it deliver nothing of a
        source; a warning costs speed or data; an info is worth knowing.
    code : str
        What kind of thing, for programs: it stays when the message is reworded.
    op_name : str
        The call that it is about: ``"work_source"``, ``"tokenize"``, ...
    message : str
        What is wrong, where, and what to do.
    """

    severity: Severity
    code: str
    op_name: str
    message: str

    def __str__(self) -> str:
        return f"{self.severity} [{self.code}] {self.op_name}: {self.message}"


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """All that was found, the worst first.

    Attributes
    ----------
    issues : tuple of Issue
        Empty if nothing was found.
    """

    issues: tuple[Issue, ...] = ()

    def __post_init__(self) -> None:
        ordered = sorted(self.issues, key=lambda issue: _RANK.index(issue.severity))
        object.__setattr__(self, "issues", tuple(ordered))

    @property
    def errors(self) -> tuple[Issue, ...]:
        """Those that keep the pipeline from working."""
        return tuple(issue for issue in self.issues if issue.severity == "error")

    @property
    def warnings(self) -> tuple[Issue, ...]:
        """Those that cost speed or data."""
        return tuple(issue for issue in self.issues if issue.severity == "warning")

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    def format(self) -> str:
        """The report as text, an issue a line."""
        if not self.issues:
            return "nothing was found wrong"
        counts = [
            f"{count} {severity}s"
            for severity in _RANK
            if (count := sum(issue.severity == severity for issue in self.issues))
        ]
        return "\n".join([", ".join(counts), *(f"  {issue}" for issue in self.issues)])

    def raise_if_failed(self) -> None:
        """Raise :class:`ValidationError` if there is an error."""
        if not self.ok:
            raise ValidationError(self)

    def __str__(self) -> str:
        return self.format()


class ValidationError(ConfigError):
    """A pipeline that cannot work.

    Attributes
    ----------
    report : ValidationReport
        All that was found.
    """

    def __init__(self, report: ValidationReport) -> None:
        super().__init__(report.format())
        self.report = report

    def __reduce__(self) -> tuple[type[ValidationError], tuple[ValidationReport]]:
        return ValidationError, (self.report,)


class Preflight(Protocol):
    """What can use its tokenizer before its first batch; a pipeline can."""

    def preflight_tokenizers(self, *, strict: bool = True) -> ValidationReport:
        """Use it once."""
        ...


def preflight_tokenizers(pipeline: Preflight) -> ValidationReport:
    """Use the tokenizer of ``pipeline`` once; see :meth:`zephon.Pipeline.preflight_tokenizers`."""
    return pipeline.preflight_tokenizers(strict=False)
