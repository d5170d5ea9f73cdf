"""Processes that share work: no task runs twice, and no worker outlives its parent."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from bert_keras.data_prep.corpus.workers import ThisProcess, Workers, WorkFolder
from bert_keras.storage import paths, writing

ROOT = pathlib.Path(__file__).resolve().parents[2]


def square(context, folder, name, task):
    with open(folder.file("log"), "a") as log:
        log.write(f"{name} ")
    if task == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return folder.finish(name, {"square": task * task + context, "process": os.getpid()})


def sleep(context, folder, name, task):
    folder.finish(f"started-{name}", {"process": os.getpid()})
    time.sleep(60)


def lead(path):
    # In the background of a shell this process would ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with WorkFolder(path) as folder, Workers(2, None) as workers:
        list(workers.run(sleep, folder, {"a": 1, "b": 2}))


def has_ended(process):
    for _ in range(200):
        try:
            with open(f"/proc/{process}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True  # it has ended, and its new parent has not read its status
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


def work(folder, number, tasks):
    with Workers(number, 100) as workers:
        return {name: result["square"] for name, result in workers.run(square, folder, tasks)}


def test_finished_tasks_are_not_repeated_and_no_process_survives_a_death(tmp_path):
    with WorkFolder(str(tmp_path / "work")) as folder:
        with pytest.raises(OSError, match="one of the 2 worker processes died, perhaps because"):
            work(folder, 2, {"three": 3, "four": 4, "six": 6, "bad": "die"})
        finished = [result for name in ("three", "four", "six") if (result := folder.result(name))]
        assert all(has_ended(result["process"]) for result in finished)
        assert folder.result("bad") is None
        assert work(folder, 1, {"three": 3, "five": 5}) == {"three": 109, "five": 125}
        assert work(folder, 1, {"three": 3, "five": 5}) == {"three": 109, "five": 125}
        done = (tmp_path / "work" / "log").read_text().split()
        assert done.count("five") == 1


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="asks /proc which processes there are")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_processes_end_with_the_main_process(tmp_path, how):
    path = str(tmp_path / "work")
    code = f"from tests.data_prep.test_workers import lead; lead({path!r})"
    leader = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL, cwd=ROOT)
    started = [os.path.join(path, f"started-{name}.json") for name in "ab"]
    while not all(map(os.path.exists, started)):
        assert leader.poll() is None
        time.sleep(0.02)
    processes = [json.loads(pathlib.Path(file).read_text())["result"]["process"] for file in started]
    os.kill(leader.pid, how)
    try:
        assert leader.wait(timeout=20) != 0
    finally:
        leader.kill()
        leader.wait()
    assert all(map(has_ended, processes))


def write(context, folder, name, task):
    files = []
    for number, content in enumerate(task):
        with folder.create(f"{name}.{number}") as file:
            file.write(content)
        files.append(file)
    return folder.finish(name, {"num_files": len(files)}, files)


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-1])


def change_a_byte(path):
    path.write_bytes(b"?" + path.read_bytes()[1:])


def empty(path):
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "damaged"),
    [
        (None, "a.0"),
        (cut_short, "a.1"),
        (change_a_byte, "a.0"),
        (pathlib.Path.unlink, "a.1"),
        (empty, "a.json"),
        (cut_short, "a.json"),
    ],
)
def test_entering_a_folder_forgets_tasks_whose_files_do_not_match_their_notes(tmp_path, damage, damaged, messages):
    path = tmp_path / "work"
    with WorkFolder(str(path)) as folder:
        results = dict(ThisProcess(None).run(write, folder, {"a": [b"one", b"two"], "b": [b""]}))
    assert results == {"a": {"num_files": 2}, "b": {"num_files": 1}}
    (path / ".a.0.unfinished-host-1-12345678").touch()
    if damage:
        damage(path / damaged)
    with WorkFolder(str(path)) as folder:
        assert folder.result("b") == {"num_files": 1}
        assert folder.result("a") == (None if damage else {"num_files": 2})
        assert not (path / ".a.0.unfinished-host-1-12345678").exists()
        assert messages == ([f"{path / damaged} is missing or damaged; making it again"] if damage else [])
        assert dict(ThisProcess(None).run(write, folder, {"a": [b"one", b"two"]})) == {"a": {"num_files": 2}}
    assert [(path / f"a.{number}").read_bytes() for number in (0, 1)] == [b"one", b"two"]


def test_files_that_another_task_replaced_may_be_missing(tmp_path, messages):
    with WorkFolder(str(tmp_path)) as folder:
        write(None, folder, "a", [b"one"])
        write(None, folder, "b", [b"two"])
        with folder.create("ab") as file:
            file.write(b"onetwo")
        folder.finish("ab", {}, [file], replaces=["a.0", "b.0"])
    for name in ("a.0", "b.0"):
        (tmp_path / name).unlink()
    with WorkFolder(str(tmp_path)) as folder:
        assert [folder.result(name) for name in ("a", "b", "ab")] == [{"num_files": 1}, {"num_files": 1}, {}]
    assert messages == []
    (tmp_path / "ab").write_bytes(b"onetwx")
    with WorkFolder(str(tmp_path)) as folder:
        assert [folder.result(name) for name in ("a", "b", "ab")] == [None] * 3


def test_no_task_waits_for_the_disk(tmp_path, monkeypatch):
    """The checksums of the notes show which files a power failure damaged."""
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("waited for the disk"))
    with WorkFolder(str(tmp_path / "work")) as folder:
        write(None, folder, "a", [b"one"])


@pytest.fixture
def has_locks():
    pytest.importorskip("fcntl")


def test_a_folder_can_be_used_again_while_it_is_deleted(tmp_path, monkeypatch, has_locks):
    """As long as the lock is held, no other process can enter; then the folder has another name already."""
    remove, path = paths.remove_dir, str(tmp_path / "work")

    def use_and_remove(old):
        with WorkFolder(path) as folder:
            assert folder.result("a") is None
            write(None, folder, "b", [b"two"])
            remove(old)

    with WorkFolder(path) as folder:
        write(None, folder, "a", [b"one"])
        with pytest.raises(ValueError, match="another process is building the same files"):
            WorkFolder(path).__enter__()
        monkeypatch.setattr(paths, "remove_dir", use_and_remove)
        folder.delete()
    assert os.listdir(tmp_path) == ["work"]
    assert sorted(os.listdir(path)) == ["b.0", "b.json", "lock"]


@pytest.mark.parametrize("is_new", [False, True])
def test_a_lock_in_a_folder_that_was_just_deleted_is_not_taken(tmp_path, monkeypatch, has_locks, is_new):
    path, lock = str(tmp_path / "work"), writing.lock

    def delete_and_lock(file):
        taken = lock(file)
        paths.remove_dir(path)
        if is_new:
            os.mkdir(path)
            pathlib.Path(file).touch()
        return taken

    monkeypatch.setattr(writing, "lock", delete_and_lock)
    with pytest.raises(ValueError, match="another process is building the same files"):
        WorkFolder(path).__enter__()


def test_failed_file_leaves_nothing(tmp_path):
    with WorkFolder(str(tmp_path / "work")) as folder, pytest.raises(TypeError), folder.create("a") as file:
        file.write(None)
    assert os.listdir(tmp_path / "work") == ["lock"]
