"""Downloading from a server on this machine, and the functions behind `gplasc data`."""

from __future__ import annotations

import dataclasses
import hashlib
import http.server
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from PIL import Image

from gplasc.cli.data import _data
from gplasc.errors import UserError
from gplasc.streams import commands, find_stream, list_streams, open_stream
from gplasc.streams.catalog import _streams
from gplasc.streams.download import download
from gplasc.streams.info import Download
from gplasc.streams.locate import cache_folder
from gplasc.streams.preview import draw_preview

CONTENT = bytes(range(256)) * 4000


class Server:
    """Serves CONTENT; may ignore ranges, break off, or answer with an error. Remembers what was asked."""

    def __init__(self) -> None:
        self.ranges: list[str | None] = []
        self.break_after: int | None = None
        self.honor_ranges = True
        self.status = 200
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = self.headers.get("Range")
                server.ranges.append(asked)
                if server.status != 200:
                    self.send_error(server.status)
                    return
                start = 0
                if asked and server.honor_ranges:
                    start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1])
                    if start >= len(CONTENT):
                        self.send_error(416)
                        return
                    self.send_response(206)
                    self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
                else:
                    self.send_response(200)
                body = CONTENT[start:]
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: server.break_after])

            def log_message(self, *_: object) -> None:
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/file.tar.gz"


def serve(monkeypatch, name: str, urls: tuple[str, ...], checksum: str, folder: str = "") -> None:
    """Let seq-cifar10 be downloaded from a server on this machine, which has no https."""
    file = Download(name, (), checksum, folder)
    object.__setattr__(file, "urls", urls)
    info = dataclasses.replace(_streams()["seq-cifar10"], downloads=(file,))
    monkeypatch.setitem(_streams(), "seq-cifar10", info)


@pytest.fixture
def server(monkeypatch):
    own = Server()
    thread = threading.Thread(target=own.http.serve_forever, daemon=True)
    thread.start()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    checksum = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
    serve(monkeypatch, "file.tar.gz", (own.url,), checksum, folder="inner")
    yield own
    own.http.shutdown()
    own.http.server_close()
    thread.join()


def test_get_downloads_checks_and_does_not_repeat(server, tmp_path):
    (path,) = download("seq-cifar10", tmp_path / "d")
    assert path == tmp_path / "d" / "inner" / "file.tar.gz"
    assert path.read_bytes() == CONTENT
    download("seq-cifar10", tmp_path / "d")
    assert len(server.ranges) == 1
    assert [p.name for p in path.parent.iterdir()] == ["file.tar.gz"]


def test_get_without_a_folder_goes_to_the_cache_or_to_gplasc_data(server, tmp_path, monkeypatch):
    (path,) = download("seq-cifar10")
    assert path == cache_folder() / "data" / "inner" / "file.tar.gz"
    monkeypatch.setenv("GPLASC_DATA", str(tmp_path / "mine"))
    (path,) = download("seq-cifar10")
    assert path == tmp_path / "mine" / "inner" / "file.tar.gz"


def test_a_broken_download_goes_on_where_it_stopped(server, tmp_path):
    server.break_after = 300_000
    with pytest.raises(UserError, match=r"resumes where it stopped, or put file\.tar\.gz into"):
        download("seq-cifar10", tmp_path)
    part = tmp_path / "inner" / "file.tar.gz.part"
    have = part.stat().st_size
    assert 0 < have <= 300_000
    server.break_after = None
    (path,) = download("seq-cifar10", tmp_path)
    assert server.ranges == [None, f"bytes={have}-"]
    assert path.read_bytes() == CONTENT
    assert not part.exists()


@pytest.mark.parametrize("wrong", ["server ignores ranges", "part is longer than the file"])
def test_a_part_that_does_not_fit_is_started_over(server, tmp_path, wrong):
    (tmp_path / "inner").mkdir()
    part = tmp_path / "inner" / "file.tar.gz.part"
    part.write_bytes(CONTENT[:1000] if wrong.startswith("server") else CONTENT + b"more")
    server.honor_ranges = not wrong.startswith("server")
    (path,) = download("seq-cifar10", tmp_path)
    assert path.read_bytes() == CONTENT


def test_a_wrong_checksum_is_refused_and_the_file_does_not_stay(server, tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file.tar.gz.part").write_bytes(b"x" * 1000)
    with pytest.raises(UserError, match=r"is not file\.tar\.gz"):
        download("seq-cifar10", tmp_path)
    assert list((tmp_path / "inner").iterdir()) == []
    assert download("seq-cifar10", tmp_path)[0].read_bytes() == CONTENT


def test_an_error_of_the_server_and_no_network_are_one_sentence(server, tmp_path, monkeypatch):
    server.status = 404
    with pytest.raises(UserError, match=r"cannot be reached \(404"):
        download("seq-cifar10", tmp_path)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    serve(monkeypatch, "file.tar.gz", (f"http://127.0.0.1:{port}/file.tar.gz",), f"md5:{'0' * 32}")
    with pytest.raises(UserError, match=r"refused\); .* put file.tar.gz into") as caught:
        download("seq-cifar10", tmp_path)
    assert "\n" not in str(caught.value)


def test_a_second_address_is_tried(server, tmp_path, monkeypatch):
    (file,) = find_stream("seq-cifar10")[0].downloads
    serve(monkeypatch, file.name, ("http://127.0.0.1:9/file.tar.gz", *file.urls), file.checksum)
    assert download("seq-cifar10", tmp_path)[0].read_bytes() == CONTENT


def test_get_of_what_needs_no_download():
    for name in ("seq-digits", "synthetic", "folder:x"):
        with pytest.raises(UserError, match="needs no download"):
            download(name)


def test_every_download_has_a_checksum_and_is_looked_for_where_it_goes(imitate):
    published = [info for info in list_streams() if info.needs_download]
    assert len(published) >= 8
    for info in published:
        assert info.downloads
        for checksum in info.known_checksums().values():
            assert re.fullmatch("sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}", checksum), info.name
        for file in info.downloads:
            assert file.urls
            assert all(url.startswith("https://") and url.endswith(file.name) for url in file.urls)
        # What was downloaded is found again, archive or folder.
        file = info.downloads[0]
        path = imitate.root / info.name / file.folder / file.name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"")
        assert commands.data_path(info.name, imitate.root / info.name) in (path, path.parent)
    weak = {info.name for info in published for file in info.downloads if file.checksum.startswith("md5:")}
    assert weak == {"imagenet-r", "imagenet-a"}, "no SHA-256 of these archives could be confirmed"


@pytest.mark.parametrize(
    ("url", "checksum"), [("http://a/b", f"md5:{'0' * 32}"), ("https://a/b", "0" * 32), ("ftp://a/b", "")]
)
def test_a_download_without_https_or_checksum_cannot_be_declared(url, checksum):
    with pytest.raises(ValueError, match="b has"):
        Download("b", (url,), checksum)


def test_a_redirect_to_plain_http_is_not_followed_to_its_content(tmp_path, monkeypatch):
    class Response:
        url, status_code, headers = "http://elsewhere/file", 200, {}

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def raise_for_status(self):
            pytest.fail("it was read")

    monkeypatch.setattr("requests.get", lambda *_, **__: Response())
    with pytest.raises(UserError, match="redirects to an address that is not https"):
        download("seq-tinyimagenet", tmp_path)


def test_list_and_path(imitate, capsys):
    folder = imitate.cifar10_binary()
    commands.list_data(imitate.root)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("seq-cifar10 ") and line.endswith(str(folder)) for line in lines)
    assert any(line.startswith("imagenet-a ") and "gplasc data get imagenet-a" in line for line in lines)
    assert lines[-1].startswith("searched: ")
    assert commands.data_path("seq-cifar10", imitate.root) == folder
    assert _data("path", "seq-cifar10", data_dir=imitate.root) == 0
    assert capsys.readouterr().out.strip() == str(folder)
    with pytest.raises(UserError, match="comes with the library"):
        commands.data_path("seq-digits")
    with pytest.raises(UserError, match="was not found"):
        commands.data_path("cub200")


def test_check_tells_what_differs(imitate, capsys, monkeypatch):
    folder = imitate.cifar10_binary()
    assert commands.check_data("seq-cifar10", imitate.root) is False
    out = capsys.readouterr().out
    assert "DIFFERS 100 training images, 50,000 were published" in out
    assert "DIFFERS checksum of data_batch_1.bin" in out
    assert "ok      10 classes" in out
    content = (folder / "test_batch.bin").read_bytes()
    for algorithm in ("md5", "sha256"):
        known = {"test_batch.bin": f"{algorithm}:{hashlib.new(algorithm, content).hexdigest()}"}
        monkeypatch.setattr("gplasc.streams.info.StreamInfo.known_checksums", lambda _, known=known: known)
        assert commands._compare_checksums(find_stream("seq-cifar10")[0], folder) == [
            ("ok", "checksum of test_batch.bin")
        ]
    commands.check_data("seq-cifar10", imitate.root)
    out = capsys.readouterr().out
    assert "ok      checksum of test_batch.bin" in out
    assert "DIFFERS checksum" not in out


def test_check_passes_what_is_complete(imitate, capsys):
    assert commands.check_data("seq-digits") is True
    assert "ok      1,297 training images" in capsys.readouterr().out
    assert commands.check_data(f"folder:{imitate.folder()}") is True
    assert commands.check_data("synthetic:tasks=3") is True


def test_check_of_idx_files_compressed_anew(imitate, capsys):
    imitate.idx("fashion-mnist")
    commands.check_data("seq-fashion", imitate.root)
    out = capsys.readouterr().out
    assert "note    train-images-idx3-ubyte.gz is not compressed as published" in out
    assert "DIFFERS checksum" not in out


@pytest.mark.parametrize(
    "name", ["seq-digits", "synthetic", "synthetic:tasks=1,classes=1,size=100,channels=3"]
)
def test_show_draws_a_picture(name, tmp_path):
    path = draw_preview(open_stream(name), tmp_path / "deep" / "picture.png")
    with Image.open(path) as picture:
        assert picture.width > 150
        colors = picture.convert("RGB").getcolors(maxcolors=2**24)
    assert colors is not None
    assert len(colors) > 50
    with pytest.raises(UserError, match=r"\.png"):
        draw_preview(open_stream(name), tmp_path / "picture.jpg")


def test_the_preview_shows_the_original_images(tmp_path, monkeypatch):
    stream, drawn = open_stream("synthetic:size=96,tasks=1,classes=2"), []
    monkeypatch.setattr(Axes, "imshow", lambda _, image, **named: drawn.append(image))
    draw_preview(stream, tmp_path / "p.png", images=2)
    assert len(drawn) == 4 * 2  # originals, two views, crops
    assert np.array_equal((drawn[0] * 255).round(), stream[0].train.x[0].permute(1, 2, 0).numpy())


def test_the_catalog_imports_nothing_heavy():
    code = (
        "import sys; from gplasc.streams import list_streams; list_streams()\n"
        "print([name for name in ('torch', 'numpy', 'sklearn', 'PIL', 'pooch', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_folders_named_by_the_user_are_shown(imitate):
    root = imitate.folder()
    assert commands.data_path(f"folder:{root}") == Path(root)
    with pytest.raises(UserError, match="does not exist"):
        commands.data_path(f"folder:{root}-not")
