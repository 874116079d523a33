"""Which decoder a job's values need."""

from __future__ import annotations

import functools

from barnabas_pipeline.schemas.decoding import Decoding, JsonDecoder, ValueDecoder, ValueFormat
from barnabas_pipeline.schemas.registry import Registry


@functools.lru_cache(maxsize=8)
def decoder_of(decoding: Decoding) -> ValueDecoder:
    """Return the decoder of a job: one per process, since it keeps the registry's answers and compiled schemas."""
    registry = Registry(decoding.registry_url, decoding.registry_user) if decoding.registry_url else None
    # Formats are imported where they are needed: a job of JSON needs no Avro and no compiler of Protobuf.
    match decoding.format:
        case ValueFormat.JSON:
            from barnabas_pipeline.schemas.json_schema import JsonSchemaDecoder

            return JsonDecoder() if registry is None else JsonSchemaDecoder(registry)
        case ValueFormat.AVRO:
            from barnabas_pipeline.schemas.avro import AvroDecoder, AvroFileDecoder

            return AvroFileDecoder(decoding.schema_file) if registry is None else AvroDecoder(registry)
        case ValueFormat.PROTOBUF:
            from barnabas_pipeline.schemas.protobuf import ProtobufDecoder, ProtobufFileDecoder

            if registry is None:
                return ProtobufFileDecoder(decoding.schema_file, decoding.message)
            return ProtobufDecoder(registry)
        case ValueFormat.RAW:
            raise AssertionError("raw values are not decoded")
