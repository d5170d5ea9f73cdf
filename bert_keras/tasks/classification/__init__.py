"""Classes, numbers, several labels or choices for texts: data, task, reports, label checks."""
