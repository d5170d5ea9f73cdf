"""Downloads: verified, and complete or not there; unpacking of zip files."""

import os
import random
import re
import shutil
import zipfile

import pytest
from http_servers import file_server

from bert_keras.storage.download import download, unpack

DATA = random.Random(0).randbytes(1_000_000)


@pytest.fixture
def server():
    with file_server(DATA) as server:
        yield server


def names(folder):
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_file_arrives_whole(server, tmp_path, is_announced):
    server.md5 = server.md5 if is_announced else None
    file = download(server.address, tmp_path)
    assert file == str(tmp_path / "model.zip")
    assert (tmp_path / "model.zip").read_bytes() == DATA
    assert names(tmp_path) == ["model.zip"]
    assert server.requests == [("HEAD", 200), ("GET", 200)]


def test_another_md5_than_the_announced_one_is_refused(server, tmp_path):
    server.md5 = "0" * 32
    with pytest.raises(
        ValueError, match=r"model\.zip arrived damaged: its MD5 is not the one that the server announced"
    ):
        download(server.address, tmp_path)


def test_a_dropped_connection_leaves_nothing(server, tmp_path):
    server.drops = [300_000]
    sentence = (
        r"model\.zip cannot be downloaded \(retrieval incomplete: got only 300000 out of 1000000 bytes\); check the "
        "connection and the disk, and run the same command again"
    )
    with pytest.raises(ConnectionError, match=sentence):
        download(server.address, tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize("statuses", [[404], [200, 503]])
def test_a_refusal_is_quoted(server, tmp_path, statuses):
    server.statuses = list(statuses)
    with pytest.raises(ConnectionError, match=rf"model\.zip cannot be downloaded: the server answered {statuses[-1]} "):
        download(server.address, tmp_path)
    assert names(tmp_path) == []


def test_a_server_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(ConnectionError, match=r"1:9/a\.zip cannot be downloaded \(.*onnection refused\); check the"):
        download("http://127.0.0.1:9/a.zip", tmp_path)


def test_a_small_disk_is_refused_before_the_download(server, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 400_000))
    with pytest.raises(OSError, match=r"model\.zip needs 1 MB, and the disk has 0 MB left; make room"):
        download(server.address, tmp_path)
    assert server.requests == [("HEAD", 200)]


def write_zip(path, files, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("prefix", ["", "model/", "a/b/"])
def test_files_of_one_folder_arrive_at_the_top(tmp_path, prefix):
    files = {f"{prefix}vocab.txt": "a\n", f"{prefix}data": DATA[:1000], "__MACOSX/x": "", f"{prefix}.DS_Store": ""}
    (tmp_path / "out").mkdir()
    unpack(write_zip(tmp_path / "a.zip", files), tmp_path / "out", "a.zip")
    assert names(tmp_path / "out") == ["data", "vocab.txt"]
    assert (tmp_path / "out" / "data").read_bytes() == DATA[:1000]


@pytest.mark.parametrize("name", ["../a.txt", "model/../../a.txt", "/etc/a.txt", "..\\a.txt", "C:\\a.txt", "\\a.txt"])
def test_names_that_lead_out_are_refused(tmp_path, name):
    (tmp_path / "out").mkdir()
    zip_file = write_zip(tmp_path / "a.zip", {"vocab.txt": "a", name: "b"})
    with pytest.raises(ValueError, match=rf'holds "{re.escape(name)}", which is not a plain file inside a folder'):
        unpack(zip_file, tmp_path / "out", "a.zip")
    assert names(tmp_path / "out") == []


def test_links_are_refused(tmp_path):
    link = zipfile.ZipInfo("vocab.txt")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(ValueError, match="not a plain file inside a folder"):
        unpack(tmp_path / "a.zip", tmp_path, "a.zip")


def test_several_folders_are_refused(tmp_path):
    zip_file = write_zip(tmp_path / "a.zip", {"one/vocab.txt": "a", "two/vocab.txt": "b"})
    with pytest.raises(ValueError, match="holds several folders; unpack it yourself"):
        unpack(zip_file, tmp_path, "a.zip")


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
    with pytest.raises(ValueError, match=r"^a\.zip is damaged \(.*\); download it again"):
        unpack(zip_file, tmp_path, "a.zip")


def test_a_disk_too_small_for_the_contents_is_refused(tmp_path, monkeypatch):
    zip_file = write_zip(tmp_path / "a.zip", {"data": bytes(5_000_000)})
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 2_000_000))
    with pytest.raises(OSError, match=r"^a\.zip needs 5 MB, and the disk has 2 MB left"):
        unpack(zip_file, tmp_path, "a.zip")
