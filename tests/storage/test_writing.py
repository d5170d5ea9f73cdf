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

    with pytest.raises(RuntimeError), writing.whole(file) as hidden, paths.open_file(hidden, "w") as new:  # noqa: PT012
        new.write("half")
        raise RuntimeError
    assert paths.read_text(file) == "old\n"
    assert paths.list_dir(folder) == ["notes.txt"]
    with writing.whole(file) as hidden, paths.open_file(hidden, "w") as new:
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
    check_output_file(os.devnull, "output_file")


def test_errors_have_the_name_that_was_given(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        writing.write_text(tmp_path / "missing" / "a.txt", "x")
    assert raised.value.filename == str(tmp_path / "missing" / "a.txt")
    with pytest.raises(OSError, match="No space left") as raised, writing.whole(tmp_path / "a.txt"):
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


def name_of(process):
    """Returns the name that another process of this host gives to its unfinished work on the path a."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getpid", lambda: process)
        return writing.hidden_name("a")


def test_left_over_is_what_dead_processes_of_this_host_have_not_finished(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    # In containers, a program has the number of the one before it.
    left, kept = [name_of(ended.pid), name_of(os.getpid())], [name_of(os.getppid()), "c", ".a.0123.unfinished"]
    assert list(map(writing.is_left_over, [*left, *kept])) == [True, True, False, False, False]
    for name in (*left, *kept):
        (tmp_path / name).mkdir()
    with writing.unfinished(tmp_path / "a") as hidden:
        assert not writing.is_left_over(paths.name(hidden))
        (tmp_path / paths.name(hidden)).touch()
        writing.write_text(tmp_path / "a", "text")
        assert sorted(paths.list_dir(tmp_path)) == sorted([*kept, "a", paths.name(hidden)])
    assert sorted(paths.list_dir(tmp_path)) == sorted([*kept, "a"])
    writing.remove_left_over(tmp_path, is_locked=True)
    assert sorted(paths.list_dir(tmp_path)) == sorted(["a", *kept[1:]])


def test_a_file_is_moved_to_another_disk(tmp_path, monkeypatch):
    replace = os.replace

    def refuse(source, target):
        if os.path.dirname(source) != os.path.dirname(target):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a").write_text("old")
    (tmp_path / "other" / "a").chmod(0o600)
    (tmp_path / "a").write_text("new")
    writing.move(tmp_path / "a", tmp_path / "other" / "a")
    assert (tmp_path / "other" / "a").read_text() == "new"
    assert (tmp_path / "other" / "a").stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path / "other") == ["a"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_a_replaced_file_keeps_its_permissions(tmp_path):
    for mode in (0o600, 0o664):
        (tmp_path / "a").write_text("old")
        (tmp_path / "a").chmod(mode)
        writing.write_text(tmp_path / "a", "new")
        assert ((tmp_path / "a").read_text(), (tmp_path / "a").stat().st_mode & 0o777) == ("new", mode)


@pytest.mark.parametrize("machine", ["another-machine", socket.gethostname()])
def test_unfinished_work_of_another_machine_or_container_stays(tmp_path, monkeypatch, messages, machine):
    with monkeypatch.context() as other:
        other.setattr(os, "getpid", lambda: 99999999)
        other.setattr(os, "readlink", lambda path: "pid:[1]")
        for module, name in ((socket, "gethostname"), (platform, "node")):
            other.setattr(module, name, lambda: machine)
        theirs = writing.whole_folder(tmp_path / "out", ("last",))
        unfinished = theirs.__enter__()
        (unfinished / "a").touch()
    with writing.whole_folder(tmp_path / "out", ("last",)):
        assert (unfinished / "a").exists()
    [message] = messages
    assert message.startswith(f"{unfinished} is of a program on {machine}-1;")


def test_sha256(folder):
    writing.write_bytes(paths.join(folder, "a"), b"abc")
    assert writing.sha256(paths.join(folder, "a")).startswith("ba7816bf8f01cfea")


@pytest.mark.parametrize("is_there", [True, False])
def test_folder_appears_only_when_done(tmp_path, is_there):
    path = tmp_path / "out"
    if is_there:
        path.mkdir()
    with (  # noqa: PT012
        pytest.raises(OSError, match="No space left on device: '.*/out'"),
        writing.whole_folder(path, ("last",)) as folder,
    ):
        (folder / "half").touch()
        raise RuntimeError("Resource exhausted: No space left on device")
    assert sorted(tmp_path.rglob("*")) == ([path] if is_there else [])
    with writing.whole_folder(path, ("last",)) as folder:
        (folder / "last").touch()
        assert not (path / "last").exists()
    assert sorted(tmp_path.rglob("*")) == [path, path / "last"]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_to_a_folder_stays_and_the_files_that_readers_find_appear_last(tmp_path, monkeypatch, is_there):
    target = tmp_path / "target"
    (tmp_path / "out").symlink_to(target)
    if is_there:
        # Left by a process whose id does not exist: ids are below 2**22.
        (target / name_of(99999999).replace("a", "target", 1)).mkdir(parents=True)
    inode = target.stat().st_ino if is_there else None
    moved = []
    rename = pathlib.Path.rename
    monkeypatch.setattr(pathlib.Path, "rename", lambda path, to: (moved.append(path.name), rename(path, to)))
    with writing.whole_folder(tmp_path / "out", (".index",)) as folder:
        for name in ("a.index", "b", "c"):
            (folder / name).touch()
    assert sorted(os.listdir(target)) == ["a.index", "b", "c"]
    assert sorted(os.listdir(tmp_path)) == ["out", "target"]
    if is_there:
        assert target.stat().st_ino == inode
        assert moved == ["b", "c", "a.index"]
