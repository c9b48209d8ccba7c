"""Compiled kernels: type, shape and bounds checks around zephon_core.

Each extension validates its arguments, drops the GIL and calls C++. They are
private; the public functions are in the packages above.
"""
