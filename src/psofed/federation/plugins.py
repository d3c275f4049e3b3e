"""Code from outside the package: a file, or a module of an installed package.

A file is read again each time it is named, and is a module of its own for each place and content:
two files of one name do not meet, and an edited file is another module, next to the old one, which
the objects made before keep. `workers.py` sends objects and their files to other processes.
"""

from __future__ import annotations

import hashlib
import importlib.util
import linecache
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from psofed.errors import InputError, nearest

T = TypeVar("T")
_folder: ContextVar[Path | None] = ContextVar("folder", default=None)
_refused: ContextVar[str] = ContextVar("refused", default="")
_lock = RLock()
CORRECT = "correct it there"


@dataclass(frozen=True)
class Plugin:
    """What is known of a module from outside: enough to name it, to know it again, to send it."""

    given: str  # what `module` finds it by from anywhere: a whole path, or a dotted name
    module: str  # its name in this process
    path: str  # its file, as the user named it
    digest: str  # of its source; of all source in its folder, if it is in a package
    version: str = ""  # of the installed package that it belongs to
    source: bytes | None = None  # a file, which workers get; a package they must have

    @property
    def file(self) -> str:
        """Its name without its place."""
        return Path(self.path).name if self.source is not None else self.module

    def about(self) -> dict[str, str]:
        """What a result keeps of it."""
        known = {"file": self.file, "path": self.path, "digest": self.digest}
        return known | ({"version": self.version} if self.version else {})


loaded: dict[str, Plugin] = {}  # those of this process, by the name of the module


def is_ours(thing: Any) -> bool:
    """Whether a class, a function or a module is one of psofed's own."""
    return _home(thing).split(".")[0] == "psofed"


def _home(thing: Any) -> str:
    """The module of a class or a function, or a module's own name."""
    return thing.__name__ if isinstance(thing, ModuleType) else thing.__module__


# How it is found.


@contextmanager
def _having(variable: ContextVar[Any], value: T) -> Iterator[T]:
    """The variable has this value until the block ends."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


def relative_to(folder: str | Path) -> AbstractContextManager[Path]:
    """Names of files are relative to this folder, that of the file which is being read."""
    return _having(_folder, Path(folder))


def refused(right: str) -> AbstractContextManager[str]:
    """Nothing from outside is imported in here: who only reads a result runs no code of others."""
    return _having(_refused, right)


def outside(text: object) -> bool:
    """Whether a text has the form of a file's path or of a dotted name."""
    return isinstance(text, str) and ("/" in text or "." in text)


def has_file(name: str) -> bool:
    """Whether the folder that names are relative to has such a file."""
    return ((_folder.get() or Path.cwd()) / name).is_file()


def module(text: str, field: str = "name") -> ModuleType:
    """The module of "./signs.py" or "my_package.signs"; an InputError, at `field`, says why not."""
    if _refused.get():
        raise InputError(field, f"is {text!r}, code that is not imported here", _refused.get())
    try:
        return _from_file(text) if "/" in text or text.endswith(".py") else from_package(text)
    except InputError as error:
        raise error.inside(field) from None


def offered(group: str, name: object) -> str | None:
    """The dotted name of the module that an installed package offers as an entry point."""
    found = sorted({p.value for p in metadata.entry_points(group=group, name=str(name))})
    if len(found) > 1:
        wrong = f"is {name!r}, which is both {' and '.join(found)}"
        raise InputError("name", wrong, "uninstall one of them, or give the dotted name")
    return found[0] if found else None


def attribute(text: str, field: str = "name") -> Any:
    """What "./mine.py:f" or "my_package.mine:f" stands for."""
    where, colon, name = text.rpartition(":")
    if not colon or not where or not name.isidentifier():
        right = 'give a file and a name in it, as in "./mine.py:f", or "my_package.mine:f"'
        raise InputError(field, f"is {text!r}", right)
    home = module(where, field)
    if name not in vars(home):
        known = [key for key in vars(home) if not key.startswith("_")]
        raise InputError(field, f"is {text!r}, but {where} has no {name!r}", nearest(name, known))
    return vars(home)[name]


def _from_file(text: str) -> ModuleType:
    named = Path.cwd() / (_folder.get() or "") / Path(text).expanduser()
    path = named.resolve()
    try:
        data = path.read_bytes()
    except OSError as error:
        found = f"is {text!r}, but {path} cannot be read: {error.strerror}"
        right = "give the path of a Python file, relative to the folder of the experiment file"
        raise InputError("", found, right) from None
    key = hashlib.blake2b(str(path).encode() + data, digest_size=6).hexdigest()
    name = f"psofed_plugin_{re.sub(r'[^0-9A-Za-z]', '_', named.stem)}_{key}"
    if name not in loaded:
        execute(Plugin(path.as_posix(), name, str(named), _digest(data), source=data), text)
    return sys.modules[name]


def execute(plugin: Plugin, text: str) -> None:
    """Run the source of a file as a module of its own, once: workers have several threads."""
    with _lock:
        if plugin.module not in loaded:
            _execute(plugin, text)
            loaded[plugin.module] = plugin


def _execute(plugin: Plugin, text: str) -> None:
    spec = importlib.util.spec_from_loader(plugin.module, None, origin=plugin.path)
    assert spec is not None
    assert plugin.source is not None
    made = importlib.util.module_from_spec(spec)
    made.__file__ = plugin.path
    sys.modules[plugin.module] = made  # dataclasses look there for the types of their fields
    try:
        lines = importlib.util.decode_source(plugin.source).splitlines(keepends=True)
        linecache.cache[plugin.path] = len(plugin.source), None, lines, plugin.path
        exec(compile(plugin.source, plugin.path, "exec", dont_inherit=True), vars(made))
    except (Exception, SystemExit) as error:
        del sys.modules[plugin.module]
        raise _failed(text, error, plugin.path) from error


def _failed(text: str, error: BaseException, path: str = "") -> InputError:
    """Where and why an import failed: the last line of the file that was reached."""
    if isinstance(error, SyntaxError | UnicodeDecodeError):
        where = f"{error.filename}:{error.lineno}" if isinstance(error, SyntaxError) else path
        return InputError("", f"is {text!r}, which is not Python: {where}: {error}", CORRECT)
    lines = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    last = ([f for f in lines if f.filename == path] or lines)[-1]
    found = f"which cannot be imported: {last.filename}:{last.lineno}: {brief(error)}"
    missing = isinstance(error, ModuleNotFoundError)
    right = "install it; what lies next to a file has to be in that file" if missing else CORRECT
    return InputError("", f"is {text!r}, {found}", right)


def brief(error: BaseException) -> str:
    """An error as one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def from_package(text: str) -> ModuleType:
    """A module by its dotted name."""
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", text):
        right = 'give a file, as in "./mine.py", or a dotted name, as in "my_package.mine"'
        raise InputError("", f"is {text!r}", right)
    try:
        made = import_module(text)
    except ModuleNotFoundError as error:
        if error.name is None or not (text + ".").startswith(error.name + "."):
            raise _failed(text, error) from error
        found = f"is {text!r}, but there is no module {error.name!r}"
        right = "install its package, or put the folder that it is in into PYTHONPATH"
        raise InputError("", found, right) from None
    except (Exception, SystemExit) as error:
        raise _failed(text, error) from error
    if made.__name__ not in loaded:
        loaded[made.__name__] = _described(made)
    return made


def _described(made: ModuleType) -> Plugin:
    """What is known of a module that Python itself has imported."""
    name, path = made.__name__, Path(made.__file__ or "")
    package = "." in name or path.name == "__init__.py"
    files = sorted(path.parent.rglob("*.py")) if package else []
    parts = [str(f.relative_to(path.parent)).encode() + f.read_bytes() for f in files]
    parts = parts or ([path.read_bytes()] if path.is_file() else [])
    plugin = Plugin(name, name, str(path), _digest(*parts), version_of(name))
    if package or path.suffix != ".py" or name in sys.stdlib_module_names:
        return plugin
    source = None if plugin.version else path.read_bytes()
    return replace(plugin, given=path.resolve().as_posix(), source=source)


def _digest(*parts: bytes) -> str:
    return hashlib.blake2b(b"".join(parts), digest_size=8).hexdigest()


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


# How it is written down.


@dataclass(frozen=True)
class Naming:
    """How plug-ins are named where an experiment is written down, and what was named."""

    name: Callable[[Plugin], str]
    lenient: bool  # what has no name that can be read is written, too, and noted
    used: dict[str, Plugin] = field(default_factory=dict)
    nameless: list[str] = field(default_factory=list)


_naming: ContextVar[Naming | None] = ContextVar("naming", default=None)


def naming(name: Callable[[Plugin], str], lenient: bool = False) -> AbstractContextManager[Naming]:
    """In here plug-ins are named in this way, not by their whole paths."""
    return _having(_naming, Naming(name, lenient))


def _current() -> Naming:
    """How plug-ins are named here."""
    return _naming.get() or Naming(lambda plugin: plugin.given, False)


def unwritten(error: InputError) -> None:
    """Something cannot be written so that it is read again: an error, or a note of it."""
    here = _current()
    if not here.lenient:
        raise error from None
    here.nameless.append(str(error))


def of(thing: Any) -> Plugin | None:
    """The plug-in that a class, a function or a module is from; None if it is one of ours.

    An InputError says why it cannot be found again: it was made in a notebook or in a script.
    """
    if is_ours(thing):
        return None
    where = _home(thing)
    if where not in loaded:
        made = sys.modules.get(where)
        if where == "__main__" or made is None or not getattr(made, "__file__", None):
            found = f"is of {thing.__qualname__}, which was made in a notebook or a script"
            raise InputError("name", found, "put it into a file of its own, and import that")
        loaded[where] = _described(made)
    return loaded[where]


def spelled(thing: Any) -> str:
    """The text by which a class or a function from outside is found again.

    For a class that is the name of its module, for a function "./mine.py:f". An InputError says why
    there is none.
    """
    here, name = _current(), thing.__qualname__
    try:
        plugin = of(thing)
        assert plugin is not None
        wanted = "Options" if isinstance(thing, type) else name
        if vars(sys.modules[plugin.module]).get(wanted) is not thing:
            found = f"is of {name}, which {plugin.path} does not have under the name {wanted}"
            raise InputError("name", found, "give it that name, at the top of a file of its own")
        if not outside(plugin.given):
            found = f"is of {name} in {plugin.given}"
            raise InputError("name", found, "put it into a module with a dotted name, or a file")
    except InputError as error:
        unwritten(error)
        return f"{thing.__module__}:{name}"
    here.used[plugin.module] = plugin
    return here.name(plugin) + ("" if isinstance(thing, type) else f":{name}")


class Written(NamedTuple):
    """An experiment or a plan as a folder keeps it, with the plug-ins that it is made of."""

    table: dict[str, Any]  # as plain values
    toml: str  # a comment says so, and why, if it cannot be read back
    plugins: list[dict[str, str]]  # path and digest of each
    sources: dict[str, bytes]  # the files that have to lie next to it, by name


def written(to_table: Callable[[], dict[str, Any]]) -> Written:
    """What `to_table` gives, never refused: plug-ins of one file are named as copies next to it."""
    import tomli_w

    with naming(_copy, lenient=True) as named:
        table = to_table()
    text = tomli_w.dumps(table)
    if named.nameless:
        reasons = "".join(f"#   {line}\n" for line in dict.fromkeys(named.nameless))
        text = (
            f"# This file cannot be read back: it does not hold all that was used.\n{reasons}{text}"
        )
    used = list(named.used.values())
    sources = {_file(p): p.source for p in used if p.source is not None}
    return Written(table, text, [p.about() for p in used], sources)


def _file(plugin: Plugin) -> str:
    mark = f"-{plugin.digest[:8]}"
    return f"{Path(plugin.path).stem.removesuffix(mark)}{mark}.py"


def _copy(plugin: Plugin) -> str:
    return plugin.given if plugin.source is None else f"./{_file(plugin)}"


# What fails in it.

# Functions of theirs may be used as plug-ins, but what fails in them is seldom their own fault.
_TRUSTED = {*sys.stdlib_module_names, "numpy"}


def blamed(error: BaseException) -> InputError | None:
    """An error of a plug-in's code as one that names its line; None if it is of other code."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_foreign(f.filename)]
    if not frames or isinstance(error, InputError):
        return None
    last = frames[-1]
    found = f"{last.filename}:{last.lineno}: {last.name} failed with {brief(error)}"
    return InputError("", found, "this is in the plug-in: correct it there, or try `psofed check`")


def _is_foreign(filename: str) -> bool:
    """Whether a file is a plug-in, or lies in the package of one."""
    for plugin in loaded.values():
        if filename == plugin.path:
            return True
        inside = plugin.source is None and plugin.module.split(".")[0] not in _TRUSTED
        if inside and Path(plugin.path).parent in Path(filename).parents:
            return True
    return False
