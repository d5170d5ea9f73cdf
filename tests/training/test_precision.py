"""The meaning of --precision=auto, and warnings about a precision that is slow on the hardware."""

import pytest
from machines import SAPPHIRE_RAPIDS, SKYLAKE, WITHOUT_AMX, ZEN

from bert_keras.engine.given_settings import completed
from bert_keras.engine.precision import take_jit, take_precision
from bert_keras.modeling.config import BertConfig
from bert_keras.settings import hardware
from bert_keras.settings.groups import RunSettings
from tests.training.test_settings import parsed, write_config


@pytest.mark.parametrize(
    ("processor", "gpus", "settings", "chosen", "reason"),
    [
        (SKYLAKE, {}, {}, "float32", "the processor has neither avx512_bf16 nor amx_bf16"),
        (SAPPHIRE_RAPIDS, {}, {}, "bfloat16", "the processor has avx512_bf16 and amx_bf16"),
        (ZEN, {}, {}, "bfloat16", "the processor has avx512_bf16"),
        (
            WITHOUT_AMX,
            {},
            {},
            "float32",
            "the processor has avx512_bf16 and avx512_fp16 without amx_bf16, and is slow",
        ),
        ("Features : bf16\n", {}, {}, "float32", "the processor has neither avx512_bf16 nor amx_bf16"),
        (SKYLAKE, {"A100": (8, 0)}, {}, "bfloat16", "A100 (compute capability 8.0) has instructions for bfloat16"),
        (SAPPHIRE_RAPIDS, {"T4": (7, 5)}, {}, "float32", "T4 (compute capability 7.5) lacks instructions for bfloat16"),
        (SKYLAKE, {"H100": (9, 0), "V100": (7, 0)}, {}, "float32", "V100 (compute capability 7.0) lacks instructions"),
        (SKYLAKE, {"MI300": None}, {}, "float32", "MI300 (compute capability unknown) lacks instructions"),
        (SKYLAKE, {}, {"use_tpu": True}, "bfloat16", "a TPU multiplies bfloat16 numbers"),
    ],
)
def test_auto_is_what_the_hardware_is_fast_in(machine, messages, processor, gpus, settings, chosen, reason):
    machine(processor, **gpus)
    assert take_precision(RunSettings(precision="auto", **settings)).precision == chosen
    [message] = messages
    assert message.startswith(f"precision=auto: {chosen}, since {reason}")


def test_a_machine_that_says_nothing_of_its_processor_computes_in_float32(machine, monkeypatch):
    machine()
    monkeypatch.setattr(hardware, "_PROCESSORS", "/not/there")
    assert take_precision(RunSettings(precision="auto")).precision == "float32"


def test_a_run_goes_on_in_the_precision_that_it_began_in(machine, messages, tmp_path):
    machine(SAPPHIRE_RAPIDS)
    arguments = (f"--output_dir={tmp_path / 'run'}", "--precision=auto")
    first = completed(parsed(*arguments))
    assert first.precision == "bfloat16"
    (tmp_path / "run").mkdir()
    write_config(tmp_path / "run" / "run_config.json", {"precision": first.precision})
    machine(SKYLAKE)
    assert completed(parsed(*arguments)).precision == "bfloat16"
    assert messages[1] == f"precision=auto: bfloat16, as in the run in {tmp_path / 'run'}"


@pytest.mark.parametrize(
    ("asked", "gpus", "warning"),
    [
        (
            "bfloat16",
            {},
            "precision=bfloat16 is slow here, since the processor has neither avx512_bf16 nor amx_bf16; on an Intel "
            "Skylake, a step takes 1.5 times as long as with precision=float32 and jit",
        ),
        (
            "bfloat16",
            {"T4": (7, 5)},
            "precision=bfloat16 is slow here, since T4 (compute capability 7.5) lacks instructions for bfloat16; "
            "give float16",
        ),
        ("bfloat16", {"A100": (8, 0)}, None),
        ("tf32", {}, "precision=tf32 is float32 here, since it needs an NVIDIA GPU of the Ampere generation or lat"),
        ("tf32", {"A100": (8, 0)}, None),
        ("float32", {}, None),
        ("float16", {}, None),
    ],
)
def test_a_precision_that_the_hardware_lacks_is_told(machine, messages, asked, gpus, warning):
    machine(**gpus)
    assert take_precision(RunSettings(precision=asked)) == RunSettings(precision=asked)
    assert len(messages) == bool(warning)
    assert not warning or messages[0].startswith(warning)


BASE = BertConfig(vocab_size=9)
TOKENS = 128 * 8 * 1000


@pytest.mark.parametrize(
    ("processor", "gpus", "settings", "num_tokens", "num_devices", "chosen"),
    [
        (SKYLAKE, {}, {}, TOKENS, 1, True),
        (SKYLAKE, {}, {"precision": "tf32"}, TOKENS, 1, True),
        (SKYLAKE, {}, {}, TOKENS // 10, 1, "auto"),  # XLA would compile for longer than it saves
        (SKYLAKE, {}, {}, TOKENS, 2, "auto"),
        (SKYLAKE, {}, {"precision": "bfloat16"}, TOKENS, 1, "auto"),
        (SKYLAKE, {}, {"precision": "bfloat16", "jit": True}, 1, 1, True),
        (SKYLAKE, {}, {"jit": False}, TOKENS, 1, False),
        (SKYLAKE, {"A100": (8, 0)}, {}, TOKENS, 1, "auto"),
        (SAPPHIRE_RAPIDS, {}, {}, TOKENS, 1, "auto"),
        (WITHOUT_AMX, {}, {}, TOKENS, 1, True),
        ("Features : bf16\n", {}, {}, TOKENS, 1, "auto"),  # nobody has measured this processor
    ],
)
def test_xla_compiles_long_runs_of_processors_that_it_makes_faster(
    machine, messages, processor, gpus, settings, num_tokens, num_devices, chosen
):
    machine(processor, **gpus)
    settings = RunSettings(**settings)
    assert take_jit(settings, num_tokens, BASE, num_devices).jit == chosen
    is_told = chosen is True and settings.jit == "auto"
    reason = "the processor has neither avx512_bf16 nor amx_bf16"
    if processor == WITHOUT_AMX:
        reason = "the processor has avx512_bf16 and avx512_fp16 without amx_bf16, and is slower in bfloat16"
    assert messages == [f"jit=auto: XLA compiles the network, since the run is long and {reason}"] * is_told


@pytest.mark.parametrize(
    ("processor", "precision", "num_tokens", "has_one_shape", "flags", "chosen"),
    [
        (SAPPHIRE_RAPIDS, "bfloat16", TOKENS, True, "--tf_xla_ops_to_cluster=FUSIBLE", "fusible"),
        (SAPPHIRE_RAPIDS, "bfloat16", TOKENS // 10, True, "--tf_xla_ops_to_cluster=FUSIBLE", "auto"),
        (SAPPHIRE_RAPIDS, "bfloat16", TOKENS, False, "--tf_xla_ops_to_cluster=FUSIBLE", "auto"),
        (SAPPHIRE_RAPIDS, "bfloat16", TOKENS, True, "--tf_xla_max_cluster_size=9", "auto"),  # the user's own
        (SAPPHIRE_RAPIDS, "float32", TOKENS, True, "--tf_xla_ops_to_cluster=FUSIBLE", "auto"),
        (SKYLAKE, "bfloat16", TOKENS, True, "--tf_xla_ops_to_cluster=FUSIBLE", "auto"),
    ],
)
def test_xla_compiles_what_is_between_products_of_16_bits(
    machine, messages, monkeypatch, processor, precision, num_tokens, has_one_shape, flags, chosen
):
    machine(processor)
    monkeypatch.setenv("TF_XLA_FLAGS", flags)
    settings = RunSettings(precision=precision)
    assert take_jit(settings, num_tokens, BASE, 1, has_one_shape=has_one_shape).jit == chosen
    reason = "the processor has avx512_bf16 and amx_bf16"
    told = f"jit=auto: XLA compiles what is between the products, since the run is long and {reason}"
    assert messages == [told] * (chosen == "fusible")


@pytest.mark.parametrize("first", [True, False, "auto"])
def test_a_run_goes_on_with_or_without_xla_as_it_began(machine, messages, tmp_path, first):
    machine(SKYLAKE)
    write_config(tmp_path / "run_config.json", {"jit": first})
    settings = take_jit(RunSettings(output_dir=str(tmp_path)), TOKENS, BASE, 1)
    assert settings.jit == first
    assert messages == [f"jit=auto: True, as in the run in {tmp_path}"] * (first is True)
