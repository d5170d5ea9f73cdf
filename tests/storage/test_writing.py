"""A written file is complete or still the old one; locks; failed flushes."""

import concurrent.futures
import errno
import os
import pathlib
import platform
import socket
import subprocess
import sys

import pytest

from bert_keras.storage import paths, writing
from bert_keras.storage.checks import check_output_file


def test_a_file_is_replaced_only_when_the_block_ends_well(folder):
    file = paths.join(folder, "notes.txt")
    writing.write_text(file, "old\n")

    with pytest.raises(RuntimeError), writing.replace_file(file, "w") as new:  # noqa: PT012
        new.write("half")
        raise RuntimeError
    assert paths.read_text(file) == "old\n"
    assert paths.list_dir(folder) == ["notes.txt"]
    with writing.replace_file(file, "w") as new:
        new.write("new\n")
        assert paths.read_text(file) == "old\n"
    assert paths.read_text(file) == "new\n"
    assert paths.list_dir(folder) == ["notes.txt"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    writing.write_text(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    writing.write_text(pipe, "new")
    assert reader.communicate(timeout=60)[0] == b"new"
    assert pipe.is_fifo()
    check_output_file(os.devnull, "--output_file")


def test_errors_have_the_name_that_was_given(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        writing.write_text(tmp_path / "missing" / "a.txt", "x")
    assert raised.value.filename == str(tmp_path / "missing" / "a.txt")
    with pytest.raises(OSError, match="No space left") as raised, writing.replace_file(tmp_path / "a.txt"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert raised.value.filename == str(tmp_path / "a.txt")
    assert not list(tmp_path.iterdir())


def test_file_systems_that_cannot_flush_are_used_without_it(tmp_path, monkeypatch):
    def fail(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    for number in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):
        writing.write_text(tmp_path / "a.txt", str(number))
        assert (tmp_path / "a.txt").read_text() == str(number)
    number = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        writing.write_text(tmp_path / "a.txt", "lost")
    assert (tmp_path / "a.txt").read_text() == str(errno.ENOSYS)


def test_a_lock_is_held_against_other_processes(tmp_path):
    code = "import sys; from bert_keras.storage import writing; writing.lock(sys.argv[1])"
    file = writing.lock(str(tmp_path / ".lock"))
    other = [sys.executable, "-c", code, str(tmp_path / ".lock")]
    held = subprocess.run(other, capture_output=True, text=True, check=False)
    assert "BlockingIOError" in held.stderr
    file.close()
    assert subprocess.run(other, check=False).returncode == 0
    assert writing.lock("ram://folder/.lock") is None


def test_a_file_system_without_locks_is_used_with_a_warning(tmp_path, monkeypatch, caplog):
    import fcntl

    def fail(*arguments):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", fail)
    assert writing.lock(str(tmp_path / ".lock")) is None
    assert "has no locks" in caplog.text


def test_threads_that_write_the_same_file_leave_that_of_one(folder):
    file = paths.join(folder, "notes.txt")
    texts = [f"{number}\n" * 1000 for number in range(8)]

    def write(text):
        for _ in range(5):
            writing.write_text(file, text)
            assert paths.read_text(file) in texts

    with concurrent.futures.ThreadPoolExecutor(len(texts)) as pool:
        list(pool.map(write, texts))
    assert paths.list_dir(folder) == ["notes.txt"]


def test_left_over_are_the_unfinished_names_of_dead_processes():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for name in (f".unfinished-{ended.pid}", f".a.unfinished-{ended.pid}", f".d.unfinished-{ended.pid}.index"):
        assert writing.is_left_over(name)
    assert not writing.is_left_over(f".b.unfinished-{os.getpid()}")
    assert not writing.is_left_over("c")


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_a_replaced_file_keeps_its_permissions(tmp_path):
    for mode in (0o600, 0o664):
        (tmp_path / "a").write_text("old")
        (tmp_path / "a").chmod(mode)
        writing.write_text(tmp_path / "a", "new")
        assert ((tmp_path / "a").read_text(), (tmp_path / "a").stat().st_mode & 0o777) == ("new", mode)


@pytest.mark.xfail(strict=True, reason="D3: the name of unfinished work has only the number of a process")
def test_unfinished_work_of_another_machine_stays(tmp_path, monkeypatch):
    with monkeypatch.context() as other:
        other.setattr(os, "getpid", lambda: 99999999)
        for module, name in ((socket, "gethostname"), (platform, "node")):
            other.setattr(module, name, lambda: "another-machine")
        theirs = writing.folder_that_appears_when_done(str(tmp_path / "out"), "output", ("last",))
        unfinished = theirs.__enter__()
        (unfinished / "a").touch()
    with writing.folder_that_appears_when_done(str(tmp_path / "out"), "output", ("last",)):
        assert (unfinished / "a").exists()


def test_sha256(folder):
    writing.write_bytes(paths.join(folder, "a"), b"abc")
    assert writing.sha256(paths.join(folder, "a")).startswith("ba7816bf8f01cfea")


@pytest.mark.parametrize("is_there", [True, False])
def test_folder_appears_only_when_done(tmp_path, is_there):
    path = tmp_path / "out"
    if is_there:
        path.mkdir()
    with (  # noqa: PT012
        pytest.raises(OSError, match=r"--output=.*out cannot be written \(No space left on device\); make room on its"),
        writing.folder_that_appears_when_done(str(path), "output", ("last",)) as folder,
    ):
        (folder / "half").touch()
        raise RuntimeError("Resource exhausted: No space left on device")
    assert sorted(tmp_path.rglob("*")) == ([path] if is_there else [])
    with writing.folder_that_appears_when_done(str(path), "output", ("last",)) as folder:
        (folder / "last").touch()
        assert not (path / "last").exists()
    assert sorted(tmp_path.rglob("*")) == [path, path / "last"]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_to_a_folder_stays_and_the_files_that_readers_find_appear_last(tmp_path, monkeypatch, is_there):
    target = tmp_path / "target"
    (tmp_path / "out").symlink_to(target)
    if is_there:
        # What a process left whose id does not exist: ids are below 2**22.
        (target / ".unfinished-99999999").mkdir(parents=True)
        (target / ".unfinished-99999999" / "a").touch()
        (target / ".b.unfinished-99999999").touch()
    inode = target.stat().st_ino if is_there else None
    moved = []
    rename = pathlib.Path.rename
    monkeypatch.setattr(pathlib.Path, "rename", lambda path, to: (moved.append(path.name), rename(path, to)))
    with writing.folder_that_appears_when_done(str(tmp_path / "out"), "output", (".index",)) as folder:
        for name in ("a.index", "b", "c"):
            (folder / name).touch()
    assert sorted(os.listdir(target)) == ["a.index", "b", "c"]
    assert sorted(os.listdir(tmp_path)) == ["out", "target"]
    if is_there:
        assert target.stat().st_ino == inode
        assert moved == ["b", "c", "a.index"]
