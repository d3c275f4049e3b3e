"""The documentation site: it builds without a warning, all of its links lead somewhere, and it
opens without a network."""

import re
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import build_site as site
import pytest
import site_api
from site_api import restructured

from helpers import ROOT
from helpers.pages import PAGES, prose
from psofed.errors import InputError
from psofed.report import playground

LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(path):
    """The anchors of a Markdown page as a code host makes them."""
    found = []
    for title in re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        found.append(plain if plain not in found else f"{plain}-{found.count(plain)}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere_on_a_code_host(page):
    for link in LINK.findall(prose(page)):
        parts = urlsplit(link)
        if parts.scheme:
            assert parts.scheme == "https", link
            assert re.fullmatch(r"[\w.-]+\.[a-z]+", parts.netloc), link
            continue
        target = (page.parent / parts.path).resolve() if parts.path else page
        assert target.exists(), f"{page.name}: {link}"
        assert target.is_relative_to(ROOT), f"{page.name}: {link}"
        if parts.fragment:
            assert parts.fragment in anchors(target), f"{page.name}: {link}"


class Page(HTMLParser):
    """What a page of HTML asks for, links to and can be linked at."""

    def __init__(self, path):
        super().__init__()
        self.loads, self.links, self.ids = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids |= {attrs[key] for key in ("id", "name") if attrs.get(key)}
        if (tag == "a" and attrs.get("href")) or (
            tag == "link" and attrs.get("rel") in ("search", "next", "prev", "index")
        ):
            self.links.append(attrs["href"])
        elif tag in ("script", "img", "iframe", "source", "object", "embed", "video", "link"):
            self.loads += [attrs[key] for key in ("src", "href", "data") if attrs.get(key)]


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The site, built once for all tests; any warning would fail it."""
    for name in site.NEEDS:
        pytest.importorskip(name)
    folder = tmp_path_factory.mktemp("docs") / "site"
    site.build(ROOT / "docs", folder)
    return folder


@pytest.fixture(scope="session")
def html(built):
    return {path: Page(path) for path in built.rglob("*.html")}


def test_every_page_of_the_folder_is_on_the_site(built, html):
    for page in PAGES:
        text = (built / f"{page.stem.lower()}.html").read_text(encoding="utf-8")
        assert 'class="sphinxsidebar"' in text, page.name
    menu = html[built / "index.html"].links
    for page in (ROOT / "docs").glob("*.md"):
        assert f"{page.stem}.html" in menu or page.stem == "index", page.name


def test_a_page_that_is_html_already_is_kept_beside_the_page_about_it(built, html):
    assert (built / "_static" / site.PLAYGROUND).read_text() == playground.render()
    for path in (ROOT / "docs").glob("*.html"):
        assert (built / "_static" / path.name).read_bytes() == path.read_bytes()
        assert f"_static/{path.name}" in html[built / path.name].links


def test_pages_of_the_site_load_nothing_from_elsewhere(html):
    for path, page in html.items():
        for address in page.loads:
            assert not urlsplit(address).scheme or address.startswith("data:"), f"{path}: {address}"
            assert not address.startswith("//"), f"{path}: {address}"


def test_links_of_the_site_lead_somewhere(built, html):
    for path, page in html.items():
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path.relative_to(built)}: {link}"
            if parts.fragment and target in html:
                assert unquote(parts.fragment) in html[target].ids, f"{path.name}: {link}"


def test_the_site_names_no_folder_of_the_machine_that_built_it(built):
    for path in built.rglob("*.*"):
        if path.suffix in (".html", ".js", ".css"):
            text = path.read_text(encoding="utf-8")
            assert "psofed-site-" not in text, path
            assert not re.search(r"object at 0x[0-9a-f]{6}", text), path


def test_no_markup_of_sphinx_is_left_in_the_text(built):
    for path in built.rglob("*.html"):
        text = re.sub(
            r"<(pre|script)\b.*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL
        )
        found = re.search(r"(\.\. [a-z-]+::|\{py:|\{eval-rst)[^<]*", text)
        assert not found or "_modules" in path.parts, f"{path.name}: {found}"


def test_the_reference_has_the_verbs_and_the_functions(built, html):
    assert {"cmdoption-psofed-run-runs", "psofed-deploy-keys-make"} <= html[built / "cli.html"].ids
    core = html[built / "api" / "psofed.core.html"].ids
    assert {"psofed.core.equations.fold", "psofed.core.equations.lms"} <= core
    known = {name for page in html.values() for name in page.ids}
    for name, home in site_api.public().items():
        assert ".".join(home) in known, name


def test_the_search_box_works_without_a_network(tab, built):
    page = tab(built / "index.html", allow=built.as_uri())
    page.locator("input[name=q]").first.fill("partial sharing")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results li a")
    page.goto(built.joinpath("search.html").as_uri() + "?q=lorawan")
    page.wait_for_selector("#search-results li a")
    assert any(
        "tables" in a
        for a in page.locator("#search-results li a").evaluate_all("(l) => l.map((a) => a.href)")
    )


@pytest.mark.parametrize("name", ["index", "paper", "cli"])
def test_a_page_fits_the_width_of_a_screen(tab, built, name):
    page = tab(built / f"{name}.html", allow=built.as_uri())
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("[innerWidth, document.documentElement.scrollWidth]") == [width, width]


def test_a_folder_that_is_no_site_is_not_replaced(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="not empty"):
        site.build(ROOT / "docs", tmp_path)
    assert (tmp_path / "thesis.tex").exists()


def test_what_is_missing_is_said_with_the_way_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(site, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"python3 dev\.py docs"):
        site.build(ROOT / "docs", tmp_path / "site")


def test_a_mistake_in_a_page_is_reported_with_its_place(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "conf.py").write_text("extensions = ['myst_parser']\n")
    (source / "index.md").write_text("# A\n\n[b](missing.md)\n")
    with pytest.raises(RuntimeError, match=r"(?s)index\.md.*missing\.md"):
        site._run_sphinx(source, tmp_path / "html", tmp_path / "trees")


def test_a_docstring_with_a_list_and_a_formula_keeps_them():
    shown = restructured(["See:", "", "- one `two`", "  three_four", "", "    x = |y|", "    z"])
    wanted = "See:\n\n- one ``two``\n  three\\_four\n\n::\n\n    x = |y|\n    z\n"
    assert "\n".join(shown) == wanted
