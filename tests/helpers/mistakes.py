"""Mistakes, by the line that names each: tests of whole tables of them."""

import re

import pytest

from psofed import experiment
from psofed.errors import InputError


def refused(mistakes, act=lambda given: given()):
    """A test of each: who does that, or has it done by `act`, is told in one line that begins so.

    Three dots stand for any words.
    """

    @pytest.mark.parametrize("said", mistakes)
    def test(said):
        with pytest.raises(InputError) as error:
            act(mistakes[said])
        line = re.escape(said).replace(r"\.\.\.", ".*")
        assert re.match(line, str(error.value)), error.value
        assert "\n" not in str(error.value), error.value

    return test


def refused_in_files(mistakes):
    """A test of each text of an experiment file: its path, the field and the remedy are named."""

    @pytest.mark.parametrize("text", mistakes)
    def test(text, tmp_path):
        path = tmp_path / "wrong.toml"
        path.write_text(text)
        with pytest.raises(InputError) as error:
            experiment.read(path)
        assert str(error.value).startswith(f"{path}: {mistakes[text]}"), error.value

    return test
