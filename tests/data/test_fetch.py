"""The air-quality data is fetched, checked and written; here from a server on this machine."""

import io
import threading
import zipfile
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from psofed.errors import InputError

fetching = pytest.importorskip("fetch_air_quality")  # of benchmarks/

NAMES = ("Aotizhongxin", "Changping", "Dingling", "Dongsi", "Guanyuan", "Gucheng", "Huairou",
         "Nongzhanguan", "Shunyi", "Tiantan", "Wanliu", "Wanshouxigong")  # fmt: skip


def station(name, rows=5):
    lines = [",".join(fetching.HEADER)]
    lines += [
        f"{i},2013,3,1,{i - 1},4,4,4,7,300,NA,-0.7,1023,-18.8,0,N,4.4,{name}"
        for i in range(1, rows + 1)
    ]
    return "\r\n".join(lines) + "\r\n"


def archive(files, inner=fetching.INNER):
    """A zip with other files and a zip in it, as it is published."""
    within, outer = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(within, "w") as packed:
        packed.writestr("PRSA_Data_20130301-20170228/", "")
        for name, text in files.items():
            packed.writestr(
                f"PRSA_Data_20130301-20170228/PRSA_Data_{name}_20130301-20170228.csv", text
            )
    with zipfile.ZipFile(outer, "w") as packed:
        packed.writestr("data.csv", "x,y\n1,2\n")
        packed.writestr("../evil.csv", "never written")
        packed.writestr(inner, within.getvalue())
    return outer.getvalue()


@pytest.fixture
def serve():
    """A server on loopback that answers every question with the same bytes."""
    stack = ExitStack()

    def start(data, status=200):
        class Answer(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Answer))
        stack.callback(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/data.zip"

    with stack:
        yield start


def test_the_twelve_files_come_out_of_the_inner_archive_and_can_be_fitted(serve, tmp_path):
    from psofed.streams.data import reading as tables
    from psofed.streams.data.columns import Columns

    url = serve(archive({name: station(name) for name in NAMES}))
    folder = tmp_path / "new" / "air"
    assert fetching.fetch(folder, url, rows=5) is False  # not the data of the docs
    assert {p.name for p in folder.iterdir()} == {f"{name}.csv.gz" for name in NAMES}
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["air"]
    columns = Columns("O3", ("year", "month", "day", "hour"), "station")
    assert tables.read(folder, columns).rows == 60
    with pytest.raises(InputError, match="is there already"):
        fetching.fetch(folder, url, rows=5)


GOOD = {name: station(name) for name in NAMES}


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (archive({name: GOOD[name] for name in NAMES[1:]}), "has 11 stations, not 12"),
        (archive(GOOD | {"Wanliu": station("Wanliu", 4)}), "Wanliu: has 4 rows; 5 were expected"),
        (archive(GOOD | {"Dongsi": station("Gucheng")}), "Dongsi: row 2 is '1,2013"),
        (archive(GOOD | {"Shunyi": station("Shunyi").replace("O3", "O4")}), "Shunyi: row 1 begins with"),
        (archive(GOOD | {"Shunyi": station("Shunyi").replace("\n3,", "\n4,")}), "Shunyi: row 4 is '4,2013"),
        (archive(GOOD)[:-300], "is not a whole zip"),
        (b"<html>moved</html>", "is not a whole zip"),
        (archive(GOOD, inner="other.zip"), "has no PRSA2017_Data_20130301-20170228.zip in it"),
    ],
)  # fmt: skip
def test_data_of_another_shape_is_refused_and_nothing_is_written(serve, tmp_path, data, found):
    with pytest.raises(InputError) as caught:
        fetching.fetch(tmp_path / "air", serve(data), rows=5)
    assert found in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_without_a_network_one_line_says_what_to_do(serve, tmp_path, capsys):
    url = serve(b"")
    gone = url.replace(url.split(":")[2].split("/")[0], "9")  # nobody listens at the discard port
    for where in (gone, serve(b"no", status=404)):
        assert fetching.main([str(tmp_path / "air"), "--url", where]) == 2
        line = capsys.readouterr().err
        assert "cannot be fetched" in line
        assert "download data set 501 of UCI by hand" in line
        assert line.count("\n") == 1
    assert fetching.main([str(tmp_path / "air"), "--url", "file:///etc/passwd"]) == 2
    assert not (tmp_path / "air").exists()
