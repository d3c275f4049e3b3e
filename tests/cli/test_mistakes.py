"""What is typed or written wrong is one line that names it, and nothing is written."""

import shlex

import pytest
import tomli_w

from helpers.command import wrong

RUN = {
    "clients": 10, "rounds": 40, "runs": 3, "cohort": 3, "test_samples": 20, "features": {"dim": 6},
    "methods": [{"name": "psofed", "shared": 3}, {"name": "raw"}],
}  # fmt: skip
FILES = {
    "run.toml": tomli_w.dumps(RUN).encode(),
    "attacked.toml": b'[attack]\nname = "scale"\nshare = 0.5\n[[methods]]\nname = "psofed"\n',
    "alone.toml": b'clients = 4\n[[methods]]\nname = "local"\n',
    "cut.toml": b'clients = 10\nname = "raw',
    "binary.toml": b"\xff\xfe\x00",
}
MISTAKES = [
    ("study attack run.toml --shares 0,x", "--shares is 'x', a text; use a number"),
    ("study attack run.toml --shares 0,1", "--shares has 1; use shares of the clients"),
    ("study attack run.toml --shares 0,0.01", "--shares have nobody of 10 clients in any; give one of 0.1"),
    ("study attack run.toml --attack scael", "--attack scael: name is 'scael'"),
    ("study attack run.toml --attack scale:fac=1", "--attack scale:fac=1: fac"),
    ("study attack run.toml --attack stuck:begin=-1", "attack.begin is -1"),
    ("study attack run.toml --defence krum", "defence.name is 'krum', which needs 5 members in a round"),
    ("study sweep run.toml --set shared", "--set is 'shared', which is not KEY=VALUE"),
    ("study sweep run.toml --set shared=", "--set is 'shared=', which is not KEY=VALUE"),
    ("study sweep run.toml --set shared=1,,2", "--set shared has an empty value"),
    ("study sweep run.toml --set methods.prox=1", "methods.prox is an option of none of these methods"),
    ("study sweep run.toml --set shared=1,99", "methods.shared is 99, but dim is 6"),
    ("study sweep run.toml --set features.name=cosine,sinus", "features.name is 'sinus'"),
    ("study sweep run.toml --set shared=1 --set shared=2", "is given twice"),
    ("study sweep run.toml --set step=0.2,big", "step is 'big', a text; use a number"),
    ("study theory alone.toml", "methods has none with a theory: Local only: the theory is that of"),
    ("study theory run.toml --set features.dim=2000", "run.toml: features.dim is 2000"),
    ("study theory attacked.toml", "attacked.toml: attack.name is 'scale', but the theory is that of honest"),
    ("study privacy nowhere.toml", "nowhere.toml: cannot be read: No such file"),
    ("compare --target nan", "--target is nan; use a number of dB"),
    ("compare --budget 1.2", "--budget is 1.2; use a share of Online-Fed's traffic"),
    ("reproduce --runs 0", "--runs is 0; use a number above 0"),
    ("run cut.toml", "cut.toml: is not TOML"),
    ("run binary.toml", "binary.toml: is not text"),
    ("run .", "cannot be read: Is a directory"),
    ("run run.toml --out run.toml/sub", "cannot be written: Not a directory"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "said"), MISTAKES, ids=[words for words, _ in MISTAKES])
def test_a_mistake_is_one_line_and_nothing_is_written(psofed, tmp_path, words, said):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    out = () if "--out" in words else ("--out", "out")
    done = psofed(*shlex.split(words), *out)
    wrong(done, said)
    assert len(done.stderr.splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == FILES.keys()
