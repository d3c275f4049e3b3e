"""How Sphinx makes the site; `python3 dev.py docs` calls it on a copy of this folder."""

import gc
import sys
from importlib.util import find_spec
from pathlib import Path

import psofed

sys.path.insert(0, str(Path(__file__).parent / "_tools"))
import formulas
import site_api

gc.set_threshold(200_000, 20, 100)  # trees of pages live long: looking for rubbish takes a fifth

project = "psofed"
author = copyright = "the psofed authors"
version = release = psofed.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_click"]
highlight_language = "text"
show_warning_types = True

myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
html_math_renderer = "matplotlib"
# "site" is a file of the site that is no Markdown, such as playground.html.
myst_url_schemes = {"http": None, "https": None, "site": "{{path}}"}

html_theme = "alabaster"
html_theme_options = {
    "description": "Online federated learning when every byte counts",
    "fixed_sidebar": True,
    "font_family": "system-ui, sans-serif",
    "page_width": "72rem",
    "sidebar_width": "16rem",
    "body_max_width": "52rem",
    "show_powered_by": False,
}
html_sidebars = {"**": ["about.html", "searchbox.html", "navigation.html"]}
html_title = "psofed"
html_static_path = ["_static"]
html_css_files = ["psofed.css"]
html_copy_source = False
html_show_search_summary = False  # it would fetch pages, which a browser refuses to a local file
html_show_sphinx = False
html_show_copyright = False

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_use_type_comments = False  # there are none, and looking for them reads every source again
autodoc_typehints_format = "short"
# Extras that are not installed are not needed to describe what uses them.
autodoc_mock_imports = [
    name
    for name in ("matplotlib", "pandas", "pyarrow", "sklearn", "river", "paho",
                 "cryptography", "prometheus_client")
    if find_spec(name) is None
]  # fmt: skip
add_module_names = False
toc_object_entries = False  # the menu of every page would hold them all
# Several modules have an `Options`; in a signature any of them may be meant.
suppress_warnings = ["ref.python"]
python_maximum_signature_line_length = 88
# Types of other libraries, and those that users never name, have no page here.
nitpick_ignore_regex = [("py:(?!mod).*", ".*")]


def setup(app):
    """Called by Sphinx."""
    site_api.set_up(app)
    formulas.set_up(app)
