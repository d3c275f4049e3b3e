"""Modules from outside the package: found, told apart, named when they fail, sent to workers."""

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from psofed.errors import InputError
from psofed.federation import plugins, schema
from psofed.federation.workers import Packed, pack


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    return write


@pytest.fixture
def inside(tmp_path):
    with plugins.relative_to(tmp_path):
        yield tmp_path


def refusal(text, read=plugins.module):
    with pytest.raises(InputError) as caught:
        read(text)
    return str(caught.value)


def test_a_file_is_relative_to_the_file_that_names_it_not_to_the_working_folder(
    write, tmp_path, monkeypatch
):
    write("here/mine.py", "x = 1")
    write("there/mine.py", "x = 2")
    monkeypatch.chdir(tmp_path / "there")
    assert plugins.module("./mine.py").x == 2
    with plugins.relative_to(tmp_path / "here"):
        assert plugins.module("./mine.py").x == 1
        assert plugins.module("mine.py").x == 1
        assert plugins.module(str(tmp_path / "there" / "mine.py")).x == 2


def test_two_files_of_one_name_do_not_meet_and_an_edited_one_is_read_again(write, inside):
    write("a/mine.py", "class C: x = 1")
    write("b/mine.py", "class C: x = 2")
    a, b = plugins.module("a/mine.py"), plugins.module("b/mine.py")
    assert (a.C.x, b.C.x) == (1, 2)
    assert plugins.module("a/mine.py") is a
    write("a/mine.py", "class C: x = 3")
    assert plugins.module("a/mine.py").C.x == 3
    assert plugins.of(a.C).digest != plugins.of(plugins.module("a/mine.py").C).digest
    assert sys.modules[a.C.__module__] is a  # what was made of it goes on with it


def test_paths_with_spaces_links_and_other_encodings_work_and_a_binary_file_is_refused(
    write, inside
):
    path = write("my folder/my method-1.py", "x = 1")
    assert plugins.module("./my folder/my method-1.py").x == 1
    (inside / "link.py").symlink_to(path)
    assert plugins.module("./link.py").x == 1
    (inside / "mine.py").write_bytes("# coding: latin-1\nx = 'é'".encode("latin-1"))
    assert plugins.module("./mine.py").x == "é"
    (inside / "mine.py").write_bytes(b"\xff\xfe\x00")
    assert "is not Python" in refusal("./mine.py")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("./nothing.py", "cannot be read: No such file"),
        ("./folder", "cannot be read: Is a directory"),
        ("./notes.txt", "notes.txt:1: "),
        ("a-b.c", 'as in "./mine.py"'),
        ("no_such_package.signs", "no module 'no_such_package'"),
        ("numpy.no_such_module", "no module 'numpy.no_such_module'"),
    ],
)
def test_what_is_no_file_is_refused_with_what_would_be_right(write, inside, text, words):
    (inside / "folder").mkdir()
    write("notes.txt", "some notes")
    assert words in refusal(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\ndef f(:\n", "mine.py:2: "),
        ("\n\nimport no_such_thing", "mine.py:3: ModuleNotFoundError"),
        ("x = 1\n1 / 0", "mine.py:2: ZeroDivisionError: division by zero"),
        ("def f():\n    raise ValueError\nf()", "mine.py:2: ValueError"),
        ("import sys\nsys.exit(3)", "mine.py:2: SystemExit"),
        ("import json\njson.loads('{')", "mine.py:2: JSONDecodeError"),
        ("x = '\0'", "mine.py"),
        ("from helper import x", "what lies next to a file has to be in that file"),
    ],
)
def test_an_error_in_the_file_is_named_with_its_line(write, inside, text, words):
    write("helper.py", "x = 1")
    write("mine.py", text)
    said = refusal("./mine.py")
    assert words in said
    assert "\n" not in said
    assert refusal("./mine.py") == said  # nothing half imported is left


def test_an_attribute_is_found_in_a_file_or_a_package(write, inside):
    write("mine.py", "def f(x): return x")
    assert plugins.attribute("./mine.py:f")(3) == 3
    assert plugins.attribute("math:sqrt")(9) == 3
    for text in ("./mine.py", "./mine.py:", ":f", "./mine.py:a b"):
        assert 'as in "./mine.py:f"' in refusal(text, plugins.attribute)
    assert "did you mean 'f'?" in refusal("./mine.py:ff", plugins.attribute)


def test_ours_come_first_then_entry_points(write, inside, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(inside)])
    write("theirs/__init__.py", "")
    write("theirs/signs.py", "class Options: pass")
    write("theirs-1.2.dist-info/METADATA", "Name: theirs\nVersion: 1.2\n")
    points = "[psofed.methods]\nsigns = theirs.signs\nfedavg = theirs.signs\nodd = math:sqrt\n"
    write("theirs-1.2.dist-info/entry_points.txt", points)
    assert schema.load("psofed.methods", "signs").__name__ == "theirs.signs"
    assert plugins.of(schema.load("psofed.methods", "signs").Options).given == "theirs.signs"
    assert schema.load("psofed.methods", "fedavg").__name__ == "psofed.methods.fedavg"
    assert "math:sqrt" in refusal("odd", lambda name: schema.load("psofed.methods", name))
    write("others-1.0.dist-info/METADATA", "Name: others\nVersion: 1.0\n")
    write("others-1.0.dist-info/entry_points.txt", "[psofed.methods]\nsigns = others.signs\n")
    said = refusal("signs", lambda name: schema.load("psofed.methods", name))
    assert "both others.signs and theirs.signs" in said


def test_a_bare_name_is_never_a_file_but_the_file_is_named(write, inside):
    write("signs.py", "")
    said = refusal("signs", lambda name: schema.load("psofed.methods", name))
    assert said.endswith('write "./signs.py"')


def test_ours_and_what_a_notebook_makes_have_no_file():
    from psofed.methods import fedavg

    assert plugins.of(fedavg.Options) is None
    made = type("Options", (), {"__module__": "__main__"})
    with pytest.raises(InputError, match="in a notebook or a script"):
        plugins.of(made)


def test_another_process_gets_the_source_with_the_objects(write, inside):
    """A process that has never seen the file, which is no longer there."""
    path = write(
        "mine.py",
        "class C:\n    def __init__(self, x): self.x = x\n    def f(self): return 1 / self.x\n",
    )
    packed = pack([plugins.module("./mine.py").C(0)])
    (inside / "packed").write_bytes(__import__("pickle").dumps(packed))
    path.unlink()
    code = """
        import pickle, sys, traceback
        thing = pickle.loads(open(sys.argv[1], "rb").read())
        assert not any("mine" in name for name in sys.modules)
        try:
            thing.unpack()[0].f()
        except ZeroDivisionError:
            print(traceback.format_exc())
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(inside / "packed")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "def f(self): return 1 / self.x" in done.stdout


def test_a_process_with_another_version_of_a_package_refuses_it(write, inside, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(inside)])
    write("versioned/__init__.py", "class C: pass")
    __import__("versioned")
    thing = sys.modules["versioned"].C()
    plugins.of(type(thing))
    packed = pack(thing)
    assert type(packed.unpack()) is type(thing)
    (other,) = packed.sources
    altered = Packed(packed.data, (replace(other, digest="0"),))
    with pytest.raises(InputError, match="install the same everywhere"):
        altered.unpack()


def test_a_module_knows_its_version_and_a_bare_package_is_not_written(write, inside, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(inside)])
    write("bare_pack/__init__.py", "class Options: pass")
    write("bare-1.2.dist-info/METADATA", "Name: bare\nVersion: 1.2\n")
    write("bare-1.2.dist-info/top_level.txt", "bare_pack\n")
    bare = __import__("bare_pack")
    assert plugins.of(bare.Options).version == "bare 1.2"
    with pytest.raises(InputError, match="put it into a module with a dotted name"):
        plugins.spelled(bare.Options)


def test_threads_that_load_a_file_at_once_get_the_same_module(write, inside):
    text = "import time\nclass A: pass\ntime.sleep(0.05)\nclass B: pass"
    path = str(write("mine.py", text))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(plugins.module, [path] * 4))
    assert all(one is found[0] for one in found)
    assert found[0].B
