"""What a run executes: a command under its shim, an HTTP call, a Python task."""
