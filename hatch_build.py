"""Build hook: compile src/psofed/core/native into libraries, one for each level of processors.

Without a C compiler the wheel is built without them, and psofed runs in NumPy alone. A build that
must have them fails if PSOFED_NATIVE=1 is set.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

NATIVE = Path(__file__).parent / "src" / "psofed" / "core" / "native"
# Sums keep the order in which they are written; only products and sums are fused.
FLAGS = ("-O3", "-shared", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast",
         "-Wall", "-Wextra", "-Wno-psabi")  # fmt: skip


def digest() -> str:
    """Of all that is compiled, as psofed/core/native/__init__.py has it, and of how."""
    found = hashlib.blake2b(digest_size=8)
    for path in sorted(NATIVE.glob("*.[ch]")):
        found.update(path.read_bytes())
    how = hashlib.blake2b(" ".join(FLAGS).encode(), digest_size=2)
    return f"{found.hexdigest()}-{how.hexdigest()}"


def build(compiler: str) -> None:
    """Compile the library for each level; a failure raises CalledProcessError."""
    x86 = platform.machine() in ("x86_64", "AMD64")
    levels = {"base": "x86-64", "v3": "x86-64-v3", "v4": "x86-64-v4"} if x86 else {"base": ""}
    files = sorted(map(str, NATIVE.glob("*.c")))
    # Some files have to round as NumPy does: clang sees the pragma that says so with this only.
    told = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    extra = ("-ffp-contract=on",) if "clang" in told.stdout else ()
    for level, march in levels.items():
        name = NATIVE / f"psofed-{level}.shared"
        if name.exists() and digest().encode() in name.read_bytes():
            continue
        part = name.with_suffix(".part")
        target = (f"-march={march}",) if march else ()
        source = f'-DSOURCE="{digest()}"'
        subprocess.check_call(
            [compiler, *FLAGS, *extra, *target, source, *files, "-o", str(part), "-lm"]
        )
        os.replace(part, name)  # a process that has the old one keeps it


class Native(BuildHookInterface):
    """Called by hatchling for wheels and editable installs."""

    PLUGIN_NAME = "custom"

    def commit(self) -> str:
        """That of the clone, marked if files have changed since; nothing of what is no clone."""
        git = ["git", "-C", self.root, "describe", "--always", "--dirty", "--exclude=*"]
        if not (Path(self.root) / ".git").exists() or not shutil.which("git"):
            return ""
        return subprocess.run(git, capture_output=True, text=True).stdout

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say for which machines the wheel then is, and of which commit."""
        if self.target_name != "wheel":
            return
        if version != "editable" and (commit := self.commit()):
            path = Path(tempfile.mkdtemp()) / "commit"
            path.write_text(commit)
            build_data["force_include"][str(path)] = "psofed/commit"
        known = (shutil.which(name) for name in ("cc", "gcc", "clang"))
        compiler = os.environ.get("CC") or next(filter(None, known), None)
        try:
            if not compiler:
                raise OSError("there is no C compiler")
            build(compiler)
        except (OSError, subprocess.CalledProcessError) as error:
            if os.environ.get("PSOFED_NATIVE") == "1":
                raise
            self.app.display_warning(f"psofed is built without compiled code: {error}")
            return
        build_data["artifacts"] += ["src/psofed/core/native/*.shared"]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{next(sys_tags()).platform}"
