"""`psofed cite`: the paper and this software, as BibTeX."""

from __future__ import annotations

import click

from psofed import __version__

PAPER = """@inproceedings{gogineni2022pso,
  author    = {Gogineni, Vinay Chakravarthi and Werner, Stefan and Huang, Yih-Fang and
               Kuh, Anthony},
  title     = {Communication-Efficient Online Federated Learning Framework for Nonlinear
               Regression},
  booktitle = {ICASSP 2022},
  year      = {2022},
  eprint    = {2110.06556},
  archiveprefix = {arXiv}
}"""
SOFTWARE = """@software{psofed,
  author  = {{The psofed developers}},
  title   = {psofed: online federated learning of nonlinear regression when every byte counts},
  version = {VERSION}
}"""


@click.command()
def cite() -> None:
    """Print the paper and this software as BibTeX, for your references."""
    print(f"{PAPER}\n\n{SOFTWARE.replace('VERSION', __version__)}")
