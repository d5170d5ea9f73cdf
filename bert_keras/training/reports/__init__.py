"""The reports at the end of a run: tables for people and programs, and the page report.html."""
