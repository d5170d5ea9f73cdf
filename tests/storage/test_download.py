"""Downloads: resumed, verified, and complete or not there; unpacking of zip files."""

import errno
import fcntl
import os
import random
import re
import shutil
import zipfile

import pytest
from http_servers import file_server

from bert_keras.storage import download as module
from bert_keras.storage.download import download, unpack

DATA = random.Random(0).randbytes(1_000_000)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(module, "_SECONDS_BEFORE_TRY", 0.001)
    monkeypatch.setattr(module, "_CHUNK", 50_000)
    with file_server(DATA) as server:
        yield server


@pytest.fixture
def file(tmp_path):
    return tmp_path / "model.zip"


class Counted:
    """Records the progress of a download."""

    def __init__(self):
        self.total, self.done = [], 0

    def start(self, what, total, unit):
        assert (what, unit) == ("downloading model.zip", "bytes")
        self.total.append(total)
        self.done = 0

    def advance(self, amount):
        self.done += amount

    def finish(self):
        assert self.done == self.total[-1]


def names(folder):
    return sorted(os.listdir(folder))


def test_a_file_arrives_whole(server, file):
    progress = Counted()
    download(server.address, file, progress)
    assert file.read_bytes() == DATA
    assert names(file.parent) == ["model.zip"]
    assert server.requests == [(None, 200)]
    assert (progress.total, progress.done) == ([len(DATA)], len(DATA))


def test_a_dropped_connection_continues_from_the_last_byte(server, file, messages):
    server.drops = [300_000, 200_000]
    progress = Counted()
    download(server.address, file, progress)
    assert file.read_bytes() == DATA
    assert server.requests == [(None, 200), ("bytes=300000-", 206), ("bytes=500000-", 206)]
    assert (progress.total, progress.done) == ([len(DATA)] * 3, len(DATA))
    assert len([line for line in messages if "trying again" in line]) == 2


def test_a_later_command_continues_too(server, file):
    server.drops = [100_000] * 5
    sentence = rf"could not be downloaded \(.*\); 500,000 bytes are in {file}\.part, and the same command continues"
    with pytest.raises(ConnectionError, match=sentence):
        download(server.address, file)
    assert names(file.parent) == ["model.zip.part", "model.zip.part.json"]
    download(server.address, file)
    assert file.read_bytes() == DATA
    assert server.requests[-1] == ("bytes=500000-", 206)
    assert names(file.parent) == ["model.zip"]


def test_a_file_that_changed_on_the_server_is_not_mixed(server, file):
    server.drops = [100_000]
    real = server.handle

    def change(handler):
        real(handler)
        if len(server.requests) == 1:
            server.data, server.etag, server.md5 = DATA[::-1], '"two"', None

    server.handle = change
    download(server.address, file)
    assert server.requests == [(None, 200), ("bytes=100000-", 200)]
    assert file.read_bytes() == DATA[::-1]


@pytest.mark.parametrize("change", ["no ETag", "a weak ETag", "no ranges"])
def test_without_ranges_or_a_strong_etag_the_download_begins_again(server, file, change):
    server.drops = [100_000]
    if change == "no ranges":
        server.has_ranges = False
    else:
        server.etag = None if change == "no ETag" else 'W/"one"'
    download(server.address, file)
    assert file.read_bytes() == DATA
    assert server.requests == [(None, 200), ("bytes=100000-" if change == "no ranges" else None, 200)]


def test_a_partial_file_that_is_too_long_begins_again(server, file):
    server.drops = [100_000] * 5
    with pytest.raises(ConnectionError):
        download(server.address, file)
    with open(f"{file}.part", "ab") as part:
        part.write(DATA * 2)
    download(server.address, file)
    assert file.read_bytes() == DATA
    assert server.requests[-2:] == [("bytes=2500000-", 416), (None, 200)]


def test_a_wrong_part_is_not_appended(server, file):
    real = server.handle

    def shift(handler):
        if handler.headers.get("Range") == "bytes=100000-":
            handler.answer(206, DATA[5:], Content_Range=f"bytes 5-{len(DATA) - 1}/{len(DATA)}")
        else:
            real(handler)

    server.drops, server.handle = [100_000], shift
    download(server.address, file)
    assert file.read_bytes() == DATA


def test_a_complete_partial_file_is_checked_and_not_asked_for_again(server, file, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(module, "_check_md5", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            download(server.address, file)
    download(server.address, file)
    assert file.read_bytes() == DATA
    assert len(server.requests) == 1


def test_a_wrong_md5_leaves_nothing(server, file):
    server.md5 = "0" * 32
    sentence = r"model\.zip arrived damaged: its MD5 is [0-9a-f]{32}, and the server announced 0{32}; the file was"
    with pytest.raises(ValueError, match=sentence):
        download(server.address, file)
    assert names(file.parent) == []


def test_a_busy_server_gets_more_tries(server, file):
    server.statuses = [503, 429, 500]
    download(server.address, file)
    assert file.read_bytes() == DATA
    server.statuses = [503] * 5
    with pytest.raises(ConnectionError, match="the server answered 503 Service Unavailable"):
        download(server.address, file.with_name("other"))


@pytest.mark.parametrize("status", [403, 404, 410])
def test_a_refusal_is_final(server, file, status):
    server.statuses = [status]
    with pytest.raises(FileNotFoundError, match=f"cannot be downloaded: the server answered {status}"):
        download(server.address, file)
    assert len(server.requests) == 1
    assert names(file.parent) == []


def test_a_server_that_does_not_exist_is_named(server, file):
    with pytest.raises(ConnectionError, match=r"1:9/a\.zip could not be downloaded \(.*onnection refused\); check the"):
        download("http://127.0.0.1:9/a.zip", file)


def test_a_small_disk_is_refused_before_the_download(server, file, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 400_000))
    with pytest.raises(OSError, match="needs 1 MB, and its disk has 0 MB left; make room"):
        download(server.address, file)
    assert names(file.parent) == []


def test_a_disk_that_fills_up_is_told(server, file, monkeypatch):
    real = open

    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.file.close()

        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "open", lambda *a: Full(real(*a)) if a[1] == "ab" else real(*a), raising=False)
    with pytest.raises(OSError, match=r"part cannot be written \(No space left on device\); make room on its disk"):
        download(server.address, file)


def test_two_processes_do_not_write_the_same_file(server, file):
    with open(f"{file}.part", "a") as part:
        fcntl.flock(part, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="another process is downloading"):
            download(server.address, file)
    download(server.address, file)
    assert file.read_bytes() == DATA


def write_zip(path, files, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("prefix", ["", "model/", "a/b/"])
def test_files_of_one_folder_arrive_at_the_top(tmp_path, prefix):
    files = {f"{prefix}vocab.txt": "a\n", f"{prefix}data": DATA[:1000], "__MACOSX/x": "", f"{prefix}.DS_Store": ""}
    (tmp_path / "out").mkdir()
    unpack(write_zip(tmp_path / "a.zip", files), tmp_path / "out")
    assert names(tmp_path / "out") == ["data", "vocab.txt"]
    assert (tmp_path / "out" / "data").read_bytes() == DATA[:1000]


@pytest.mark.parametrize("name", ["../a.txt", "model/../../a.txt", "/etc/a.txt", "..\\a.txt", "C:\\a.txt", "\\a.txt"])
def test_names_that_lead_out_are_refused(tmp_path, name):
    (tmp_path / "out").mkdir()
    zip_file = write_zip(tmp_path / "a.zip", {"vocab.txt": "a", name: "b"})
    with pytest.raises(ValueError, match=rf'holds "{re.escape(name)}", which is not a plain file inside a folder'):
        unpack(zip_file, tmp_path / "out")
    assert names(tmp_path / "out") == []


def test_links_are_refused(tmp_path):
    link = zipfile.ZipInfo("vocab.txt")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(ValueError, match="not a plain file inside a folder"):
        unpack(tmp_path / "a.zip", tmp_path)


def test_several_folders_are_refused(tmp_path):
    zip_file = write_zip(tmp_path / "a.zip", {"one/vocab.txt": "a", "two/vocab.txt": "b"})
    with pytest.raises(ValueError, match="holds several folders; unpack it yourself"):
        unpack(zip_file, tmp_path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("damage", ["changed", "cut"])
def test_damage_is_found(tmp_path, compression, damage):
    zip_file = write_zip(tmp_path / "a.zip", {"data": DATA}, compression)
    data = bytearray(zip_file.read_bytes())
    if damage == "cut":
        data = data[:-1000]
    else:
        data[500_000] ^= 1
    zip_file.write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.zip is damaged \(.*\); remove it, and download it again"):
        unpack(zip_file, tmp_path)


def test_a_disk_too_small_for_the_contents_is_refused(tmp_path, monkeypatch):
    zip_file = write_zip(tmp_path / "a.zip", {"data": bytes(5_000_000)})
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 2_000_000))
    with pytest.raises(OSError, match="holds 5 MB, and the disk of .* has 2 MB left"):
        unpack(zip_file, tmp_path)
