"""Names that settings of the network choose from. They are here because `modeling` loads Keras, which takes seconds."""

SCHEDULES = ("linear", "smooth_linear", "cosine", "constant")
# The kernels of a layer that LoRA can adapt, and those that its paper adapts.
LORA_TARGETS = ("query", "key", "value", "attention_output", "intermediate", "output")
DEFAULT_LORA_TARGETS = ("query", "value")
