"""Which datasets may share a row: groups of them by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from zephon.errors import ConfigError, ConfigTypeError

Homogeneity = Literal["none", "group", "full"]
HOMOGENEITIES = ("none", "group", "full")


@dataclass(frozen=True)
class DomainGroups:
    """Datasets by group.

    Parameters
    ----------
    groups : mapping from name of a group to names of datasets
        Each dataset in one group only.
    """

    groups: Mapping[str, Sequence[str]]

    def __post_init__(self) -> None:
        if not isinstance(self.groups, Mapping):
            raise ConfigTypeError(
                f"groups is a {type(self.groups).__name__}, expected a mapping from name of a "
                "group to names of datasets"
            )
        if not self.groups:
            raise ConfigError("groups is empty, expected names of groups with their datasets")
        for group, members in self.groups.items():
            if isinstance(members, str) or not all(isinstance(one, str) for one in members):
                raise ConfigTypeError(f"group {group!r} is {members!r}, expected names of datasets")
            if not members:
                raise ConfigError(f"group {group!r} has no dataset: leave it out")
        kept = {group: tuple(members) for group, members in self.groups.items()}
        object.__setattr__(self, "groups", kept)
        self.to_member_map()

    def to_member_map(self) -> dict[str, str]:
        """Group by name of the dataset."""
        found: dict[str, str] = {}
        for group, members in self.groups.items():
            for name in members:
                if name in found:
                    raise ConfigError(
                        f"dataset {name!r} is in the groups {found[name]!r} and {group!r}: it "
                        "belongs to one"
                    )
                found[name] = group
        return found

    def validate_against(self, known_components: Iterable[str]) -> None:
        """ConfigError unless the groups name these datasets, all of them, and nothing else."""
        members, names = self.to_member_map(), list(known_components)
        unknown = [name for name in members if name not in names]
        if unknown:
            raise ConfigError(
                f"groups names {unknown[0]!r}, which is no dataset; there are {', '.join(names)}"
            )
        missing = [name for name in names if name not in members]
        if missing:
            raise ConfigError(f"dataset {missing[0]!r} is in none of the groups")


def resolve_groups(
    homogeneity: Homogeneity, groups: DomainGroups | Mapping[str, Any] | None, names: Sequence[str]
) -> tuple[tuple[str, str], ...] | None:
    """Name and group of each dataset; None if rows may mix them all."""
    if homogeneity not in HOMOGENEITIES:
        raise ConfigError(
            f"homogeneity is {homogeneity!r}, expected one of {', '.join(HOMOGENEITIES)}"
        )
    if homogeneity != "group":
        if groups is not None:
            raise ConfigError(
                f"groups are given with homogeneity={homogeneity!r}: they go with 'group'"
            )
        return tuple((name, name) for name in names) if homogeneity == "full" else None
    if groups is None:
        raise ConfigError("homogeneity='group' needs groups={name of a group: [datasets]}")
    found = groups if isinstance(groups, DomainGroups) else DomainGroups(groups)
    found.validate_against(names)
    members = found.to_member_map()
    return tuple((name, members[name]) for name in names)
