"""Reads tables, rows and texts of users, and turns them into examples and features that several tasks share."""
