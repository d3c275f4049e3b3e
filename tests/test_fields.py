"""What the fields of experiments and options may be given as, and their types to a user's mypy."""

import pytest

import psofed
from helpers.mistakes import refused
from psofed.tables.plan import Columns, Plan

test_a_field_that_is_guessed_is_answered_with_the_one_that_is_meant = refused({
    "K is not a field of Experiment; write clients=": lambda: psofed.Experiment(K=30),
    "D is not a field of Experiment; write features=psofed.Features(dim=...)": lambda: psofed.Experiment(D=30),
    "M is not a field of Experiment; it is a field of psofed.PSOFed: shared": lambda: psofed.Experiment(M=5),
    "M is not a field of PSOFed; write shared=": lambda: psofed.PSOFed(M=5),
    "tau is not a field of PSOFed; write shift=": lambda: psofed.PSOFed(tau=5),
    "K is not a field of PSOFed; it is a field of psofed.Experiment: clients": lambda: psofed.PSOFed(K=5),
    "shred is not a field of PSOFed; did you mean 'shared'?": lambda: psofed.PSOFed(shred=5),
    "sigma is not a field of Features; write width=": lambda: psofed.Features(sigma=5),
    "features is 50; write psofed.Features(dim=50)": lambda: psofed.Experiment(features=50),
    "stream is 'iid'...write psofed.PaperStream(inputs=\"iid\")": lambda: psofed.Experiment(stream="iid"),
    "stream.name is 'papr', which does not exist; did you mean 'paper'?": lambda: psofed.Experiment(stream="papr"),
    "learner is 3; give an object, or its name: linear, lms, nlms": lambda: psofed.Experiment(learner=3),
    "methods is 3; give a list of methods": lambda: psofed.Experiment(methods=3),
    "methods is ...; give a list such as [FedAvg()]": lambda: psofed.Experiment(methods=psofed.FedAvg),
    "methods[0] is the class FedAvg; write FedAvg()": lambda: psofed.Experiment(methods=[psofed.FedAvg]),
    "mix is 'yes'; use True, or MixOptions": lambda: psofed.Experiment(mix="yes"),
})  # fmt: skip


@pytest.mark.parametrize("methods", [psofed.FedAvg(), "fedavg", ["fedavg"], {"name": "fedavg"}])
def test_what_is_alone_or_has_a_name_need_not_be_more(methods):
    made = psofed.Experiment(methods=methods, stream="paper", defence="clip", mix=True)
    assert (made.methods, made.stream) == ((psofed.FedAvg(),), psofed.PaperStream())
    assert made.defence == psofed.defences.Clip()
    assert Plan(Columns("y", ("t",)), check="outliers").check == psofed.checks.Outliers()


USER = """
import numpy as np
import psofed

fed = psofed.Federation(inputs=4, clients=["a", "b"], method=psofed.PSOFed(shared=40))
fed.learn_one("a", np.zeros(4), 1.0)
said: float = fed.predict_one("a", {"x": 1.0})
bytes_up: int = fed.traffic.up
curves = psofed.run(psofed.Experiment(runs=1, rounds=10, methods=(psofed.OnlineFed(),)))
steady: float = curves.point(0, "steady").value
reveal_type(fed.model)
psofed.Experiment(rounds="many")
"""


def test_a_users_file_is_checked_by_mypy(tmp_path):
    """The package says that it is typed, and types are those of the objects."""
    (tmp_path / "mine.py").write_text(USER)
    api = pytest.importorskip("mypy.api")
    cache = f"--cache-dir={tmp_path / 'cache'}"
    out, _, _ = api.run(["--strict", "--config-file=", cache, str(tmp_path / "mine.py")])
    wrong, revealed = [], ""
    for line in out.splitlines():
        wrong += [line] if " error: " in line else []
        revealed += line if "Revealed type" in line else ""
    assert len(wrong) == 1, out
    assert '"rounds" to "Experiment" has incompatible type "str"; expected "int"' in wrong[0]
    assert "ndarray" in revealed
