"""Downloads of pinned files from a server that misbehaves in every way that servers and networks do."""

from __future__ import annotations

import errno
import hashlib
import multiprocessing
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from streamsapp.cache_folder import CACHE_VARIABLE, cache_dir
from streamsapp.errors import StreamsError
from streamsapp.local import downloads
from streamsapp.local.downloads import Artifact, Downloads, artifacts_of
from streamsapp.local.jars import KAFKA, Jars
from streamsapp.local.repository import VARIABLE, Repository

FILES = {f"org/{name}/{name}.jar": name.encode() * 50_000 for name in ("first", "second", "third")}
ARTIFACTS = [Artifact(path, hashlib.sha256(data).hexdigest(), len(data)) for path, data in FILES.items()]
FIRST = ARTIFACTS[0]


class Server:
    """A repository. ``faults`` has what it does to the next requests for a path, before it answers as it should."""

    def __init__(self) -> None:
        self.faults: dict[str, list[Callable[[Handler, bytes], None]]] = {}
        self.asked: Counter[str] = Counter()
        self.ranges: list[str | None] = []
        self.headers: list[dict[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.repository = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        repository: Server = self.server.repository  # type: ignore[attr-defined]
        path = self.path[1:]
        repository.asked[path] += 1
        repository.ranges.append(self.headers["Range"])
        repository.headers.append(dict(self.headers))
        faults = repository.faults.get(path)
        (faults.pop(0) if faults else serve)(self, FILES.get(path, b""))

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def serve(handler: Handler, data: bytes) -> None:
    begin = int((handler.headers["Range"] or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
    handler.send_response(206 if begin else 200)
    if begin:
        handler.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
    handler.send_header("Content-Length", str(len(data) - begin))
    handler.end_headers()
    handler.wfile.write(data[begin:])


def cut_off(handler: Handler, data: bytes) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data[:100_000])
    handler.close_connection = True


def whole(handler: Handler, data: bytes) -> None:
    """Knows no ranges."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def another(handler: Handler, data: bytes) -> None:
    serve(handler, bytes(len(data)))


def longer(handler: Handler, data: bytes) -> None:
    serve(handler, data + b"x")


def answering(code: int) -> Callable[[Handler, bytes], None]:
    def answer(handler: Handler, _: bytes) -> None:
        handler.send_response(code)
        handler.send_header("Content-Length", "0")
        if code == 302:
            handler.send_header("Location", f"/{FIRST.path}")
        handler.end_headers()

    return answer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(downloads, "_PAUSES", (0.01, 0.01, 0.01))
    monkeypatch.setattr(downloads, "_CHUNK", 4_096)
    monkeypatch.setenv("no_proxy", "*")
    server = Server()
    yield server
    server.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "jars"
    folder.mkdir()
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


WHOLE = {artifact.name: FILES[artifact.path] for artifact in ARTIFACTS}


def test_all_files_come_and_every_byte_is_counted(server: Server, folder: Path) -> None:
    counted: list[int] = []
    Downloads(Repository(server.url), counted.append).bring(ARTIFACTS, folder)
    assert content(folder) == WHOLE
    assert sum(counted) == sum(artifact.size for artifact in ARTIFACTS)


@pytest.mark.parametrize("fault", [cut_off, answering(503), answering(429)])
def test_a_failure_that_passes_is_tried_again(server: Server, folder: Path, fault: Callable[..., None]) -> None:
    server.faults[FIRST.path] = [fault, fault]
    Downloads(Repository(server.url)).bring(ARTIFACTS, folder)
    assert content(folder) == WHOLE
    assert server.asked[FIRST.path] == 3


def test_what_came_before_a_cut_is_not_asked_for_again(server: Server, folder: Path) -> None:
    counted: list[int] = []
    server.faults[FIRST.path] = [cut_off]
    Downloads(Repository(server.url), counted.append).bring([FIRST], folder)
    assert server.ranges == [None, "bytes=100000-"]
    assert content(folder) == {FIRST.name: FILES[FIRST.path]}
    assert sum(counted) == FIRST.size


@pytest.mark.parametrize("then", [whole, answering(416)])
def test_a_server_that_does_not_go_on_begins_anew(server: Server, folder: Path, then: Callable[..., None]) -> None:
    counted: list[int] = []
    server.faults[FIRST.path] = [cut_off, then]
    Downloads(Repository(server.url), counted.append).bring([FIRST], folder)
    assert content(folder) == {FIRST.name: FILES[FIRST.path]}
    assert sum(counted) == FIRST.size


@pytest.mark.parametrize("fault", [another, longer])
def test_a_file_with_another_content_is_refused_and_not_kept(
    server: Server, folder: Path, fault: Callable[..., None]
) -> None:
    server.faults[FIRST.path] = [fault]
    with pytest.raises(
        StreamsError, match=f"{FIRST.path} cannot be fetched: it has another content: SHA-256 .*{FIRST.sha256}"
    ):
        Downloads(Repository(server.url)).bring(ARTIFACTS, folder)
    assert FIRST.name not in content(folder)
    assert f"{FIRST.name}.part" not in content(folder)


def test_pieces_of_two_files_are_thrown_away(server: Server, folder: Path) -> None:
    (folder / f"{FIRST.name}.part").write_bytes(b"of another file")
    Downloads(Repository(server.url)).bring([FIRST], folder)
    assert content(folder) == {FIRST.name: FILES[FIRST.path]}


def test_a_whole_file_that_was_damaged_since_comes_again_and_others_stay(server: Server, folder: Path) -> None:
    for artifact in ARTIFACTS:
        (folder / artifact.name).write_bytes(FILES[artifact.path])
    (folder / FIRST.name).write_bytes(b"damaged")
    Downloads(Repository(server.url)).bring(ARTIFACTS, folder)
    assert content(folder) == WHOLE
    assert server.asked == {FIRST.path: 1}


@pytest.mark.parametrize("code", [401, 403, 404, 407])
def test_an_answer_that_will_not_change_is_shown_at_once_with_the_remedy(
    server: Server, folder: Path, code: int
) -> None:
    server.faults[FIRST.path] = [answering(code)]
    with pytest.raises(StreamsError, match=rf"answered {code} .*name that in {VARIABLE} or in ~/\.m2/settings\.xml"):
        Downloads(Repository(server.url)).bring([FIRST], folder)
    assert server.asked[FIRST.path] == 1


def test_a_mirror_that_fails_is_named_by_its_place(server: Server, folder: Path) -> None:
    server.faults[FIRST.path] = [answering(404)]
    with pytest.raises(StreamsError, match="try again, or correct the repository that settings names"):
        Downloads(Repository(server.url, "settings")).bring([FIRST], folder)


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "http://nowhere.invalid"])
def test_without_a_network_the_message_names_proxy_and_mirror(server: Server, folder: Path, address: str) -> None:
    with pytest.raises(StreamsError, match=f"cannot be fetched: .*set HTTPS_PROXY; .*{VARIABLE}"):
        Downloads(Repository(address)).bring(ARTIFACTS, folder)
    assert content(folder) == {}


def test_credentials_are_sent_to_the_repository_and_not_to_where_it_sends_us(server: Server, folder: Path) -> None:
    moved = Artifact("moved.jar", FIRST.sha256, FIRST.size)
    server.faults["moved.jar"] = [answering(302)]
    Downloads(Repository(server.url, "settings", "Basic YTpi")).bring([moved], folder)
    assert [each.get("Authorization") for each in server.headers] == ["Basic YTpi", None]


def test_a_repository_may_be_a_folder(tmp_path: Path, folder: Path) -> None:
    place = tmp_path / "repository" / FIRST.path
    place.parent.mkdir(parents=True)
    place.write_bytes(FILES[FIRST.path])
    source = Repository((tmp_path / "repository").as_uri(), VARIABLE)
    Downloads(source).bring([FIRST], folder)
    assert content(folder) == {FIRST.name: FILES[FIRST.path]}
    with pytest.raises(StreamsError, match="the file is not there"):
        Downloads(source).bring(ARTIFACTS, folder)


@pytest.fixture
def jars(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jars:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(VARIABLE, server.url)
    return Jars("some", ARTIFACTS)


def test_a_folder_has_its_name_only_when_it_is_whole(server: Server, jars: Jars) -> None:
    server.faults[FIRST.path] = [answering(404)]
    with pytest.raises(StreamsError, match="answered 404"):
        jars.folder()
    assert not jars.is_fetched
    assert [each for each in cache_dir().iterdir() if each.suffix not in (".lock", ".unfinished")] == []

    assert content(jars.folder()) == WHOLE
    assert jars.is_fetched
    asked = server.asked.total()
    assert jars.folder() == jars.folder()
    assert server.asked.total() == asked


def test_another_list_has_another_folder(jars: Jars) -> None:
    assert Jars("some", ARTIFACTS[:2]).folder() != jars.folder()


def test_of_two_processes_one_fetches_and_both_have_it(server: Server, jars: Jars) -> None:
    slow = threading.Event()

    def wait(handler: Handler, data: bytes) -> None:
        slow.wait(1)
        serve(handler, data)

    server.faults[FIRST.path] = [wait]
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        found = [pool.apply_async(jars.folder) for _ in range(2)]
        folders = {each.get(60) for each in found}
    assert [content(folder) for folder in folders] == [WHOLE]
    assert server.asked == dict.fromkeys(FILES, 1)


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, jars: Jars, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(StreamsError, match=rf"jars cannot be kept here: {os.strerror(errno.EEXIST)}.*{CACHE_VARIABLE}"):
        jars.folder()


def test_lists_are_read() -> None:
    assert artifacts_of("# for people\n\nab 12 org/a/a-1.jar\n") == [Artifact("org/a/a-1.jar", "ab", 12)]


def test_the_brokers_list_is_sound() -> None:
    artifacts = KAFKA._artifacts
    assert len({each.name for each in artifacts}) == len(artifacts) > 40
    assert all(len(each.sha256) == 64 and each.size > 0 and each.path.endswith(".jar") for each in artifacts)
    assert any(each.name.startswith("kafka_2.13-") for each in artifacts)
