"""Code from outside the package: a file, a module of an installed package, or its entry point.

A file is read anew each time it is named, and is a module of its own for each place and content:
two files of one name do not meet, and an edited file is another module, beside the old one, which
the objects made before keep. `workers.py` sends objects and their files to other processes.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import linecache
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any

from psofed.errors import InputError, nearest
from psofed.federation.plugins.known import Plugin, current, home, is_ours, loaded, unwritten

_folder: ContextVar[Path | None] = ContextVar("folder", default=None)
_refused: ContextVar[str] = ContextVar("refused", default="")
_lock = RLock()
CORRECT = "correct it there"


@contextmanager
def relative_to(folder: str | Path) -> Iterator[None]:
    """Names of files are relative to this folder, that of the file which is being read."""
    token = _folder.set(Path(folder))
    try:
        yield
    finally:
        _folder.reset(token)


@contextmanager
def refused(right: str) -> Iterator[None]:
    """Nothing from outside is imported in here: who only reads a result runs no code of others."""
    token = _refused.set(right)
    try:
        yield
    finally:
        _refused.reset(token)


def outside(text: object) -> bool:
    """Whether a text has the form of a file's path or of a dotted name.

    >>> outside("./signs.py"), outside("my_package.signs"), outside("signs")
    (True, True, False)
    """
    return isinstance(text, str) and (_is_path(text) or "." in text)


def beside(name: str) -> bool:
    """Whether the folder that names are relative to has such a file."""
    return ((_folder.get() or Path.cwd()) / name).is_file()


def _is_path(text: str) -> bool:
    return "/" in text or "\\" in text or text.endswith(".py")


def module(text: str, field: str = "name") -> ModuleType:
    """The module of "./signs.py" or "my_package.signs"; an InputError, at `field`, says why not."""
    if _refused.get():
        raise InputError(field, f"is {text!r}, code that is not imported here", _refused.get())
    try:
        return _from_file(text) if _is_path(text) else from_package(text)
    except InputError as error:
        raise error.inside(field) from None


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
    if "\\" in text:
        right = f"write slashes: {text.replace(chr(92), '/')!r}"
        raise InputError("", f"is {text!r}, with backslashes", right)
    named = Path.cwd() / (_folder.get() or "") / Path(text).expanduser()
    path = named.resolve()
    if not text.endswith(".py") or path.is_dir():
        found = f"is {text!r}, which is " + ("a folder" if path.is_dir() else "no Python file")
        raise InputError("", found, "give the path of a file that ends in .py")
    try:
        data = path.read_bytes()
    except OSError as error:
        found = f"is {text!r}, but {path} cannot be read: {error.strerror}"
        raise InputError("", found, _where_else(text)) from None
    digest = _digest(data)
    key = hashlib.blake2b(str(path).encode() + data, digest_size=6).hexdigest()
    name = f"psofed_plugin_{re.sub(r'[^0-9A-Za-z]', '_', named.stem)}_{key}"
    if name not in loaded:
        _alone(text, path, _decoded(text, data))
        execute(Plugin(path.as_posix(), name, str(named), digest, source=data), text)
    return sys.modules[name]


def _where_else(text: str) -> str:
    if _folder.get() is not None and Path(text).exists():
        return "a path is relative to the folder of the experiment file, not to the working folder"
    return "give the path of a file that exists"


def _decoded(text: str, source: bytes) -> str:
    try:
        return importlib.util.decode_source(source)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise InputError("", f"is {text!r}, which is not text: {error}", CORRECT) from None


def _alone(text: str, path: Path, source: str) -> None:
    """Refuse an import of a file beside it: results do not know it, workers do not have it."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError):
        return  # told when it is executed
    for node in nodes:
        if isinstance(node, ast.Import):
            found = any(_beside(path.parent, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found = node.level > 0 or _beside(path.parent, str(node.module).split(".")[0])
        else:
            continue
        if found:
            said = f"is {text!r}, whose line {node.lineno} imports a file beside it"
            right = "put all into one file, or into a package and give its dotted name"
            raise InputError("", said, right)


def _beside(folder: Path, name: str) -> bool:
    """Whether a name to import is that of a file or a folder here, and of nothing installed."""
    if name in sys.stdlib_module_names or name == "psofed":
        return False
    if not (folder / f"{name}.py").exists() and not list((folder / name).glob("*.py")):
        return False
    spec = importlib.util.find_spec(name)
    return spec is None or spec.origin is None or folder in Path(spec.origin).resolve().parents


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
    lines = _decoded(text, plugin.source).splitlines(keepends=True)
    linecache.cache[plugin.path] = len(plugin.source), None, lines, plugin.path
    sys.modules[plugin.module] = made  # dataclasses look there for the types of their fields
    try:
        exec(compile(plugin.source, plugin.path, "exec", dont_inherit=True), vars(made))
    except (Exception, SystemExit) as error:
        del sys.modules[plugin.module]
        right = "install it" if isinstance(error, ModuleNotFoundError) else CORRECT
        raise InputError("", f"is {text!r}, {_failed(error, plugin.path)}", right) from error


def _failed(error: BaseException, path: str) -> str:
    """Where and why an import failed: the last line of the file that was reached."""
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"which is not Python: {error.filename}:{error.lineno}: {error.msg}"
    lines = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    own = [f for f in lines if f.filename == path] or lines[-1:]
    return f"which cannot be imported: {own[-1].filename}:{own[-1].lineno}: {what}"


def from_package(text: str) -> ModuleType:
    """A module by its dotted name; the folder of the file that is read is searched, too."""
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", text):
        right = 'give a file, as in "./mine.py", or a dotted name, as in "my_package.mine"'
        raise InputError("", f"is {text!r}", right)
    root = str((_folder.get() or Path.cwd()).resolve())
    try:
        return _import(text, root)
    except ModuleNotFoundError as error:
        if error.name is None or not (text + ".").startswith(error.name + "."):
            raise InputError("", f"is {text!r}, {_failed(error, '')}", "install it") from error
        found = f"is {text!r}, but there is no module {error.name!r}"
        right = f"install its package, or put it beside the experiment file, in {root}"
        raise InputError("", found, right) from None
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError("", f"is {text!r}, {_failed(error, '')}", CORRECT) from error


def _import(text: str, root: str) -> ModuleType:
    try:
        made = import_module(text)
        root = ""
    except ModuleNotFoundError as error:
        if error.name is None or not (text + ".").startswith(error.name + "."):
            raise
        sys.path.append(root)  # at the end: nothing of Python's own is hidden by it
        importlib.invalidate_caches()
        try:
            made = import_module(text)
        except ImportError:
            sys.path.remove(root)
            raise
    now = replace(_described(made), root=root)
    was = loaded.setdefault(made.__name__, now)
    if was.digest != now.digest:
        found = f"is {text!r}, whose package, {now.path}, has changed since it was imported"
        raise InputError("", found, "start Python, or the notebook's kernel, again")
    return made


def _described(made: ModuleType) -> Plugin:
    """What is known of a module that Python itself has imported."""
    name, path = made.__name__, Path(made.__file__ or "")
    package = "." in name or path.name == "__init__.py"
    files = sorted(path.parent.rglob("*.py")) if package else []
    parts = [str(f.relative_to(path.parent)).encode() + f.read_bytes() for f in files]
    parts = parts or ([path.read_bytes()] if path.is_file() else [])
    plugin = Plugin(name, name, str(path), _digest(*parts))
    plugin = replace(plugin, version=version_of(name))
    if package or path.suffix != ".py" or name in sys.stdlib_module_names:
        return plugin
    source = None if plugin.version else path.read_bytes()
    return replace(plugin, given=path.resolve().as_posix(), source=source)


def _digest(*parts: bytes) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def entry(group: str, name: str) -> Any:
    """What an installed package offers under this name: a module, or something in it."""
    found = (point for point in _points(group, tuple(sys.path)) if point.name == name)
    values = sorted({point.value for point in found})
    if len(values) > 1:
        right = "uninstall one of them, or give the dotted name"
        raise InputError("name", f"is {name!r}, which is both {' and '.join(values)}", right)
    value = values[0].split("[")[0].strip()
    if ":" in value:
        return attribute(value)
    made = module(value)
    loaded[made.__name__] = replace(loaded[made.__name__], given=name)
    return made


def of(thing: Any) -> Plugin | None:
    """The plug-in that a class, a function or a module is from; None if it is one of ours.

    An InputError says why it cannot be found again: it was made in a notebook or in a script.
    """
    if is_ours(thing):
        return None
    where = home(thing)
    if where in loaded:
        return loaded[where]
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
    here = current()
    try:
        plugin = of(thing)
        assert plugin is not None
        made, name = sys.modules[plugin.module], thing.__qualname__
        wanted = "Options" if isinstance(thing, type) else name
        if vars(made).get(wanted) is not thing:
            found = f"is of {name}, which {plugin.path} does not have under the name {wanted}"
            raise InputError("name", found, "give it that name, at the top of a file of its own")
        if not outside(plugin.given) and not _offered(plugin.given):
            found = f"is of {name} in {plugin.given}"
            raise InputError("name", found, "put it into a module with a dotted name, or a file")
    except InputError as error:
        unwritten(error)
        return f"{thing.__module__}:{thing.__qualname__}"
    here.used[plugin.module] = plugin
    return here.name(plugin) + ("" if isinstance(thing, type) else f":{name}")


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


def entries(group: str) -> list[str]:
    """The names that installed packages give in this group of entry points."""
    return sorted({point.name for point in _points(group, tuple(sys.path))})


def _offered(name: str) -> bool:
    """Whether an installed package gives this name in any of psofed's groups."""
    return any(p.group.startswith("psofed.") for p in metadata.entry_points(name=name))
