"""What the figures of a benchmark were measured on."""

import platform

CPU_INFO = "/proc/cpuinfo"  # Linux


def processor_name():
    """Returns the name of the processor, as far as the system tells."""
    try:
        with open(CPU_INFO, encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
