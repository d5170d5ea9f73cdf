"""The program that XLA makes of a function (HLO), and a check that a TPU can run it."""

import dataclasses
import re

import tensorflow as tf

# A dimension with an upper bound only, which XLA computes at run time.
_BOUNDED = re.compile(r"\[[^\]]*<=\d+[^\]]*\]")
_OPERATION = re.compile(r"^\s*(?:ROOT )?%?\S+ = .*?\s([a-z][a-z0-9-]*)\(", re.MULTILINE)
_ON_THE_HOST = frozenset(["infeed", "outfeed", "send", "recv", "send-done", "recv-done", "custom-call"])
_INPUT_OF_LONG_INTEGERS = re.compile(r"\S+: ([su]64\[\d[^\]]*\])")


@dataclasses.dataclass(frozen=True)
class Program:
    """A function as XLA's HLO.

    Attributes:
        text: str, for reading.
        serialized: bytes, an `HloModuleProto`.
    """

    text: str
    serialized: bytes


def lower(function, features):
    """Returns the program that XLA makes of a function, without compiling or running it.

    Args:
        function: function of a dict of tensors, such as `training.step.Trainer.step`. Variables that it reads and
            assigns become further inputs and outputs of the program.
        features: dict of `tf.TensorSpec` with static shapes.

    Raises:
        ValueError: XLA does not support the function.
    """
    zeros = {name: tf.zeros(spec.shape, spec.dtype) for name, spec in features.items()}
    try:
        write = tf.function(
            lambda batch: function(batch), autograph=False, jit_compile=True
        ).experimental_get_compiler_ir(zeros)
        return Program(write(stage="hlo"), write(stage="hlo_serialized"))
    except (ValueError, tf.errors.OpError) as error:
        raise ValueError(f"XLA cannot compile this: {str(error).strip().splitlines()[0]}") from error


def find_faults(text):
    """Returns the parts of a program that a TPU rejects or runs slowly, as a list of str.

    XLA for the CPU accepts them all, so this function searches the text of the program.

    Args:
        text: str; `Program.text`.
    """
    faults = [f"a dynamic dimension: {found}" for found in _BOUNDED.findall(text)]
    if "f64[" in text:
        faults.append("numbers of 64 bits: f64")
    operations = set(_OPERATION.findall(text))
    faults += [f"an operation on the host: {name}" for name in sorted(operations & _ON_THE_HOST)]
    if "sort" in operations:
        faults.append("a sort, which is slow")
    [entry] = re.findall(r"^ENTRY .*$", text, re.MULTILINE)
    # Scalars, such as the step counter, are not a problem for a TPU.
    faults += [f"an input of long integers: {found}" for found in _INPUT_OF_LONG_INTEGERS.findall(entry)]
    return list(dict.fromkeys(faults))
