"""What the command lines have in common: shared flags, parsing, and how a user's mistake is told.

Every entry point keeps its flags in a `FlagValues` of its own, so that several of them can be imported into one
process (a notebook, the tests) without clashing.
"""

import itertools
import logging
import os
import pathlib
import sys

from absl import flags

log = logging.getLogger("bert_keras")

# Value of --precision -> the dtype policy that it is.
PRECISIONS = {"float32": "float32", "tf32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
STRATEGIES = ("auto", "one", "mirrored", "multi_worker", "tpu")


def define_device_flags(flag_values):
    """Defines the flags of the devices, most of them the release's, and of how and at what pace they compute.

    Args:
        flag_values: the `absl.flags.FlagValues` to define them in.
    """
    flags.DEFINE_enum(
        "strategy", "auto", STRATEGIES, "Devices to run on; auto: all that are found.", flag_values=flag_values
    )
    flags.DEFINE_bool("use_tpu", False, "Train on a TPU rather than on the CPU or GPU.", flag_values=flag_values)
    flags.DEFINE_string("tpu_name", None, "Name or grpc address of the TPU.", flag_values=flag_values)
    flags.DEFINE_string("tpu_zone", None, "Zone of the TPU.", flag_values=flag_values)
    flags.DEFINE_string("gcp_project", None, "Project of the TPU.", flag_values=flag_values)
    flags.DEFINE_string("master", None, "Address of the TPU, if there is no --tpu_name.", flag_values=flag_values)
    flags.DEFINE_integer(
        "num_tpu_cores", 8, "Number of TPU cores; checked if given.", lower_bound=1, flag_values=flag_values
    )
    flags.DEFINE_enum(
        "precision",
        "float32",
        [*PRECISIONS, "auto"],
        "What products are computed in; auto: bfloat16 where the hardware has instructions for it, else float32.",
        flag_values=flag_values,
    )
    flags.DEFINE_bool("jit", False, "Let XLA compile the network, anew for every shape.", flag_values=flag_values)
    flags.DEFINE_bool(
        "recompute", False, "Compute the layers again for the gradients: less memory.", flag_values=flag_values
    )
    flags.DEFINE_integer(
        "iterations_per_loop", 1000, "Steps in one call of the device, at most.", lower_bound=1, flag_values=flag_values
    )
    flags.DEFINE_integer(
        "save_checkpoints_steps", 1000, "Steps between two checkpoints.", lower_bound=1, flag_values=flag_values
    )


def parse(flag_values, argv, usage, takes_texts=False):
    """Parses a command line.

    Args:
        flag_values: the `absl.flags.FlagValues` that the program defined.
        argv: list of str; the program's name, then its arguments.
        usage: str; shown by --help above the flags.
        takes_texts: bool; whether arguments may be something else than flags. They and flags may then be mixed; after
            an argument `--` none is a flag.

    Returns:
        list of str, the arguments that are no flags.

    Raises:
        ValueError: an unknown flag, a value that does not fit its flag, or an argument that is no flag.
        SystemExit: --help was asked for and has been printed.
    """
    before_texts = itertools.takewhile(lambda argument: argument != "--", argv[1:])
    if any(argument in ("-h", "--help", "-help", "--helpfull", "--helpshort") for argument in before_texts):
        print(f"{usage.strip()}\n\nFlags:\n{flag_values.get_help()}")
        raise SystemExit(0)
    flag_values.set_gnu_getopt(takes_texts)
    try:
        leftover = flag_values(argv)[1:]
    except flags.Error as error:
        raise ValueError(f"{error} (--help lists all flags)") from error
    if leftover and not takes_texts:
        raise ValueError(
            f'"{leftover[0]}" is not a flag; every argument has the form --name=value (--help lists all flags)'
        )
    return leftover


def given_flags(flag_values):
    """Returns the names of the flags that the command line gave, as a set of str."""
    return {name for name in flag_values if flag_values[name].present}


def require(flag_values, names):
    """Checks that flags have a value.

    Raises:
        ValueError: some have none; all of them are named at once.
    """
    missing = [f"--{name}" for name in names if flag_values[name].value in (None, "")]
    if missing:
        raise ValueError(f"missing: {', '.join(missing)} (--help says what each is for)")


def tell_unused(flag_values, actions):
    """Says in the log which files the command line gives without asking for what would be done with them.

    Args:
        flag_values: the `absl.flags.FlagValues` of the program, parsed.
        actions: dict; for the name of a file's flag that of the flag which asks for it.
    """
    for name in given_flags(flag_values) & set(actions):
        if not flag_values[actions[name]].value:
            log.info("--%s is not used without --%s", name, actions[name])


def run_main(main, argv):
    """Runs an entry point and turns the user's mistakes into one sentence on standard error.

    An OSError is a message for the user (a file that is missing, a full disk), and so is a ValueError that this
    project's own code raised. A ValueError from inside a library is not, and keeps its traceback.

    Args:
        main: function of argv.
        argv: list of str; the program's name, then its arguments.

    Returns:
        int; the exit status: 0, 1 after a mistake, 130 after Ctrl-C, 141 where the reader of a pipe has left.
    """
    try:
        main(argv)
    except KeyboardInterrupt:
        print(f"{pathlib.Path(argv[0]).name}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # As `head` does, which is no mistake. What is still to be written is dropped, or Python's end would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, OSError) as error:
        if not isinstance(error, OSError) and not _raised_by_us(error, main):
            raise
        print(f"{pathlib.Path(argv[0]).name}: {error}", file=sys.stderr)
        return 1
    return 0


def _raised_by_us(error, main):
    frame = error.__traceback__
    while frame.tb_next is not None:
        frame = frame.tb_next
    module = frame.tb_frame.f_globals["__name__"]
    return module == main.__module__ or module.partition(".")[0] == "bert_keras"
