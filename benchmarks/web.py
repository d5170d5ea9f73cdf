"""Measures a classifier that runs in a browser: size, time to open, and time to answer.

    python benchmarks/web.py --init_checkpoint=minilm --work_dir=/tmp/web

The encoder is pre-trained; its head of two classes is random, which takes the same time. Chromium opens each export
from a server on this computer and answers a text of 32 tokens, and one of 128, one at a time. The tokenizer cuts a text
of 10,000 characters. Prints tables in Markdown. Needs Chromium, Node.js and npm.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bert_keras.cli.start import start_tensorflow

start_tensorflow()

import json
import subprocess

import numpy as np
from absl import flags

from benchmarks.browser import find_chromium, run_in_chromium
from benchmarks.machine import describe_machine, make_work_dir, spread, use_device
from bert_keras.cli.flags import parse, require, run_main
from bert_keras.export.api import export_model
from bert_keras.export.formats.web_runtime import VERSION
from bert_keras.modeling import (
    HEAD_PATTERNS,
    POOLER_PATTERNS,
    ClassifierModel,
    load_weights,
    save_checkpoint,
    weights_by_name,
)
from bert_keras.prediction.loading.model_files import open_model_files, preparation_text
from bert_keras.storage import paths

_SETTINGS = {"task": "classification", "labels": ["no", "yes"], "is_pair": False, "max_seq_length": 128}
_SETTINGS |= {"doc_stride": None, "step": 0, "metrics": {}}
_LENGTHS = (32, 128)
_SCRIPT = """
const started = performance.now();
const { answers, tokens } = await import("./backend.js");
await tokens("", { text: "a" });
const opened = performance.now() - started;
const time = async (call) => {
  await call();
  const times = [];
  for (let round = 0; round < %d; round++) {
    const begun = performance.now();
    await call();
    times.push(performance.now() - begun);
  }
  return times;
};
const [texts, long] = %s;
const found = {};
for (const [length, text] of Object.entries(texts)) found[length] = await time(() => answers("", [{ text }], {}));
return { opened, found, tokens: await time(() => tokens("", { text: long })) };
"""


def define_flags():
    """Returns the flags of this benchmark."""
    values = flags.FlagValues()
    flags.DEFINE_string("init_checkpoint", None, "The encoder, a folder.", flag_values=values)
    flags.DEFINE_string("work_dir", None, "Folder for the exports; new or empty.", flag_values=values)
    flags.DEFINE_integer("num_rounds", 20, "Number of measurements.", lower_bound=1, flag_values=values)
    return values


def main(argv):
    """Runs the benchmark."""
    values = define_flags()
    parse(values, argv, __doc__)
    require(values, ("init_checkpoint", "work_dir"))
    if not find_chromium():
        raise ValueError("Chromium is not installed; install the package chromium of your system")
    use_device("cpu")
    work_dir = make_work_dir(values.work_dir)
    files = open_model_files(values.init_checkpoint)
    write_classifier(files, work_dir / "run" / "model")
    words = [token for token in files.tokenizer.vocab if token.isascii() and token.isalpha()]
    random = np.random.default_rng(0)
    texts = {length: " ".join(random.choice(words, length - 2)) for length in _LENGTHS}
    long = " ".join(random.choice(words, 3000))[:10_000]
    script = _SCRIPT % (values.num_rounds, json.dumps([texts, long]))
    rows = []
    for quantize in ("float32", None):
        folder = work_dir / (quantize or "int8")
        export_model(work_dir / "run", export_dir=folder, format=["web"], quantize=quantize, verbose=False)
        result, _ = run_in_chromium(folder / "web", script)
        sizes = {file.name: file.stat().st_size for file in (folder / "web").iterdir()}
        rows.append((folder.name, sizes, result))
    chromium = subprocess.run([find_chromium(), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    print(
        f"`python {' '.join(argv)}`\n\n{describe_machine(('onnxruntime',))}; onnxruntime-web {VERSION}; {chromium}.\n"
    )
    print_tables(rows, values.num_rounds)


def write_classifier(files, folder):
    """Writes the encoder with a random head as the model of a run."""
    model = ClassifierModel(files.config, len(_SETTINGS["labels"]))
    load_weights(
        weights_by_name(model),
        files.checkpoint,
        new_allowed=("output_weights", "output_bias", *POOLER_PATTERNS),
        ignored=HEAD_PATTERNS,
    )
    folder.mkdir(parents=True)
    save_checkpoint(folder / "model.ckpt-0", weights_by_name(model))
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-0"\n')
    files.config.to_json_file(folder / "bert_config.json")
    paths.copy(files.vocab_file, folder / "vocab.txt")
    (folder / "tokenizer_config.json").write_text(preparation_text(files.preparation))
    (folder / "task.json").write_text(json.dumps(_SETTINGS))


def print_tables(rows, num_rounds):
    """Prints sizes in MB, and times in ms."""
    print(f"Median (lowest to highest) of {num_rounds} rounds, in ms.\n")
    print("| weights | opened in | " + " | ".join(f"{length} tokens" for length in _LENGTHS) + " | 10,000 characters |")
    print("| --- |" + " ---: |" * (len(_LENGTHS) + 2))
    for name, _, result in rows:
        times = [*(result["found"][str(length)] for length in _LENGTHS), result["tokens"]]
        print(f"| {name} | {result['opened']:.0f} | {' | '.join(spread(each, 1) for each in times)} |")
    print("\n| weights | model.onnx, MB | whole folder, MB |\n| --- | ---: | ---: |")
    for name, sizes, _ in rows:
        print(f"| {name} | {sizes['model.onnx'] / 1e6:.1f} | {sum(sizes.values()) / 1e6:.1f} |")


if __name__ == "__main__":
    sys.exit(run_main(main, sys.argv))
