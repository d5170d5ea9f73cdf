"""Processes that share work: nothing is done twice, and none of them outlives the one that leads."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from data_prep.workers import Workers, WorkFolder

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
    # Started in the background of a shell this process would not hear of Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with WorkFolder(path) as folder, Workers(2, None) as workers:
        list(workers.run(sleep, folder, {"a": 1, "b": 2}))


def has_ended(process):
    for _ in range(200):
        try:
            with open(f"/proc/{process}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True  # ended, and whoever inherited it has not asked for its status
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


def work(folder, number, tasks):
    with Workers(number, 100) as workers:
        return {name: result["square"] for name, result in workers.run(square, folder, tasks)}


def test_what_is_finished_is_not_done_again_and_no_process_is_left_after_a_death(tmp_path):
    with WorkFolder(str(tmp_path / "work")) as folder:
        with pytest.raises(
            ChildProcessError, match="one of the 2 worker processes died, perhaps because memory ran out"
        ):
            work(folder, 2, {"three": 3, "four": 4, "six": 6, "bad": "die"})
        finished = [result for name in ("three", "four", "six") if (result := folder.result(name))]
        assert all(has_ended(result["process"]) for result in finished)
        assert folder.result("bad") is None
        folder.forget("five")
        assert work(folder, 1, {"three": 3, "five": 5}) == {"three": 109, "five": 125}
        assert work(folder, 1, {"three": 3, "five": 5}) == {"three": 109, "five": 125}
        done = (tmp_path / "work" / "log").read_text().split()
        assert done.count("five") == 1
        folder.forget("three")
        folder.forget("three")
        assert folder.result("three") is None


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="asks /proc which processes there are")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_the_processes_end_with_the_one_that_leads(tmp_path, how):
    path = str(tmp_path / "work")
    code = f"from tests.data_prep.test_workers import lead; lead({path!r})"
    leader = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL, cwd=ROOT)
    started = [os.path.join(path, f"started-{name}.json") for name in "ab"]
    while not all(map(os.path.exists, started)):
        assert leader.poll() is None
        time.sleep(0.02)
    processes = [json.loads(pathlib.Path(file).read_text())["process"] for file in started]
    os.kill(leader.pid, how)
    try:
        assert leader.wait(timeout=20) != 0
    finally:
        leader.kill()
        leader.wait()
    assert all(map(has_ended, processes))


def test_a_folder_is_for_one_process_at_a_time(tmp_path):
    pytest.importorskip("fcntl")
    with (
        WorkFolder(str(tmp_path / "work")),
        pytest.raises(
            ValueError, match="another process is building the same files in .*work now; wait for it, or stop"
        ),
        WorkFolder(str(tmp_path / "work")),
    ):
        pass
    with WorkFolder(str(tmp_path / "work")):
        pass
