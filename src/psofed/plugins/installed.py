"""What is known of installed packages: whose a module is, and what they offer to psofed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib import metadata

# Of entry points; they have the names of the packages in which psofed's own are.
KINDS = ("methods", "streams", "policies", "features", "learners", "sample_checks")
GROUPS = tuple(f"psofed.{kind}" for kind in KINDS)


def version_of(name: str) -> str:
    """The installed package that has this module, and its version; nothing if there is none.

    >>> version_of("numpy.linalg").split()[0]
    'numpy'
    """
    owners = _owners(tuple(sys.path)).get(name.split(".")[0], [])
    return " and ".join(f"{owner} {metadata.version(owner)}" for owner in sorted(set(owners)))


@cache
def _owners(path: tuple[str, ...]) -> Mapping[str, list[str]]:
    return metadata.packages_distributions()  # takes most of a second: it reads all of them


@cache
def _points(group: str, path: tuple[str, ...]) -> list[metadata.EntryPoint]:
    return list(metadata.entry_points(group=group))  # 30 ms, and it is asked for each name


def points(group: str) -> list[metadata.EntryPoint]:
    """The entry points of this group."""
    return _points(group, tuple(sys.path))


def entries(group: str) -> list[str]:
    """The names that installed packages give in this group of entry points."""
    return sorted({point.name for point in points(group)})
