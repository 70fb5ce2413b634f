"""The types of columns, made of what serdes say of their values: classes, Avro schemas, Protobuf messages."""
