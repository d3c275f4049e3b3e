"""Real data, where it is at hand."""

import os
from pathlib import Path

from helpers import ROOT


def air_quality() -> Path | None:
    """The real table: in the folder that PSOFED_DATA names, or beside the project."""
    places = [os.environ.get("PSOFED_DATA", ""), str(ROOT.parent / "shared" / "data")]
    found = [Path(p) / "beijing_air_quality" for p in places if p]
    return next((p for p in found if p.is_dir()), None)
