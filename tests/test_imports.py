"""An import of bert_keras or of a program, and a call of its API, change nothing for other libraries in the process."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from guards import at_least
from tiny_classes import write_start

from bert_keras.cli import start
from tests.test_architecture import COMMANDS

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Prints what differs when TensorFlow's import begins, and when every public name was imported.
IMPORTS = """
import contextlib, gc, importlib, logging, os, signal, sys, threading, warnings

def state():
    return {
        "environment": dict(os.environ),
        "files": {number: os.fstat(number) for number in (0, 1, 2)},
        "open files": len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0,
        "streams": (sys.stdin, sys.stdout, sys.stderr, sys.stdout.errors, sys.stderr.errors),
        "hidden modules": [name for name, module in sys.modules.items() if module is None],
        "garbage": (gc.isenabled(), gc.get_freeze_count(), gc.get_threshold()),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "hooks": (sys.excepthook, threading.excepthook, sys.argv[:], os.getcwd()),
        "logging": (logging.root.level, logging.root.handlers[:], logging.getLogger("bert_keras").level),
    }

def differences(after, names):
    return [name for name in names if after[name] != before[name]]

class Finder:
    found = None

    def find_spec(self, name, path=None, target=None):
        if name in ("tensorflow", "keras") and self.found is None:
            Finder.found = state()

sys.meta_path.insert(0, Finder())
before = state()
for package in ("bert_keras", "bert_keras.prediction"):
    module = importlib.import_module(package)
    assert package == "bert_keras" or len(module.__all__) > 5
    for name in module.__all__:
        getattr(module, name)
for name in PROGRAMS:
    importlib.import_module(name)
assert Finder.found, "nothing imported TensorFlow"
names = [name for name in before if name not in ("open files", "hooks")]
print("when TensorFlow begins:", differences(Finder.found, names))
after = state()
lasting = [name for name in before if name not in ("environment", "open files")]  # TensorFlow sets variables, too
print("at the end:", differences(after, lasting), *sorted(set(SET_BY_PROGRAMS) & set(os.environ)))
"""
# Uses what Keras offers with these libraries.
USES = """
import h5py, keras, matplotlib.figure, numpy, pandas, sklearn.datasets, tempfile
assert keras.config.backend() == "tensorflow" and keras.config.floatx() == "float32"
data, truth = sklearn.datasets.make_classification(20, 4, random_state=0)

def make(X=None, y=None):
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2, "softmax")])
    model.compile("sgd", "categorical_crossentropy")
    return model

model, other = make(), make()
with tempfile.TemporaryDirectory() as folder:
    for name in ("c.h5", "c.keras"):
        model.save(f"{folder}/{name}")
        loaded = keras.models.load_model(f"{folder}/{name}")
        assert numpy.array_equal(loaded.predict(data, verbose=0), model.predict(data, verbose=0))
    model.save_weights(f"{folder}/c.weights.h5")
    other.load_weights(f"{folder}/c.weights.h5")
    assert h5py.is_hdf5(f"{folder}/c.weights.h5")
classifier = keras.wrappers.SKLearnClassifier(make, fit_kwargs={"verbose": 0}).fit(data, truth)
assert len(classifier.predict(data)) == 20
model.fit(pandas.DataFrame(data), pandas.get_dummies(truth).astype(float), verbose=0)
print("used")
"""
LIBRARIES = ("h5py", "matplotlib", "pandas", "sklearn")


def run_process(program, **environment):
    names = {"SET_BY_PROGRAMS": [*start._ENVIRONMENT, start._ALLOCATOR_LIMIT]}
    names["PROGRAMS"] = ["bert_keras.programs.command", *(f"bert_keras.commands.{path.stem}" for path in COMMANDS)]
    settings = "".join(f"{name} = {value!r}\n" for name, value in names.items())
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TF_", "KERAS_"))}
    command = [sys.executable, "-c", settings + program]
    return subprocess.run(
        command, cwd=ROOT, env=kept | environment, capture_output=True, text=True, timeout=600, check=False
    )


def test_imports_change_nothing_and_keras_keeps_its_libraries():
    for name in LIBRARIES:
        pytest.importorskip(name)
    done = run_process(IMPORTS + USES)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert (*lines[:2], lines[-1]) == ("when TensorFlow begins: []", "at the end: []", "used")


def test_only_programs_start_tensorflow_and_only_in_their_own_process():
    """`start_tensorflow` is called where `__name__` is "__main__", or in a function; for some programs by `Program`.

    Where it is defined, it is also called for addresses, which `as_program` looks for.
    """
    calls = re.compile(r"^( *)start_tensorflow\(\)", re.MULTILINE)
    program = ROOT / "bert_keras" / "programs" / "command.py"
    # Not the whole root: `pip install .` leaves copies in build/, and an environment may be there, too.
    folders = ("bert_keras", "modeling", "data_prep", "benchmarks", "studies", "tools", "examples")
    paths = [*ROOT.glob("*.py"), *(path for name in folders for path in (ROOT / name).rglob("*.py"))]
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    users = [path for path, text in texts.items() if calls.search(text)]
    for path in at_least(10, users):
        is_program = path in (program, ROOT / "bert_keras" / "cli" / "start.py", *COMMANDS)
        assert is_program or not {"bert_keras", "modeling"} & set(path.relative_to(ROOT).parts), path
        assert calls.search(texts[path])[1], path
    takes_program = re.compile(r"^ *from bert_keras\.programs\.command import .*\b(PROGRAMS|Program)\b", re.MULTILINE)
    # A program gives itself to its demo, and calls from Python open its runs without starting TensorFlow.
    inside = {ROOT / "bert_keras" / name for name in ("__main__.py", "programs/trial.py", "programs/calls.py")}
    users = {path for path, text in texts.items() if takes_program.search(text)}
    assert users <= {*ROOT.glob("*.py"), *COMMANDS, *inside}
    assert "program.open_run" not in texts[ROOT / "bert_keras" / "programs" / "calls.py"]


BACKENDS = """
import keras, os
import bert_keras
try:
    bert_keras.FillMask(os.environ["MODEL"])
except ValueError as error:
    print(error)
"""


@pytest.mark.slow  # a process that imports TensorFlow and JAX
def test_the_backend_of_the_user_stays(tmp_path):
    """A message says where it matters, and no import chooses another one."""
    pytest.importorskip("jax")
    (tmp_path / "keras.json").write_text('{"backend": "jax"}')
    environment = {"KERAS_HOME": str(tmp_path), "MODEL": str(write_start(tmp_path / "model"))}
    done = run_process(BACKENDS + "print(keras.backend.backend(), os.environ.get('KERAS_BACKEND'))", **environment)
    message, backend = done.stdout.splitlines()
    assert message.startswith("Keras is set to run on jax (by KERAS_BACKEND or ~/.keras/keras.json), but prediction ")
    assert backend == "jax None"
