"""The blocks of the pages: each is run by a test, recorded by a script, or marked with the reason why not."""

import ast
import contextlib
import functools
import importlib
import importlib.util
import itertools
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import textwrap
import warnings

import pytest
from blocks import blocks_in, blocks_of, logical_lines, pages, scripts_of
from eager import without_graphs
from guards import at_least
from packaging.requirements import Requirement
from record import WIDTH, Recorder, main, rewritten, run_script, selected_lines, steps_of

from bert_keras import tasks
from bert_keras.programs.command import PROGRAMS
from bert_keras.tasks.reports.commands import command_line

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Shell programs that the tests run, and those whose arguments they only check.
RUN = ("cat", "cd", "cp", "export", "ls", "mkdir", "python", "tar", "unzip", "wait")
CHECKED = (".", ".ci/run", "git", "pip", "pytest", "python3", "ruff", "source")
# Training in the pages takes long; these flags come last and shorten it.
SHORT = {"train_batch_size": 4, "num_train_epochs": 1, "max_steps": 1, "num_seeds": 1}
# To explain errors reads each text many times: few large batches take a fraction of the time.
LARGE_BATCHES = {"eval_batch_size": 64}
SHORTENED = {
    **dict.fromkeys(("train_ner", "train_reranker", "train_sentence_vectors", "train_squad"), {"max_steps": 1}),
    "train_classifier": {"max_steps": 1, **LARGE_BATCHES},
    "run_classifier.py": SHORT | LARGE_BATCHES,
    "check_labels.py": {"folds": 2, "train_batch_size": 4, "num_train_epochs": 0.03},
    "run_ner.py": SHORT,
    "run_few_shot.py": {"contrastive_epochs": 1, **LARGE_BATCHES},
    "run_reranker.py": SHORT,
    "run_reviews.py": SHORT,
    "run_sentence_vectors.py": SHORT,
    "run_squad.py": SHORT,
    "run_pretraining.py": {
        "train_batch_size": 4,
        "num_train_steps": 2,
        "num_warmup_steps": 1,
        "eval_steps": 0,
        "save_checkpoints_steps": 2,
        "max_eval_steps": 1,
    },
    "data_prep/build_vocab.py": {"num_workers": 1},
}


def with_blocks(*kinds):
    return [page for page in pages() if any(block.kind in kinds for block in blocks_of(page))]


def is_run(block):
    """Returns whether a test has to run a block, or write it into a file."""
    return block.kind in ("commands", "python", "file") and "needs" not in block.marks


@pytest.mark.parametrize("page", at_least(40, with_blocks("commands", "python", "file", "output")))
def test_every_block_is_run_or_recorded_or_marked(page):
    blocks = blocks_of(page)
    steps_of(blocks)
    for block in blocks:
        assert all(reason for mark, reason in block.marks.items() if mark not in ("recorded", "first")), block.place
        if block.kind == "output":
            advice = "a test could not tell what this block is; docs/blocks.py lists the marks"
            assert {"recorded", "not recorded", "shows", "needs"} & set(block.marks), f"{block.place}: {advice}"
        elif block.kind == "python":
            compile(block.text, block.place, "exec")
        elif is_run(block) and block.kind == "commands":
            for line in logical_lines(block.text):
                for part in line.split("&&"):
                    words = without_assignments(part)
                    assert words[0] in RUN + CHECKED, f"{block.place}: no test runs {words[0]}; mark what it needs"


@pytest.mark.parametrize("page", pages())
def test_the_blocks_of_a_page_are_not_cut_at_the_right(page):
    """The site shows 85 columns next to its menus; an address cannot be broken."""
    for block in blocks_of(page):
        lines = [line for line in block.text.splitlines() if "first" not in block.marks and "https://" not in line]
        assert [line for line in lines if len(line) > WIDTH] == [], block.place


def test_the_changes_that_pages_show_fit_the_code():
    changes = [block for page in pages() for block in blocks_of(page) if block.language == "diff"]
    for block in at_least(1, changes):
        # It finds lines that have moved.
        subprocess.run(["git", "apply", "--check"], input=block.text, cwd=ROOT, text=True, check=True)


# Where commands and Python name what they read.
READ = re.compile(
    r"""--(?!output|export|work|\w*output)\w*(?:file|files|dir|checkpoint|teacher|corpus|input)=['"]?(?P<flag>[^\s'"]+)"""
    r"""|(?:open_model|open|read_csv|Path|from_\w+|Tokenizer|TextLineDataset|load)\("(?P<call>[^"\s{]+)"[,)]"""
    r"""|\w*(?:file|dir|checkpoint|teacher)="(?P<argument>[^"\s{]+)\""""
)
# Where they name what they write; docs/record.py knows the flags of the outputs.
WRITTEN = re.compile(r"--download=(\S+)|export_model\('(\w+)'\)|json_file\(\"(\S+)\"\)|> (?:\\\n)? *(\S+)")
ELSEWHERE = ("hf://", "gs://", "/", "~", "$", "-", "<")


@pytest.mark.parametrize("page", at_least(35, with_blocks("commands", "python")))
def test_a_page_uses_what_it_makes_or_names_in_its_text(page):
    """A reader in a new clone has only its files, what earlier blocks make, and what the text says they need."""
    blocks = blocks_of(page)
    text = re.sub(r"```.*?```|<!--.*?-->", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.S)
    named = {name.strip("/") for name in re.findall(r"`([^`]+)`", text)}
    made = set()
    for block in blocks:
        if block.kind in ("commands", "python", "file"):
            made |= {name for step in steps_of([block])[0] for name in step.made}
            made |= {name for names in WRITTEN.findall(block.text) for name in names}
        for match in READ.finditer(block.text) if block.kind in ("commands", "python") else ():
            for path in (match["flag"] or match["call"] or match["argument"]).split(","):
                first = path.split("/")[0]
                known = path.startswith(ELSEWHERE) or (ROOT / path).exists() or first in made
                assert known or {first, path} & named, f"{block.place}: the page does not say where {path} is from"


def without_assignments(part):
    words = shlex.split(part, comments=True)
    while re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    return words


@pytest.mark.slow  # trains and exports a model for each command
@pytest.mark.parametrize("page", at_least(25, (page for page in pages() if any(map(is_run, blocks_of(page))))))
def test_the_commands_and_the_python_of_a_page_run(page, tmp_path, monkeypatch, capsys, request):
    from page_files import write_files  # the quick tests do not need TensorFlow
    from tiny_exports import converters_in_this_process, saved_models_in_this_process

    monkeypatch.chdir(tmp_path)
    # A task that a page adds is unknown to later tests of this process.
    monkeypatch.setattr(tasks, "_TASKS", {**tasks._TASKS})
    blocks = [block for block in blocks_of(page) if is_run(block)]
    if any("import pandas" in block.text for block in blocks):
        pytest.importorskip("pandas")
    blocks = [block for number, block in enumerate(blocks) if is_used(block, blocks[number + 1 :])]
    for path in ROOT.iterdir():
        if path.suffix == ".py" or path.name in ("bert_keras", "data_prep", "docs", "examples", "studies", "tools"):
            (tmp_path / path.name).symlink_to(path)
    write_files(page, "\n".join(block.text for block in blocks), tmp_path)
    names = {"__name__": "__main__"}
    with converters_in_this_process(), saved_models_in_this_process(), without_graphs():
        for block in blocks:
            with telling(block.place):
                if block.kind == "file":
                    name = block.marks["file"]
                    (tmp_path / name).write_text(block.text, encoding="utf-8")
                    request.addfinalizer(functools.partial(sys.modules.pop, name.removesuffix(".py"), None))
                elif block.kind == "python":
                    exec(compile(shorter(block.text), block.place, "exec"), names)
                else:
                    for script in scripts_of(block.text):
                        run(script, pathlib.Path.cwd(), monkeypatch)
            capsys.readouterr()


def shorter(code):
    """Returns the syntax tree of Python code in which `train_classifier` and its like take a few steps."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SHORTENED:
            changes = dict(SHORTENED[node.func.id])
            if any(keyword.arg == "eval_steps" for keyword in node.keywords):
                changes["eval_steps"] = 1
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in changes]
            node.keywords += [ast.keyword(name, ast.Constant(value)) for name, value in changes.items()]
    return ast.fix_missing_locations(tree)


def is_used(block, later):
    """Returns whether a block is on the page, or makes what a later block uses and not only the output on the page."""
    names = re.findall(r"--(?:output|export)\w*=([\w.]+)", block.text)
    return "first" not in block.marks or any(name in other.text for name in names for other in later)


@contextlib.contextmanager
def telling(place):
    """Adds the place of a block to an error."""
    try:
        yield
    except BaseException as error:
        error.add_note(place)
        raise


def run(script, folder, monkeypatch):
    """Runs a part of a block of commands: programs of the project in this process, others in a shell."""
    parts = [part.strip() for part in script.split("&&")]
    if re.search(r"[|<>&$]", re.sub(r"'[^']*'|&&", "", script)):
        run_in_shell(script, folder)
        return
    for part in parts:
        words = shlex.split(part, comments=True)
        if words[0] == "cd":
            monkeypatch.chdir(words[1])
        elif words[0] in CHECKED:
            check(words)
        elif words[0] == "python" and words[1].endswith(".py"):
            run_program(words[1], words[2:], folder)
        else:
            run_in_shell(part, folder)


def run_program(program, arguments, folder):
    """Runs a program in this process, with flags that shorten it."""
    if not arguments and (ROOT / program).exists():
        return  # a demo, which another test runs, and whose output page_files.py replaces
    text = (folder / program).read_text(encoding="utf-8")
    if program.startswith("docs/") or not re.search(r"def main|run_program\(", text):
        assert program not in SHORTENED  # a shell would run it in full
        run_in_shell(shlex.join(["python", program, *arguments]), folder)
        return
    changes = SHORTENED.get(program, {})
    if program == "check_labels.py" and "--fine_tune" not in arguments:
        changes = {"folds": changes["folds"]}
        if "--contrastive_epochs" in str(arguments):
            changes["contrastive_epochs"] = 1
    elif program.startswith("run_"):
        changes = changes if "--do_train" in arguments else {}
    elif any(argument.startswith("--num_workers") for argument in arguments):
        changes = {"num_workers": 2}
    # A search tries two learning rates.
    arguments = [re.sub(r"^(--learning_rate=[^,]+,[^,]+),.*", r"\1", argument) for argument in arguments]
    # The last step of a run that the test has shortened.
    arguments = [re.sub(r"(\w+)/model\.ckpt-\d+$", newest_checkpoint, argument) for argument in arguments]
    arguments = [*arguments, *(f"--{name}={value}" for name, value in changes.items())]
    with data_of_tensorflow_datasets() if "--tfds" in str(arguments) else contextlib.nullcontext():
        assert module_of(program, folder).main([program, *arguments]) != 1


def newest_checkpoint(match):
    """Returns the newest checkpoint in the folder of a match, if the named one is not there."""
    folder = pathlib.Path(match[1])
    if (folder / "checkpoint").exists() and not list(folder.glob(f"{match[0].split('/')[1]}.*")):
        return match[1]
    return match[0]


FOLDERS = ("data_prep", "studies")


def module_of(program, folder):
    """Imports a program of the project, or one that a page shows."""
    if (ROOT / program).exists():
        folder_name, _, name = program.removesuffix(".py").rpartition("/")
        if name in PROGRAMS:
            return PROGRAMS[name]
        return importlib.import_module(f"bert_keras.{folder_name if folder_name in FOLDERS else 'commands'}.{name}")
    spec = importlib.util.spec_from_file_location(pathlib.Path(program).stem, folder / program)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def data_of_tensorflow_datasets():
    """Replaces downloads by made-up examples."""
    tfds = pytest.importorskip("tensorflow_datasets")
    with warnings.catch_warnings(), tfds.testing.mock_data(num_examples=8):
        warnings.simplefilter("ignore")
        yield


def run_in_shell(script, folder):
    """Runs a command as the recorder does, with less training and with free ports."""
    for name, value in SHORTENED["run_pretraining.py"].items():
        script = re.sub(rf"--{name}=\S+?(?=['\s]|$)", f"--{name}={value}", script)
    for port in sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", script))):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            script = script.replace(port, str(taken.getsockname()[1]))
    result = run_script(script, "shell", folder)
    assert result["status"] == 0, "\n".join(line for _, line in result["lines"])


def check(words):
    """Checks the arguments of a program that tests do not run."""
    arguments = [word for word in words[1:] if not word.startswith("-")]
    if words[0] == "pip":
        extras = set()
        for argument in arguments[1:]:
            if argument.startswith("."):
                extras |= set(re.findall(r"[\w-]+", argument.partition("[")[2]))
            elif "=" not in argument or argument[0].isalpha() and not argument.startswith("editable_mode"):
                Requirement(argument)
        assert extras <= extras_of_setup()
    elif words[0] == "pytest":
        assert [name for name in arguments if "/" in name and not (ROOT / name).exists()] == []
    elif words[0] == ".ci/run":
        assert (ROOT / words[0]).exists()


def extras_of_setup():
    """Returns the names of the extras in setup.py."""
    for node in ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "EXTRAS":
            return {key.value for key in node.value.keys}
    raise AssertionError("setup.py has no EXTRAS")


PAGE = """
<!-- needs: a TPU -->
```
python train.py --use_tpu
```
<!-- first: python -c "open('made.txt', 'w').write('a\\nb\\n')" --output_file=made.txt -->
```
# A comment, and a line in two parts.
cat made.txt \\
  made.txt
cat missing.txt
echo one; echo two >&2; python -c "print('x' * 60, 'y' * 70)"
pip install -e . && echo set up && echo three
```

<!-- recorded
of echo one
line ^b
...
-->
   ```text
   old
   ```
"""


def test_the_page_of_the_installation_has_all_extras():
    page = (ROOT / "docs/guides/install.md").read_text(encoding="utf-8")
    section = page.split("\n## Extras\n")[1].split("\n## ")[0]
    assert sorted(re.findall(r"^\| `([^`]+)` \|", section, re.M)) == sorted(extras_of_setup())


def test_blocks_have_marks_lines_and_text():
    first, second, third, fourth = blocks_in(PAGE, "a page")
    assert first.marks == {"needs": "a TPU"}
    assert (first.kind, first.line, first.place) == ("commands", 3, "a page line 3")
    assert (second.kind, second.marks) == ("commands", {"first": ""})
    assert scripts_of(third.text)[1] == "cat missing.txt"
    assert (fourth.kind, fourth.text, fourth.indent) == ("output", "old\n", "   ")
    assert fourth.marks["recorded"].splitlines() == ["of echo one", "line ^b", "..."]
    assert blocks_in("```py\nx\n```\n", "a page")[0].kind == "python"


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ("a 'b\nc'\nd", ["a 'b\nc'", "d"]),
        ("a  # why\n\n# only\nb", ["a  # why", "b"]),
        ("export A=1\nb", ["export A=1\nb"]),
        ("a &\nb", ["a &\nb"]),
    ],
)
def test_a_block_of_commands_is_cut_into_scripts(text, scripts):
    assert scripts_of(text) == scripts


LINES = [("stderr", "step 1"), ("stdout", "x"), ("stderr", "step 2"), ("stdout", "y " * 70 + "z"), ("stderr", "end")]


@pytest.mark.parametrize(
    ("mark", "lines"),
    [
        ("", ["step 1", "x", "step 2", ("y " * 42 + "y"), "    " + "y " * 27 + "z", "end"]),
        ("stdout\nline z$", [("y " * 42 + "y"), "    " + "y " * 27 + "z"]),
        ("line ^step\n...\nline ^end", ["step 1", "...", "end"]),
        ("from x\nto step", ["x", "step 2"]),
        ("without step\nwithout z\nfrom x\nto the end\nrun: before", ["x", "end"]),
    ],
)
def test_a_mark_selects_lines(mark, lines):
    assert selected_lines({"lines": LINES}, mark.splitlines()) == lines


def test_a_mark_that_fits_no_line_is_an_error():
    with pytest.raises(ValueError, match="no line after line 1 of the output fits `line step 1`"):
        selected_lines({"lines": LINES}, ["line step", "line step 1"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["run_classifier.py", "--do_train", *(f"--flag_{number}={'x' * number * 5}" for number in range(12))],
        ["predict.py", "--model_dir=a folder/of the user", "your first text, which is long", "it's another text " * 3],
        ["serve.py", "--model_dir=out"],
        ["run_ner.py", f"--train_file={'long/' * 30}words.txt", "--output_dir=$HOME/`x`", '"quoted" text', "a  b"],
    ],
)
def test_a_command_that_a_program_shows_can_be_pasted(arguments):
    before, after = (
        "It is the same as this command; this line of the log is wrapped, too, but without backslashes:",
        "end",
    )
    lines = [("stdout", line) for line in (before, *command_line(arguments).splitlines(), after)]
    shown = selected_lines({"lines": lines}, [])
    assert max(map(len, shown)) <= max(WIDTH, *(len(shlex.quote(argument)) + 8 for argument in arguments))
    assert shown[-1] == after
    assert not shown[0].endswith("\\")
    start = next(place for place, line in enumerate(shown) if line.startswith("  python "))
    assert logical_words("\n".join(shown[start:-1])) == [["python", *arguments]]


def logical_words(text):
    return [shlex.split(line) for line in text.replace("\\\n", "").splitlines()]


def test_each_command_of_the_pages_that_goes_over_lines_can_be_pasted():
    commands = re.compile(r"^ *(?:python|pip|bert|docker|curl)\S* [^\n]*\n(?: +-\S[^\n]*\n)*", re.MULTILINE)
    num_long = 0
    blocks = [block for page in pages() for block in blocks_of(page)]
    for block in (block for block in blocks if block.language in ("", "bash", "sh", "text")):
        for found in commands.finditer(block.text):
            lines = found[0].splitlines()
            num_long += len(lines) > 1
            for line, following in itertools.pairwise(lines):
                if re.match(r" +-", following):
                    assert line.endswith(" \\"), f"{block.place}: {line}"
            text = block.text[found.start() :]
            whole = re.match(r"(?:[^\n]*\\\n)*[^\n]*", text)[0]
            assert not whole.endswith("\\"), f"{block.place}: nothing follows the backslash"
            if not re.search(r"<<|\$\(|'$", whole):
                shlex.split(whole)
    assert num_long > 10


def test_the_recorder_runs_what_an_output_needs_and_keeps_it(tmp_path, capsys):
    """The command that fails is not needed."""
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("echo one", "cat made.txt; echo one").replace("missing", "not_there"), "utf-8")
    Recorder(tmp_path / "work", None).record(str(page))
    text = page.read_text(encoding="utf-8")
    assert "   ```text\n   b\n   ...\n   ```\n" in text
    assert re.search(r"<!-- recorded\n.*\nline \^b\n\.\.\.\nrun: 20.* s on .*TensorFlow", text)
    assert capsys.readouterr().out.count("page: ") == 2
    # Another selection of the same output needs no run.
    again = page.read_text(encoding="utf-8").replace("line ^b\n...", "stdout\nline x")
    page.write_text(again, "utf-8")
    Recorder(tmp_path / "work", None).record(str(page))
    text = page.read_text(encoding="utf-8")
    assert textwrap.indent(f"{'x' * 60}\n    {'y' * 70}\n", "   ") in text
    assert text.count("run: ") == 1
    assert capsys.readouterr().out == ""


def test_a_command_that_fails_leaves_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("echo one", "exit 3"), "utf-8")
    before = page.read_text(encoding="utf-8")
    with pytest.raises(RuntimeError, match="exit status 3 of\nexit 3"):
        Recorder(tmp_path / "work", None).record(str(page))
    assert page.read_text(encoding="utf-8") == before


def test_a_page_that_changes_in_the_meantime_is_not_rewritten():
    blocks = blocks_in(PAGE, "a page")
    with pytest.raises(ValueError, match="its blocks changed while the commands ran"):
        rewritten(PAGE.replace("echo one", "echo two"), "a page", blocks, {})


def test_the_recorder_names_a_page_that_it_cannot_record(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "sys.argv", ["record.py", f"--work_dir={tmp_path}", "missing.md", "docs/explanation/performance.md"]
    )
    assert main() == 1
    out, err = capsys.readouterr()
    assert "missing.md: not recorded: [Errno 2] No such file or directory" in err
    assert out == "docs/explanation/performance.md: 0 outputs\n"


def test_the_recorder_does_not_set_up_a_machine():
    steps, recorded = steps_of(blocks_in(PAGE.replace("of echo one\n", ""), "a page"))
    assert steps[-1].text == "echo set up && echo three"
    assert [step.text for step in recorded.values()] == ["echo set up && echo three"]


def test_a_demo_makes_a_folder_that_later_commands_use():
    page = "```\npip install -e . && python run_x.py\npython predict.py --model_dir=bert_demo/model x\n```\n"
    demo, predict = steps_of(blocks_in(page, "a page"))[0]
    assert (demo.text, demo.made) == ("python run_x.py", {"bert_demo"})
    assert predict.with_needed() == [demo, predict]


def test_a_line_of_a_mark_that_is_not_a_rule_is_an_error():
    with pytest.raises(ValueError, match="a page line 21: `lines x` in the mark is not a rule"):
        steps_of(blocks_in(PAGE.replace("line ^b", "lines x"), "a page"))


def test_an_output_without_a_command_is_an_error():
    with pytest.raises(ValueError, match="a page line 2: no command before the block has this output"):
        steps_of(blocks_in("<!-- recorded -->\n```text\n```\n", "a page"))


def test_other_text_of_a_page_does_not_change():
    blocks = blocks_in(PAGE, "a page")
    text = rewritten(PAGE, "a page", blocks, {blocks[-1].line: ("new", "today")})
    assert text == PAGE.replace("   old", "   new").replace("...\n-->", "...\nrun: today\n-->")
