"""Programs that are no Python packages: where each is, or what to install."""

import os
import shutil
from pathlib import Path

# In tests only the fixtures of conftest.py look here; they skip what cannot run.
ORIGINS = {
    "arm_gcc": "apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi",
    "chromium": "apt-get install chromium",
    "clang": "apt-get install clang",
    "gcc": "apt-get install gcc",
    "mosquitto": "apt-get install mosquitto",
    "mosquitto_sub": "apt-get install mosquitto-clients",
    "node": "apt-get install nodejs npm; npm install -g @micropython/micropython-webassembly-pyscript",
    "openssl": "apt-get install openssl",
    "promtool": "it is in Debian's package prometheus",
    "qemu_arm": "apt-get install qemu-system-arm",
    "systemd_analyze": "apt-get install systemd",
}
OTHER_NAMES = {
    "arm_gcc": ("arm-none-eabi-gcc",), "chromium": ("chromium-browser",),
    "qemu_arm": ("qemu-system-arm",), "systemd_analyze": ("systemd-analyze",),
}  # fmt: skip


def micropython() -> Path:
    """MicroPython for node; FileNotFoundError says where to get it."""
    node = Path(find("node"))
    folders = os.environ.get("NODE_PATH", "").split(os.pathsep)
    folders += [str(node.parents[1] / "lib/node_modules"), "/usr/local/lib/node_modules"]
    for folder in filter(None, folders):
        path = Path(folder) / "@micropython/micropython-webassembly-pyscript/micropython.mjs"
        if path.exists():
            return path
    raise FileNotFoundError(f"needs node: {ORIGINS['node']}")


def find(name: str) -> str:
    """The path of a program; FileNotFoundError says where to get it."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    # Debian has servers in sbin, which is not on everybody's PATH.
    folders += [str(Path(each).with_name("sbin")) for each in folders if Path(each).name == "bin"]
    for known in (name, *OTHER_NAMES.get(name, ())):
        if path := shutil.which(known, path=os.pathsep.join(folders)):
            return path
    raise FileNotFoundError(f"needs {name}: {ORIGINS[name]}")
