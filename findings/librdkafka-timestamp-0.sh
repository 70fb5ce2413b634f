#!/usr/bin/env bash
# confluent-kafka 2.16.1 (librdkafka 2.16.0): a record with the timestamp 0 gets the time of the machine.
#
# 1970-01-01T00:00:00Z is a valid time of a record in Kafka's protocol, and Java's producer sends it. `produce(...,
# timestamp=0)` stamps the current time instead, without an error, while 1 stays 1. So a copy of a topic whose records
# have the time 0 has other times, and the records come into other windows.
source "$(dirname "$0")/common.sh"
packages confluent-kafka==2.16.1
"$python" - <<'PYTHON'
from confluent_kafka import Consumer, Producer, TopicPartition

# A broker inside the client is enough: the client writes the records' bytes.
producer = Producer({"bootstrap.servers": "none:9092", "test.mock.num.brokers": 1, "log_level": 0})
broker = producer.list_topics("times", timeout=60).brokers[1]
for timestamp in (0, 1):
    producer.produce("times", key=str(timestamp), partition=0, timestamp=timestamp)
assert producer.flush(60) == 0
consumer = Consumer({"bootstrap.servers": f"{broker.host}:{broker.port}", "group.id": "reader", "log_level": 0})
consumer.assign([TopicPartition("times", 0, 0)])
read = {}
while len(read) < 2:
    message = consumer.poll(60)
    assert message is not None and message.error() is None, message
    read[message.key().decode()] = message.timestamp()[1]
print(f"sent with timestamp 0, read with {read['0']}; sent with 1, read with {read['1']}")
if read["1"] != 1 or read["0"] < 1_700_000_000_000:
    raise SystemExit("this has changed: 0 was stamped with the current time, and 1 was kept")
PYTHON
