"""Descriptions of processors as Linux gives them, for tests of choices that depend on the hardware."""

SKYLAKE = "processor\t: 0\nflags\t\t: fpu avx2 avx512f\n"
SAPPHIRE_RAPIDS = "processor\t: 0\nflags\t\t: fpu avx512f avx512_bf16 amx_bf16\n"
# A virtual machine on such a processor that hides AMX.
WITHOUT_AMX = "processor\t: 0\nflags\t\t: fpu avx512f avx512_bf16 avx512_fp16\n"
# A processor whose only instructions for bfloat16 are fast.
ZEN = "processor\t: 0\nflags\t\t: fpu avx512f avx512_bf16\n"


def has_bfloat16():
    """Return whether this machine has instructions for bfloat16, fast or not."""
    from bert_keras.settings.hardware import processor_flags

    return not {"avx512_bf16", "amx_bf16"}.isdisjoint(processor_flags())
