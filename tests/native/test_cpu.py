"""The kernel that runs is the best that this processor has, whatever compiled it."""

from pathlib import Path

from zephon._native import helpers_cpp


def test_the_blend_kernel_is_chosen_by_what_the_system_says_of_the_processor():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    expected = "avx512" if {"avx512f", "avx512dq", "bmi1"} <= set(flags) else "baseline"
    assert helpers_cpp.blend_kernel() == expected
