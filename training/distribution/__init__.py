"""Devices, workers and TPUs."""
