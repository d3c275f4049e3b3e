"""The repository keeps the habits of Scientific Python, but for the listed ones."""

import re
import runpy
import tomllib

from helpers import ROOT
from helpers.extra import Extra

review, yaml = Extra("repo_review.processor"), Extra("yaml")


def test_the_review_passes_but_for_what_has_a_reason():
    results = review.process(ROOT, ignore={"NONE"}).results
    assert len(results) > 40
    failed = {check.name for check in results if check.result is False}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = project["tool"]["repo-review"]["ignore"]
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    reasons = re.findall(r"^\| ([A-Z]{2}\d{3}.*?) \|", text, re.M)
    assert failed == set(listed) == {code for row in reasons for code in row.split(", ")}


def test_the_hooks_are_the_checks_that_run_with_the_tests():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repo["repo"] for repo in config["repos"]] == ["local"]  # nothing is downloaded

    def tool(words):
        return [word.removeprefix(".venv/bin/") for word in words if not word.startswith("--")]

    hooks = [tool(hook["entry"].split()) for hook in config["repos"][0]["hooks"]]
    checks = runpy.run_path(str(ROOT / "dev.py"))["CHECKS"]
    assert hooks == [tool(word for word in check if word != ".") for check in checks]
