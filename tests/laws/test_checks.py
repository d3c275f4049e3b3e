"""`psofed check`: what is right passes, and each mistake is noticed by its rule."""

from pkgutil import resolve_name

import pytest

from helpers.skeletons import put
from psofed.cli.laws.rules import subject

KINDS = ("method", "stream", "policy", "learner", "attack", "defence")


@pytest.mark.parametrize("kind", KINDS)
def test_the_skeleton_that_init_writes_passes_the_check(kind, psofed, works, tmp_path):
    done = psofed("init", "mine.py", "--preset", kind)
    assert done.stdout == "Wrote mine.py. Try its rules with: psofed check mine.py\n"
    done = works("check", "mine.py")
    assert " 0 failed, " in done.stdout
    assert done.stdout.splitlines()[0].startswith(f"mine.py: {kind} mine with ")
    assert done.stdout.endswith("Every rule holds.\n")
    base = resolve_name(done.stdout.partition(" derives from ")[2].split()[0])
    assert subject(str(tmp_path / "mine.py")).contract.base is base


def test_a_setting_can_be_chosen(works, tmp_path):
    put(tmp_path)
    done = works("check", "mine.py:gain=0.5")
    first, *lines = done.stdout.splitlines()
    assert first == "mine.py:gain=0.5: method mine with average=False, gain=0.5"
    (other,) = [line for line in lines[:-1] if not line.startswith("  ok")]
    assert other.endswith(": its handlers have one client at a time")


MUTANTS = [
    ("method", ('self.learner.learn(client["w"], z, y, self.step)', 'self.gain *= 0.9\n        self.learner.learn(client["w"], z, y, self.gain)'), "A state that is saved and loaded"),
    ("method", ("    entrywise = True\n", ""), "Decoding gives back"),
    ("method", ("    entrywise = True\n", "    encode = lambda self, values, up: values[::-1].tobytes()\n"), "Decoding gives back"),
    ("method", ('server["w"].copy()', 'server["w"] + k'), "A common download is the same"),
    ("method", ('return client["w"].copy()', 'return client["w"].copy() + 1e-3'), "Targets of zero"),
    ("method", ('server["w"] += self.gain * sum(changes)', 'server["w"][:] = sum(weights[k] * model for k, model in uploads.items())'), "A fold is linear"),
    ("method", ('self.learner.learn(client["w"], z, y, self.step)', "pass"), "Deployed, it gives the models"),
    ("method", ('self.learner.learn(client["w"], z, y, self.step)', 'import numpy as np\n        self.learner.learn(client["w"], z, y, np.random.rand())'), "The same seed gives the same bits"),
    ("method", ('return server["w"].copy()', "return 1 / 0"), "Deployed, it gives the models"),
    ("stream", ('return streams.Samples(x, f(x), np.sqrt(self.noise)', 'return streams.Samples(x, np.cos(x[:, 0]), np.sqrt(self.noise)'), "The test set is of the function that is learned"),
    ("stream", ("block = seeds.normals(\"mine\", clients, numbers * BLOCK, round=n // BLOCK)", "block = np.random.default_rng(stop).standard_normal((len(clients), numbers * BLOCK))"), "More rounds or more clients"),
    ("stream", ("noise = np.asarray(np.sqrt(self.noise), dtype)", "noise = np.sqrt(np.float64(self.noise))"), "Samples have x [K, N, L]"),
    ("stream", ("seeds.world.generator(purpose)", "seeds.generator(purpose)"), "Runs of one world share"),
    ("stream", ("seeds.world.generator(purpose)", 'seeds.world.generator("mine")'), "Runs of one world share"),
    ("policy", ("sorted(order[: self.size].tolist())", "order[: self.size].tolist()"), "Members and weights"),
    ("policy", ("1 / len(scores)", "score_sum"), "Members and weights"),
    ("policy", ("sound(score)", "score"), "Scores that are infinite"),
    ("policy", ('luck = self.seeds', 'self.seen = getattr(self, "seen", 0) + 1\n        luck = (1 + self.seen % 7) * self.seeds.uniforms("more", round=self.seen, count=self.clients) * self.seeds'), "Its state is a dict of arrays"),
    ("learner", ("w += ", "w = w + "), "Arrays have the shapes"),
    ("learner", ("return error", "return -error"), "Arrays have the shapes"),
    ("learner", ("self.gain * step", "-self.gain * step"), "A step makes the error smaller"),
    ("learner", ("return z @ w if w.ndim == 1 else np.vecdot(w, z)", "return (z @ w if w.ndim == 1 else np.vecdot(w, z)).astype(np.float64)"), "The precision of a model is kept"),
    ("attack", ("* w_k)", "* w_k + np.random.rand())"), "What is sent follows from the seed"),
    ("attack", ("return w_k\n", "w_k += 1\n            return w_k\n"), "What is sent follows from the seed"),
    ("attack", (".astype(w_k.dtype)", ".astype(np.float64)"), "What is sent follows from the seed"),
    ("attack", ("* w_k)", "/ (bad.sum() - 2) * w_k)"), "What is sent follows from the seed"),
    ("attack", ("* w_k)", "* w_k.mean(axis=-2, keepdims=True) + 0 * w_k)"), "Deployed clients that are malicious"),
    ("attack", ("* w_k)", "* w_k + (w_k.ndim > 2))"), "Several runs computed at once"),
    ("defence", ('{"clipped": np.zeros(self.setting.places)}', '{"clipped": [0.0] * self.setting.places}'), "Its state is a dict of arrays"),
    ("defence", ("left = np.clip", "self.seen = getattr(self, 'seen', 0) + 1\n        most = most / self.seen\n        left = np.clip"), "Its state is a dict of arrays"),
    ("defence", ("np.clip(changes, -most, most)", "np.clip(changes, -most, most, out=changes)"), "Its arguments stay as they are"),
    ("defence", ("np.clip(changes, -most, most)", "0.999 * np.clip(changes, -most, most)"), "Small changes of one size"),
    ("defence", ("np.clip(changes, -most, most)", "np.maximum(changes, -most)"), "Whatever one of six members sends"),
    ("defence", ("np.clip(changes, -most, most)", "np.clip(changes, -most, most - changes.max() / 9)"), "Several runs at once"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "change", "rule"), MUTANTS)
def test_a_mistake_is_noticed_by_its_rule(tmp_path, kind, change, rule):
    verdicts = subject(str(put(tmp_path, change, kind=kind))).verdicts()  # tried one by one
    assert any(v.outcome == "failed" and v.rule.startswith(rule) for v in verdicts)


NAME = '    name: ClassVar[str] = "mine"'
INIT = (
    "    options: Options\n",
    "    def __init__(self, options, federation):\n        self.options = options\n",
)
MISSING = [
    *((kind, (NAME, "    pass"), "name: ClassVar[str] = ...") for kind in KINDS),
    ("method", ("def fold(", "def folds("), "it has no fold"),
    ("stream", ("    taps: ClassVar[int] = 3", "    three: ClassVar[int] = 3"), "it has no taps"),
    ("learner", ("def predict(", "def predicts("), "it has no predict"),
    ("policy", INIT, "__init__ does not set size or clients or seeds"),
    ("method", ("super().__init__(options, task)", "pass"), "__init__ does not set task or step or pace"),
    ("policy", ("return policies.Invited(sorted(order[: self.size].tolist()))", "return [1]"), "invite returns a list, not Invited"),
    ("policy", ("class Policy(policies.Policy)", "class Policy"), "it has Policy(), not Policy(options, federation)"),
    ("policy", ("n: int, scores:", "scores:"), "admit(self, state, scores), not admit(self, state, n, scores)"),
    ("policy", ('= "server"', '= "servers"'), 'scores is \'servers\'; use "none" or "server"'),
    ("method", ('delivery = "common"', 'delivery = "comon"'), "delivery is 'comon'; use"),
    ("attack", ('= "values"', '= "value"'), 'on is \'value\'; use "values" or "labels"'),
    ("attack", ("def models(", "def model("), "it has no mix or offset or models or samples"),
    ("learner", ("def learn(", "def learns("), "it has no direction or both or learn"),
    ("attack", (".astype(w_k.dtype)", ".all()"), "models returns a bool, not real numbers of shape [2, 8]"),
    ("defence", ("return left", "pass"), "defended() gives None, not numbers of shape [6, 4]"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "change", "found"), MISSING)
def test_the_check_names_what_is_missing(psofed, tmp_path, kind, change, found):
    put(tmp_path, change, kind=kind)
    done = psofed("check", "mine.py")
    assert (done.returncode, found in done.stdout) == (1, True), done
    assert "AttributeError" not in done.stdout


def test_a_method_declares_which_rule_cannot_hold_for_it(tmp_path):
    mean = 'server["w"][:] = sum(weights[k] * model for k, model in uploads.items())'
    path = put(tmp_path, ('server["w"] += self.gain * sum(changes)', mean))
    text = path.read_text()
    at = text.index("class Options")
    path.write_text(
        text[:at] + text[at:].replace("\n", '\n    exempt = ("folds_are_linear",)\n', 1)
    )
    (line,) = [
        v.line() for v in subject(str(path)).verdicts() if v.rule.startswith("A fold is lin")
    ]
    assert line.startswith("not applicable")
    assert line.endswith("its options exempt it")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "nothing.py"], "cannot be read"),
        (["check", "psofd"], "did you mean 'psofed'?"),
        (["check", "empty.py"], "has no class Options"),
        (["check", "other.py"], "derive from none of"),
        (["check", "mine.py:gan=1"], "did you mean 'gain'?"),
        (["check", "needs.py"], "give all fields a default"),
        (["check", "mine.py:gain=7"], "use a number above 0, at most 1"),
        (["init"], "Missing argument 'FILE'"),
        (["init", "b.txt", "--preset", "method"], "ends in .py"),
        (["init", "mine.py", "--preset", "method"], "exists already"),
    ],
)
def test_wrong_input_is_refused(psofed, tmp_path, arguments, words):
    put(tmp_path)
    put(tmp_path, ("gain: float = 1.0", "gain: float"), name="needs.py")
    (tmp_path / "empty.py").write_text("")
    text = "from dataclasses import dataclass\nfrom psofed.federation.schema import Named\n"
    (tmp_path / "other.py").write_text(text + "@dataclass(frozen=True)\nclass Options(Named): pass")
    done = psofed(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
