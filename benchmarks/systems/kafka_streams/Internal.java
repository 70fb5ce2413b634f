import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.function.Predicate;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The topics between the parts of an application. */
final class Internal {
  private static final Duration WAIT = Duration.ofMillis(500);

  private Internal() {}

  /**
   * Whether a closed application has left records there that it has not read: those that caches have held until the
   * commit of closing.
   */
  static boolean unread(Job job, Properties connection) throws Exception {
    Map<String, Object> settings = new HashMap<>();
    connection.stringPropertyNames().forEach(name -> settings.put(name, connection.getProperty(name)));
    settings.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
    Predicate<String> ours =
        topic ->
            topic.startsWith(job.applicationId() + "-")
                && (topic.endsWith("-repartition") || topic.endsWith("-topic"));
    try (Admin admin = Admin.create(settings);
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      Map<TopicPartition, OffsetAndMetadata> committed =
          admin.listConsumerGroupOffsets(job.applicationId()).partitionsToOffsetAndMetadata().get();
      List<TopicPartition> partitions =
          consumer.listTopics().entrySet().stream()
              .filter(topic -> ours.test(topic.getKey()))
              .flatMap(topic -> topic.getValue().stream())
              .map((PartitionInfo info) -> new TopicPartition(info.topic(), info.partition()))
              .toList();
      Map<TopicPartition, Long> begins = consumer.beginningOffsets(partitions);
      Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
      consumer.assign(partitions);
      for (TopicPartition partition : partitions) {
        OffsetAndMetadata known = committed.get(partition);
        consumer.seek(partition, known == null ? begins.get(partition) : known.offset());
      }
      // Positions go past the ends of transactions, which are no records.
      while (partitions.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
        if (!consumer.poll(WAIT).isEmpty()) {
          return true;
        }
      }
      return false;
    }
  }
}
