"""Descriptions of processors as Linux gives them, for tests of choices that depend on the hardware."""

SKYLAKE = "processor\t: 0\nflags\t\t: fpu avx2 avx512f\n"
SAPPHIRE_RAPIDS = "processor\t: 0\nflags\t\t: fpu avx512f avx512_bf16 amx_bf16\n"
