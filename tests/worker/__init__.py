"""Execution with real processes."""
