"""How a run is carried out: devices, the step, the loop, progress, run directories."""
