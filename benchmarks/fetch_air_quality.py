"""The air-quality data from where it is published: `python benchmarks/fetch_air_quality.py FOLDER`.

S. Chen, "Beijing Multi-Site Air Quality", UCI Machine Learning Repository, data set 501, CC BY 4.0:
a zip with a zip of 12 files in it. What comes is checked (stations, header, rows, hours) before
anything is written; a digest of its cells tells whether it is the data of docs/tables.md.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import re
import sys
import urllib.error
import urllib.request
import zipfile
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

from psofed.errors import InputError

URL = "https://archive.ics.uci.edu/static/public/501/beijing+multi+site+air+quality+data.zip"
INNER = "PRSA2017_Data_20130301-20170228.zip"
FILE = re.compile(r"(?:.*/)?PRSA_Data_([A-Za-z]+)_20130301-20170228\.csv")
HEADER = [
    "No", "year", "month", "day", "hour", "PM2.5", "PM10", "SO2", "NO2", "CO", "O3", "TEMP",
    "PRES", "DEWP", "RAIN", "wd", "WSPM", "station",
]  # fmt: skip
STATIONS, ROWS = 12, 35_064
DIGEST = "9b48c0c14dc4737c993811c52ad66e471535c8a528dd0896ff2093a1e7fd69dd"
LARGEST = 100_000_000  # bytes of an archive, or of a file in it


def main(arguments: list[str] | None = None) -> int:
    """Fetch, check, write; 2 if that cannot be done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--url", default=URL)
    given = parser.parse_args(arguments)
    try:
        same = fetch(given.folder, given.url)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    what = "the data" if same else "NOT the data"
    print(f"{STATIONS} stations of {ROWS} rows in {given.folder}: {what} of docs/tables.md")
    return 0


def fetch(folder: Path, url: str = URL, rows: int = ROWS) -> bool:
    """Download into a new folder, all files or none; whether it is the data of the docs."""
    if folder.exists():
        raise InputError(str(folder), "is there already", "give a folder that is not")
    files = stations(_get(url), url)
    if len(files) != STATIONS:
        found = f"has {len(files)} stations, not {STATIONS}"
        raise InputError("", found, "unpack it by hand and look", url)
    digest = hashlib.sha256()
    for name in sorted(files):
        _check(files[name], name, rows, url, digest)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as draft:
        inside = Path(draft) / "data"
        inside.mkdir()
        for name, data in files.items():
            (inside / f"{name}.csv.gz").write_bytes(gzip.compress(data, mtime=0))
        inside.rename(folder)
    return digest.hexdigest() == DIGEST


def _get(url: str) -> bytes:
    if not url.startswith(("https://", "http://127.0.0.1")):
        raise InputError("--url", f"is {url!r}", "use https://")
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            data: bytes = answer.read(LARGEST + 1)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        why = getattr(error, "reason", error)
        right = "go online, or download data set 501 of UCI by hand and give its folder"
        raise InputError("", f"cannot be fetched: {why}", right, url) from None
    if len(data) > LARGEST:
        raise InputError("", f"is larger than {LARGEST} bytes", "download it by hand", url)
    return data


def stations(data: bytes, where: str) -> dict[str, bytes]:
    """The CSV of each station in the archive, which has another one in it."""
    outer = _unzip(data, where, re.compile(re.escape(INNER)))
    if INNER not in outer:
        raise InputError("", f"has no {INNER} in it", "look whether the archive has changed", where)
    return {
        FILE.fullmatch(name)[1]: content  # type: ignore[index]
        for name, content in _unzip(outer[INNER], where, FILE).items()
    }


def _unzip(data: bytes, where: str, wanted: re.Pattern[str]) -> dict[str, bytes]:
    """The wanted files, by their names; nothing is ever written under those names."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = [info for info in archive.infolist() if wanted.fullmatch(info.filename)]
            if sum(info.file_size for info in infos) > LARGEST:
                raise InputError("", "unpacks to too much", "unpack it by hand and look", where)
            return {info.filename: archive.read(info) for info in infos}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputError("", f"is not a whole zip: {error}", "try again", where) from None


def _check(data: bytes, name: str, rows: int, where: str, digest: hashlib._Hash) -> None:
    """Header, station, rows, and hours that go on; its cells go into the digest."""
    place = f"{where}: {name}"
    table = list(csv.reader(io.StringIO(data.decode("utf-8", "replace"))))
    if not table or table[0] != HEADER:
        found = f"begins with {','.join(table[0] if table else [])[:60]!r}"
        raise InputError("row 1", found, f"{','.join(HEADER)} was expected", place)
    if len(table) - 1 != rows:
        raise InputError("", f"has {len(table) - 1} rows", f"{rows} were expected", place)
    for number, row in enumerate(table[1:], 2):
        if len(row) != len(HEADER) or row[0] != str(number - 1) or row[-1] != name:
            raise InputError(f"row {number}", f"is {','.join(row)[:60]!r}", "look at it", place)
        digest.update(("\t".join(row) + "\n").encode())


if __name__ == "__main__":
    sys.exit(main())
