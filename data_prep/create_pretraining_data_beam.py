#!/usr/bin/env python3
"""Runs create_pretraining_data.py on the machines of an Apache Beam runner, for text of any size.

    python data_prep/create_pretraining_data_beam.py --input_file='/shared/*.txt' --vocab_file=/shared/vocab.txt \\
        --output_file=/shared/train.tfrecord.gz --num_shards=1000 -- --runner=FlinkRunner --flink_master=host:8081

Arguments after `--` configure Beam. The files are byte for byte those of create_pretraining_data.py with several
processes. All machines must see the text and the folder of unfinished work under the same paths. The folder is
--work_dir, by default the folder of the output.
"""

import functools
import os
import sys

if not __package__:
    # Python looks for modules in the folder of a script, data_prep/; the packages are in the folder above.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # For the processes that Beam starts.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (sys.path[0], os.environ.get("PYTHONPATH"))))

from absl import flags

from bert_keras.cli.flags import as_program, parse
from bert_keras.data_prep import create_pretraining_data
from bert_keras.data_prep.corpus.beam_workers import BeamWorkers
from bert_keras.mistakes import Mistake
from bert_keras.storage import paths


def define_flags() -> flags.FlagValues:
    """Returns the flags of create_pretraining_data.py without --num_workers."""
    values = create_pretraining_data.define_flags()
    values.remove_flag_values(["num_workers"])
    return values


def main(argv: list[str]) -> dict:
    """Builds examples like `create_pretraining_data.main`; Beam's options follow an argument `--`."""
    end = argv.index("--") if "--" in argv else len(argv)
    values = define_flags()
    parse(values, argv[:end], __doc__)
    options = argv[end + 1 :]
    if paths.is_remote(values.output_file or "") and not values.work_dir:
        raise Mistake(
            "{output_file}={} is remote, so give {work_dir}, a folder that all machines see under the same path",
            values.output_file,
        )
    return create_pretraining_data.build(values, functools.partial(BeamWorkers, options))


run_program = functools.partial(as_program, main)

if __name__ == "__main__":
    run_program()
