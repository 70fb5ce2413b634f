"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

# ruff: noqa: RUF012 - a structure's default that may be changed is copied

from __future__ import annotations

from typing import Annotated, ClassVar

from streamsapp.brokers.codec import Asking, Bool, In, Int16, Int32, Int64, Structure, Whole


class ApiVersion(Structure):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(Structure):
    name: Annotated[str, In(3)] = ""
    min_version: Annotated[Int16, In(3)] = 0
    max_version: Annotated[Int16, In(3)] = 0


class FinalizedFeatureKey(Structure):
    name: Annotated[str, In(3)] = ""
    max_version_level: Annotated[Int16, In(3)] = 0
    min_version_level: Annotated[Int16, In(3)] = 0


class ApiVersionsResponse(Whole):
    VERSIONS: ClassVar = (0, 4)
    FIRST_COMPACT: ClassVar = 3

    error_code: Int16 = 0
    api_keys: list[ApiVersion] = []
    throttle_time_ms: Annotated[Int32, In(1)] = 0
    supported_features: Annotated[list[SupportedFeatureKey], In(3, tag=0)] = []
    finalized_features_epoch: Annotated[Int64, In(3, tag=1)] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], In(3, tag=2)] = []
    zk_migration_ready: Annotated[Bool, In(3, tag=3)] = False


class ApiVersionsRequest(Asking[ApiVersionsResponse]):
    VERSIONS: ClassVar = (0, 4)
    FIRST_COMPACT: ClassVar = 3
    API_KEY: ClassVar = 18
    ANSWER: ClassVar = ApiVersionsResponse

    client_software_name: Annotated[str, In(3)] = ""
    client_software_version: Annotated[str, In(3)] = ""
