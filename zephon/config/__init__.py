"""Options of a loader as a recipe writes them, and the pipelines that they make."""

from zephon.config.build import (
    build_pipeline,
    create_source_pipeline,
    create_validation_pipeline,
    finalize_pipeline,
)
from zephon.config.groups import (
    TokenEstimationSettings,
    ZephonCheckpointOptions,
    ZephonOptions,
    ZephonPackingOptions,
    ZephonPrefetchOptions,
    ZephonRuntimeOptions,
    ZephonSourceOptions,
    ZephonTextOptions,
    ZephonTrainingOptions,
    ZephonWorkerOptions,
)
from zephon.config.sources import ZephonSource, sources_from_blend
from zephon.config.tokens import (
    TokenIds,
    measure_pretokenized_document,
    normalize_pretokenized_document,
    prepare_text_document_without_packing,
    resolve_token_ids,
    validate_pretokenized_document,
)

__all__ = [
    "TokenEstimationSettings",
    "TokenIds",
    "ZephonCheckpointOptions",
    "ZephonOptions",
    "ZephonPackingOptions",
    "ZephonPrefetchOptions",
    "ZephonRuntimeOptions",
    "ZephonSource",
    "ZephonSourceOptions",
    "ZephonTextOptions",
    "ZephonTrainingOptions",
    "ZephonWorkerOptions",
    "build_pipeline",
    "create_source_pipeline",
    "create_validation_pipeline",
    "finalize_pipeline",
    "measure_pretokenized_document",
    "normalize_pretokenized_document",
    "prepare_text_document_without_packing",
    "resolve_token_ids",
    "sources_from_blend",
    "validate_pretokenized_document",
]
