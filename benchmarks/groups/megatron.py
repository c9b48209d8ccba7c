"""Megatron's helpers, samples and threads, beside the registry's megatron-core."""

from __future__ import annotations

import environments
from harness import Settings, Table, absent

from groups import megatron_helpers, megatron_samples, megatron_threads


def measure(settings: Settings) -> list[Table]:
    threads = megatron_threads.table(settings)
    if settings.quick:
        return [threads]  # quick mode installs no peer
    try:
        python = environments.python_of("megatron_core")
    except RuntimeError as error:
        why = f"does not install here: {error}"
        rows = [absent("megatron-core", why)]
        return [threads, Table(id="megatron", title="megatron-core", text="", rows=rows)]
    (folder,) = python.parents[1].glob("lib/python3*/site-packages")
    return [
        megatron_helpers.table(settings, folder),
        threads,
        megatron_samples.table(settings, folder),
    ]
