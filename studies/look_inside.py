#!/usr/bin/env python3
"""Shows the attention of a model on a text, in one HTML file that needs no network.

    python studies/look_inside.py --model_dir=uncased_L-12_H-768_A-12 "The cat sat because it was tired."
    python studies/look_inside.py --model_dir=news --output_file=why.html "Where is it?" "It is in Paris."

The page has the attention of every head, from each token to each token. Tables list what each head looks at ([SEP], the
previous and the next token, the token itself; the entropy in bits), and how the vectors change from layer to layer. A
model is a checkpoint of pre-training or the run folder of a fine-tuned model. Two texts are a pair. With --json, the
tables go to standard output.
"""

import json
import pathlib
import sys
from typing import Any, cast

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import parse, require, run_main
from bert_keras.cli.start import start_tensorflow
from bert_keras.mistakes import Mistake
from bert_keras.settings.fields import define_group
from bert_keras.settings.model_files import ModelSettings
from bert_keras.storage import paths
from bert_keras.storage.checks import check_output_file
from bert_keras.storage.writing import write_text


def define_flags():
    """Returns the flags of this program as an `absl.flags.FlagValues`."""
    values = flags.FlagValues()
    define: dict[str, Any] = {"flag_values": values}
    flags.DEFINE_string("model_dir", None, "Required. Checkpoint, its folder, a run, or hf://owner/name.", **define)
    define_group(values, "Files of the model", ModelSettings)
    flags.DEFINE_string("output_file", "attention.html", "The page to write. It must not exist yet.", **define)
    flags.DEFINE_integer(
        "max_seq_length", None, "Maximum number of tokens. If not given: 128.", lower_bound=3, **define
    )
    flags.DEFINE_bool("json", False, "Write the tokens and the tables as one JSON object.", **define)
    return values


def main(argv):
    """Runs the program, given its name, its flags and one or two texts as a list of str."""
    values = define_flags()
    texts = parse(values, argv, __doc__, takes_texts=True)
    open_console(stderr=True)
    require(values, ("model_dir",))
    if len(texts) not in (1, 2):
        raise Mistake("{} texts were given, but one is needed, or two for a pair; quote each text", len(texts))
    check_output_file(values.output_file, "output_file")
    if paths.exists(values.output_file):
        raise Mistake("--output_file={} exists; give a new name, or remove it", values.output_file)
    start_tensorflow()
    from studies.inside.attention import AttentionReader, attention_page, attention_tables

    files = {"vocab_file": values.vocab_file, "config_file": values.bert_config_file}
    files |= {name: values[name].value for name in ("do_lower_case", "strip_accents")}
    reader = AttentionReader(values.model_dir, values.max_seq_length, **files)
    attention = reader.read(*texts)
    write_text(values.output_file, attention_page(attention, str(values.model_dir)))
    print(f"{values.output_file}: open it in a browser", file=sys.stderr)
    if values.json:
        print(json.dumps({"tokens": attention.tokens, **attention_tables(attention)}, allow_nan=False))


def run_program():
    """Runs the program from the command line."""
    cast(Any, sys.stdout).reconfigure(encoding="utf-8")
    sys.exit(run_main(main, sys.argv))


if __name__ == "__main__":
    run_program()
