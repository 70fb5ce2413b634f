"""A class of Protobuf messages as a compiler would generate it, for tests of serdes."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PROTO = """syntax = "proto3";
package shop;
message Order { string id = 1; int64 cents = 2; }
"""


def order_class() -> Any:
    """``shop.Order`` of ``PROTO``."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    types = descriptor_pb2.FieldDescriptorProto
    message.field.add(name="id", number=1, type=types.TYPE_STRING, label=types.LABEL_OPTIONAL)
    message.field.add(name="cents", number=2, type=types.TYPE_INT64, label=types.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
