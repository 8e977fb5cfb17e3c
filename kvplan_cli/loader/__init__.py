"""The only I/O in: files, folders, the hub and the bundled catalogue become plain values."""
