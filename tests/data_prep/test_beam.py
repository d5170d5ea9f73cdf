"""Building with Apache Beam gives the same files as several processes, byte for byte. Needs the extra [beam]."""

import importlib.util
import os
import pathlib
import random
import socket
import sys

import pytest

from bert_keras.data_prep import create_pretraining_data, create_pretraining_data_beam
from bert_keras.data_prep.corpus import beam_workers
from bert_keras.data_prep.corpus.text_lines import UnusableTextError
from bert_keras.data_prep.corpus.workers import WorkFolder
from bert_keras.data_prep.pretraining import build as builder
from bert_keras.mistakes import Mistake

ROOT = pathlib.Path(__file__).resolve().parents[2]
needs_beam = pytest.mark.skipif(importlib.util.find_spec("apache_beam") is None, reason="apache-beam is not installed")


@pytest.fixture
def arguments(tmp_path, letters_vocab_file):
    (tmp_path / "text").write_text("ab c def\ngh i\njklm no\n\npq r\nstu\nvw x\n\nyz\n\n" * 20)
    return [
        "create_pretraining_data_beam.py",
        f"--input_file={tmp_path}/text",
        f"--vocab_file={letters_vocab_file}",
        f"--output_file={tmp_path}/out/train.tfrecord.gz",
        "--num_shards=2",
        "--max_seq_length=16",
        "--max_predictions_per_seq=3",
    ]


def built_as_in_several_processes(arguments, folder, *options):
    """Returns the summary and the files of a build with Beam, which several processes give, too."""
    summary = create_pretraining_data_beam.main([*arguments, "--", *options])
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert create_pretraining_data.main([*arguments, "--num_workers=2"]) == summary
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == found
    return summary, found


@needs_beam
@pytest.mark.filterwarnings("ignore")  # Beam's own warnings
@pytest.mark.parametrize("mode", ["in_memory", "multi_processing"])
def test_the_files_are_those_of_several_processes(arguments, tmp_path, monkeypatch, mode):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for the processes that Beam starts
    options = ["--runner=DirectRunner", f"--direct_running_mode={mode}", "--direct_num_workers=2"]
    summary, found = built_as_in_several_processes(arguments, tmp_path / "out", *options)
    assert sorted(found) == [
        "train-00000-of-00002.tfrecord.gz",
        "train-00000-of-00002.tfrecord.gz.json",
        "train-00001-of-00002.tfrecord.gz",
        "train-00001-of-00002.tfrecord.gz.json",
    ]
    assert summary["instances"] > 200


@needs_beam
@pytest.mark.filterwarnings("ignore")  # Beam's own warnings
def test_cleaning_and_the_held_out_share_are_those_of_several_processes(arguments, tmp_path):
    letters = random.Random(0)
    documents = ["\n".join(" ".join(letters.choices("abcdefgh", k=8)) for _ in range(6)) for _ in range(60)]
    documents += [*documents[:10], "é é é", "x"]
    (tmp_path / "text").write_text("\n\n".join(documents))
    arguments += [
        f"--eval_output_file={tmp_path}/out/eval.tfrecord.gz",
        "--eval_share=0.2",
        "--remove_duplicates=exact",
        "--min_document_words=3",
    ]
    summary, _ = built_as_in_several_processes(arguments, tmp_path / "out", "--runner=DirectRunner")
    assert summary["eval"]["instances"] > 0
    removed = {name: counts["documents"] for name, counts in summary["cleaning"].items()}
    assert [removed[name] for name in ("short", "exact_duplicates")] == [1, 10]


@needs_beam
@pytest.mark.filterwarnings("ignore")  # Beam's own warnings
def test_workers_outside_of_the_job_server_make_the_same_files(arguments, tmp_path):
    from apache_beam.runners.portability.local_job_service import LocalJobServicer
    from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer

    jobs = LocalJobServicer(str(tmp_path / "staging"))
    port, (address, pool) = jobs.start_grpc_server(0), BeamFnExternalWorkerPoolServicer.start()
    options = ["--runner=PortableRunner", f"--job_endpoint=localhost:{port}", "--environment_type=EXTERNAL"]
    try:
        built_as_in_several_processes(arguments, tmp_path / "out", *options, f"--environment_config={address}")
    finally:
        pool.stop(0)
        jobs.stop()


@needs_beam
@pytest.mark.filterwarnings("ignore")  # Beam's own warnings
@pytest.mark.parametrize("mode", ["in_memory", "multi_processing"])
def test_mistake_in_the_text_is_one_sentence(arguments, tmp_path, monkeypatch, mode):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for the processes that Beam starts
    (tmp_path / "text").write_bytes(b"a\n\xff\n")
    options = ["--", "--runner=DirectRunner", f"--direct_running_mode={mode}", "--direct_num_workers=2"]
    with pytest.raises(ValueError, match=r"^\S*text line 2: byte 0xff is not valid UTF-8; convert .* such bytes$"):
        create_pretraining_data_beam.main([*arguments, "--strict_utf8", *options])
    assert not (tmp_path / "out").exists()


@needs_beam
def test_a_job_server_that_does_not_answer_is_named_at_once(arguments, tmp_path):
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    options = ["--", "--runner=PortableRunner", f"--job_endpoint=localhost:{port}"]
    with pytest.raises(ValueError, match=f"^no job server of Apache Beam answers at job_endpoint=localhost:{port} "):
        create_pretraining_data_beam.main([*arguments, *options])
    assert not (tmp_path / "out").exists()


IN_A_WORKER = (
    "Error received from SDK harness:\nTraceback (most recent call last):\n  File x\n{} [while running 'Map']\n"
)
REFUSED = '<_InactiveRpcError of RPC that terminated with:\n\tstatus = UNAVAILABLE\n\tdetails = "refused by host:5"\n>'


@needs_beam
@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (RuntimeError("Unable to fetch remote jar at URL"), "the runner .* needs a file. Unable to fetch remote jar"),
        (FileNotFoundError(2, "No such file", "java"), "needs Java, but there is no program java"),
        (RuntimeError(f"failed: grpc._channel.{REFUSED}"), "^Apache Beam has no connection: refused by host:5; check"),
        (
            RuntimeError(IN_A_WORKER.format("ModuleNotFoundError: No module named 'bert_keras'")),
            "has no bert_keras; inst",
        ),
        (RuntimeError(IN_A_WORKER.format("bert_keras.mistakes.MissingFile: a: no such file")), "^a: no such file$"),
        (RuntimeError(IN_A_WORKER.format("bert_keras.mistakes.Mistake: a mistake")), "^a mistake$"),
    ],
)
def test_what_a_runner_lacks_is_one_sentence(error, sentence):
    with pytest.raises(Mistake, match=sentence), beam_workers._in_one_sentence():
        raise error


@needs_beam
def test_a_mistake_of_a_task_keeps_its_class():
    text = IN_A_WORKER.format("bert_keras.data_prep.corpus.text_lines.UnusableTextError: a line 2: no text")
    with pytest.raises(UnusableTextError, match="^a line 2: no text$"), beam_workers._in_one_sentence():
        raise RuntimeError(text)


@needs_beam
@pytest.mark.parametrize(
    "error", [RuntimeError(IN_A_WORKER.format("KeyError: 'x'")), FileNotFoundError(2, "No such file", "text")]
)
def test_other_errors_of_a_runner_stay_as_they_are(error):
    with pytest.raises(type(error)) as raised, beam_workers._in_one_sentence():
        raise error
    assert raised.value is error


@needs_beam
def test_mistyped_runner_costs_no_finished_work(arguments, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    options = ["--", "--runner=DirectRunner"]
    with monkeypatch.context() as patch:
        patch.setattr(builder, "publish", stop)
        with pytest.raises(KeyboardInterrupt):
            create_pretraining_data_beam.main([*arguments, *options])
    before = sorted((tmp_path / "out").rglob("*"))
    assert len(before) > 5
    with pytest.raises(ValueError, match="Apache Beam rejects --runner=DirectRuner: "):
        create_pretraining_data_beam.main([*arguments, "--", "--runner=DirectRuner"])
    assert sorted((tmp_path / "out").rglob("*")) == before
    create_pretraining_data_beam.main([*arguments, *options])
    assert len(list((tmp_path / "out").iterdir())) == 4


def test_remote_outputs_need_a_folder_that_all_machines_see(arguments):
    with pytest.raises(ValueError, match="output_file=gs://b/out is remote, so give work_dir, a folder"):
        create_pretraining_data_beam.main([*arguments, "--output_file=gs://b/out"])


@needs_beam
def test_a_dry_run_needs_no_output(arguments, tmp_path):
    arguments = [argument for argument in arguments if not argument.startswith("--output_file")] + ["--dry_run"]
    assert create_pretraining_data_beam.main(arguments) == create_pretraining_data.main(arguments)
    assert not (tmp_path / "out").exists()


def test_a_result_that_appears_late_is_waited_for(tmp_path, monkeypatch):
    """NFS, for example, may hide a new file from other machines for a while."""
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        if len(waited) == 3:
            folder.finish("late", {"number": 1})

    monkeypatch.setattr(beam_workers.time, "sleep", sleep)
    with WorkFolder(str(tmp_path)) as folder:
        assert beam_workers._wait_for("late", folder) == {"number": 1}
        assert len(waited) == 3
        monkeypatch.setattr(beam_workers, "_SECONDS_UNTIL_VISIBLE", 0.0)
        with pytest.raises(OSError, match="the result of its task never is not in .*; all machines need to"):
            beam_workers._wait_for("never", folder)


def test_a_task_that_a_runner_does_twice_spoils_nothing(tmp_path):
    """The second run may start after the deletion of its input, or write while another task reads the first file."""
    done = []

    def write(context, folder, name, task):
        done.append(name)
        return folder.finish(name, {})

    with WorkFolder(str(tmp_path)) as folder:
        for _ in range(2):
            beam_workers._Task(write, None, folder)("a", None)
        assert done == ["a"]
        with folder.create("file") as first:
            first.write(b"one")
        with open(folder.file("file"), "rb") as reading:
            with folder.create("file") as second:
                second.write(b"o")
                assert os.path.getsize(folder.file("file")) == 3
                second.write(b"ne")
            assert reading.read() == b"one"


def test_missing_package_is_named_before_any_work(arguments, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    monkeypatch.setitem(sys.modules, "apache_beam.options.pipeline_options", None)
    with pytest.raises(ValueError, match=r"apache-beam is not installed; run pip install 'bert-keras\[beam\]'"):
        create_pretraining_data_beam.main(arguments)
    assert not (tmp_path / "out").exists()


def test_flags_are_those_of_the_other_program_but_for_the_processes():
    flags = create_pretraining_data.define_flags().flag_values_dict()
    del flags["num_workers"]
    assert create_pretraining_data_beam.define_flags().flag_values_dict() == flags
