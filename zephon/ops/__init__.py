"""Operators of a pipeline, one file each."""
