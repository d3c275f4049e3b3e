"""A mistake in an experiment file, and the line that names it."""

import pytest

from psofed import experiment
from psofed.errors import InputError


def is_named(text, says, folder):
    """Whether reading the file is refused with its path, the field and the remedy."""
    path = folder / "wrong.toml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        experiment.read(path)
    return str(error.value).startswith(f"{path}: {says}")
