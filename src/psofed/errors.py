"""Error messages for users: which file, which field, what was found, what would be right."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class InputError(ValueError):
    """Something the user gave is wrong; one line says what and what would be right.

    >>> print(InputError("cohort", "is 7, but there are only 4 clients", "use 1 to 4"))
    cohort is 7, but there are only 4 clients; use 1 to 4
    """

    code = 2  # with which a command ends

    def __init__(self, field: str, found: str, right: str, where: str = "") -> None:
        super().__init__(field, found, right, where)
        self.field, self.found, self.right, self.where = field, found, right, where

    def __str__(self) -> str:
        parts = [self.where + ":" if self.where else "", self.field, self.found]
        line = " ".join(part for part in parts if part)
        return f"{line}; {self.right}" if self.right else line

    def inside(self, prefix: str = "", where: str = "") -> "InputError":
        """The same error seen from outside: the field with its table, and the file."""
        return InputError(prefix + self.field, self.found, self.right, where or self.where)


class PsofedWarning(UserWarning):
    """Something the user should know: of a result that is not quite what it seems."""


class ResourceError(InputError):
    """What was given is right, but a disk or another resource has failed: try again later."""

    code = 3


# Of a disk, not of its user, who may have named a place where nobody can write
FAILED = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG)


def unwritable(path: object, error: OSError, right: str) -> InputError:
    """The error about what cannot be written: a ResourceError if the disk has failed."""
    kind = ResourceError if error.errno in FAILED else InputError
    return kind(str(path), f"cannot be written: {error.strerror}", right)


@contextmanager
def written(path: object, right: str) -> Iterator[None]:
    """An error of the disk in here says which path cannot be written."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error, right) from None


def nearest(name: str, known: list[str]) -> str:
    """Advice for a misspelt name.

    >>> nearest("rouns", ["rounds", "runs"])
    "did you mean 'rounds'?"
    >>> nearest("PSOFed", ["fedavg", "psofed"])
    "did you mean 'psofed'?"
    """
    lower = {each.lower(): each for each in known}
    near = [lower[each] for each in get_close_matches(name.lower(), lower, n=1, cutoff=0.5)]
    return f"did you mean {near[0]!r}?" if near else "use one of " + ", ".join(sorted(known))


# The paper's symbols and others' words: the field that is meant, and whose it is.
MEANT = {
    "K": ("clients", "Experiment"), "N": ("rounds", "Experiment"), "S": ("cohort", "Experiment"),
    "mu": ("step", "Experiment"), "T": ("rounds", "Experiment"), "lr": ("step", "Experiment"),
    "D": ("dim", "Features"), "dim": ("dim", "Features"), "sigma": ("width", "Features"),
    "width": ("width", "Features"), "M": ("shared", "PSOFed"), "shared": ("shared", "PSOFed"),
    "tau": ("shift", "PSOFed"), "E": ("local_steps", "FedAvg"), "L": ("taps", "Stream"),
}  # fmt: skip


def meant(name: str, known: list[str]) -> str:
    """Advice for a name that is no field."""
    field, owner = MEANT.get(name, ("", ""))
    if field in known:
        return f"write {field}="
    if owner == "Features" and "features" in known:
        return f"write features=psofed.Features({field}=...)"
    if field:
        return f"it is a field of psofed.{owner}: {field}"
    return nearest(name, known)
