"""The program that XLA makes of a function (HLO), and a check that a TPU can run it."""

import re
import typing

import tensorflow as tf

# A dimension with an upper bound only, which XLA computes at run time.
_BOUNDED = re.compile(r"\[[^\]]*<=\d+[^\]]*\]")
_OPERATION = re.compile(r"^\s*(?:ROOT )?%?\S+ = .*?\s([a-z][a-z0-9-]*)\(", re.MULTILINE)
_ON_THE_HOST = frozenset(["infeed", "outfeed", "send", "recv", "send-done", "recv-done", "custom-call"])
_INPUT_OF_LONG_INTEGERS = re.compile(r"\S+: ([su]64\[\d[^\]]*\])")


class Program(typing.NamedTuple):
    """A function as XLA's HLO: as text, and as a serialized `HloModuleProto`."""

    text: str
    serialized: bytes


def lower(function, features):
    """Returns the `Program` that XLA makes of a function of a dict of tensors, without compiling or running it.

    `features` are `tf.TensorSpec` with static shapes. Variables that the function reads and assigns become further
    inputs and outputs.
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
    """Returns the parts of a program that a TPU rejects or runs slowly, and that XLA for the CPU accepts."""
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
