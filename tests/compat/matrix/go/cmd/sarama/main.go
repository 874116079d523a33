// Sarama: it asks for the versions of the Kafka that it is told to speak to, so it is told the newest.
package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/IBM/sarama"

	. "barnabas/compat/checks"
)

var (
	topic  = Name("topic")
	shared = Name("shared")
	group  = Name("group")
	admin  sarama.ClusterAdmin
)

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	return config
}

func create(name string) error {
	detail := &sarama.TopicDetail{NumPartitions: Partitions, ReplicationFactor: int16(Replication)}
	return admin.CreateTopic(name, detail, false)
}

func produce(name string, values []string, partitions int, config *sarama.Config) error {
	producer, err := sarama.NewSyncProducer([]string{Bootstrap}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	messages := []*sarama.ProducerMessage{}
	for number, value := range values {
		partition := int32(number % partitions)
		messages = append(messages, &sarama.ProducerMessage{Topic: name, Partition: partition, Value: sarama.StringEncoder(value)})
	}
	return producer.SendMessages(messages)
}

func consume(name string, count int, offset int64) ([]string, error) {
	return consumeWith(settings(), name, count, offset)
}

func consumeWith(config *sarama.Config, name string, count int, offset int64) ([]string, error) {
	consumer, err := sarama.NewConsumer([]string{Bootstrap}, config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(name, 0, offset)
	if err != nil {
		return nil, err
	}
	defer partition.Close()
	values := []string{}
	for late := time.After(Patience); len(values) < count; {
		select {
		case message := <-partition.Messages():
			values = append(values, string(message.Value))
		case <-late:
			return values, nil
		}
	}
	return values, nil
}

func roundTrip(of string, change func(*sarama.Config)) func() error {
	return func() error {
		config := settings()
		change(config)
		name := Name(of)
		if err := create(name); err != nil {
			return err
		}
		if err := produce(name, ValuesOf(of, Records), 1, config); err != nil {
			return err
		}
		values, err := consume(name, Records, 0)
		if err != nil {
			return err
		}
		return Equal(values, ValuesOf(of, Records))
	}
}

func compressed(codec sarama.CompressionCodec) func() error {
	return roundTrip(codec.String(), func(config *sarama.Config) { config.Producer.Compression = codec })
}

type handler struct {
	seen   *Seen
	limit  int
	enough context.CancelFunc
}

func (each *handler) Setup(session sarama.ConsumerGroupSession) error {
	count := 0
	for _, partitions := range session.Claims() {
		count += len(partitions)
	}
	each.seen.SetPartitions(count)
	return nil
}

func (each *handler) Cleanup(sarama.ConsumerGroupSession) error {
	each.seen.SetPartitions(0)
	return nil
}

func (each *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			if each.limit > 0 && len(each.seen.Values()) == each.limit {
				return nil
			}
			each.seen.Add(string(message.Value))
			session.MarkMessage(message, "")
			session.Commit()
			if len(each.seen.Values()) == each.limit {
				each.enough()
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

// read is a member until `limit` values have come, or until it is told to leave where there is none.
func read(groupID, name string, limit int) (Member, chan struct{}, error) {
	consumer, err := sarama.NewConsumerGroup([]string{Bootstrap}, groupID, settings())
	if err != nil {
		return Member{}, nil, err
	}
	running, stop := context.WithCancel(context.Background())
	seen := &Seen{}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer consumer.Close()
		for running.Err() == nil {
			if err := consumer.Consume(running, []string{name}, &handler{seen, limit, stop}); err != nil {
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
	return Member{seen, func() { stop(); <-gone }}, gone, nil
}

func readSome(count int) ([]string, error) {
	member, gone, err := read(group, topic, count)
	if err != nil {
		return nil, err
	}
	select {
	case <-gone:
	case <-time.After(Patience):
		member.Leave()
	}
	return member.Seen.Values(), nil
}

func groupResume() error {
	for _, expected := range [][]string{ValuesOf("seek", Records)[:Records/2], ValuesOf("seek", Records)[Records/2:]} {
		values, err := readSome(Records / 2)
		if err != nil {
			return err
		}
		if err := Equal(values, expected); err != nil {
			return err
		}
	}
	return nil
}

func groupShare() error {
	join := func() (Member, error) {
		member, _, err := read(Name("share"), shared, 0)
		return member, err
	}
	return GroupShare("shared", join, func(values []string) error { return produce(shared, values, Partitions, settings()) }, true)
}

func describeGroups() error {
	member, _, err := read(Name("described"), shared, 0)
	if err != nil {
		return err
	}
	defer member.Leave()
	if err := Until(func() bool { return member.Seen.Partitions() == Partitions }, "the member has all"); err != nil {
		return err
	}
	described, err := admin.DescribeConsumerGroups([]string{Name("described")})
	if err != nil {
		return err
	}
	return Equal([]any{described[0].State, len(described[0].Members)}, []any{"Stable", 1})
}

func groupOffset() (int64, error) {
	found, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}})
	if err != nil {
		return 0, err
	}
	return found.GetBlock(topic, 0).Offset, nil
}

func groupOffsetIs(expected int64) func() error {
	return func() error {
		offset, err := groupOffset()
		if err != nil {
			return err
		}
		return Equal(offset, expected)
	}
}

func hasGroup() (bool, error) {
	groups, err := admin.ListConsumerGroups()
	_, has := groups[group]
	return has, err
}

func hasGroupIs(expected bool) func() error {
	return func() error {
		has, err := hasGroup()
		if err != nil {
			return err
		}
		return Equal(has, expected)
	}
}

func config(key string) string {
	entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
	if err != nil {
		return err.Error()
	}
	for _, entry := range entries {
		if entry.Name == key {
			return entry.Value
		}
	}
	return "not told"
}

func topicHas(partitions int) func() error {
	return func() error {
		return Until(func() bool {
			described, err := admin.DescribeTopics([]string{topic})
			return err == nil && len(described) == 1 && len(described[0].Partitions) == partitions
		}, "the topic has its partitions")
	}
}

func refused(err error) error {
	if errors.Is(err, sarama.ErrSecurityDisabled) {
		return nil
	}
	return Equal(err, sarama.ErrSecurityDisabled)
}

func acls() error {
	resource := sarama.Resource{ResourceType: sarama.AclResourceTopic, ResourceName: topic, ResourcePatternType: sarama.AclPatternLiteral}
	acl := sarama.Acl{Principal: "User:a", Host: "*", Operation: sarama.AclOperationRead, PermissionType: sarama.AclPermissionAllow}
	filter := sarama.AclFilter{ResourceType: sarama.AclResourceAny, ResourcePatternTypeFilter: sarama.AclPatternAny, Operation: sarama.AclOperationAny, PermissionType: sarama.AclPermissionAny}
	_, listed := admin.ListAcls(filter)
	_, deleted := admin.DeleteACL(filter, false)
	return All(
		func() error { return answered(listed) },
		func() error { return refused(admin.CreateACL(resource, acl)) },
		func() error { return answered(deleted) },
	)
}

func main() {
	var err error
	if admin, err = sarama.NewClusterAdmin([]string{Bootstrap}, settings()); err != nil {
		panic(err)
	}
	Main("github.com/IBM/sarama", slices.Concat([]Check{
		{"create-topic", func() error {
			return All(func() error { return create(topic) }, func() error { return create(shared) })
		}},
		{"list-topics", func() error {
			listed, err := admin.ListTopics()
			if err != nil {
				return err
			}
			return Equal([]any{listed[topic].NumPartitions, listed[topic].ReplicationFactor}, []any{int32(Partitions), int16(Replication)})
		}},
		{"describe-topics", topicHas(Partitions)},
		{"produce", roundTrip("produce", func(*sarama.Config) {})},
		{"produce-acks-0", roundTrip("acks-0", func(config *sarama.Config) { config.Producer.RequiredAcks = sarama.NoResponse })},
		{"produce-acks-1", roundTrip("acks-1", func(config *sarama.Config) { config.Producer.RequiredAcks = sarama.WaitForLocal })},
		{"produce-idempotent", roundTrip("idempotent", func(config *sarama.Config) {
			config.Producer.Idempotent = true
			config.Net.MaxOpenRequests = 1
		})},
		{"produce-gzip", compressed(sarama.CompressionGZIP)},
		{"produce-snappy", compressed(sarama.CompressionSnappy)},
		{"produce-lz4", compressed(sarama.CompressionLZ4)},
		{"produce-zstd", compressed(sarama.CompressionZSTD)},
		{"consume-assigned", func() error {
			if err := produce(topic, ValuesOf("seek", Records), 1, settings()); err != nil {
				return err
			}
			values, err := consume(topic, Records/2, Records/2)
			if err != nil {
				return err
			}
			return Equal(values, ValuesOf("seek", Records)[Records/2:])
		}},
		{"list-offsets", listOffsets},
		{"offsets-by-time", offsetsByTime},
		{"group-share", groupShare},
		{"group-resume", groupResume},
		{"transactions", transactions},
		{"transactional-offsets", transactionalOffsets},
		{"list-groups", hasGroupIs(true)},
		{"describe-groups", describeGroups},
		{"list-group-offsets", groupOffsetIs(Records)},
	}, alterGroupOffsets, []Check{
		{"delete-group-offsets", func() error {
			if err := admin.DeleteConsumerGroupOffset(group, topic, 0); err != nil {
				return err
			}
			return groupOffsetIs(-1)()
		}},
		{"delete-groups", func() error { return All(func() error { return admin.DeleteConsumerGroup(group) }, hasGroupIs(false)) }},
		{"describe-configs", func() error { return Equal(config("cleanup.policy"), "delete") }},
		{"alter-configs", func() error {
			value := "123456"
			entries := map[string]sarama.IncrementalAlterConfigsEntry{
				"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value},
			}
			if err := admin.IncrementalAlterConfig(sarama.TopicResource, topic, entries, false); err != nil {
				return err
			}
			return Until(func() bool { return config("retention.ms") == value }, "the config is returned")
		}},
		{"delete-records", func() error {
			if err := admin.DeleteRecords(topic, map[int32]int64{0: 10}); err != nil {
				return err
			}
			values, err := consume(topic, Records-10, sarama.OffsetOldest)
			if err != nil {
				return err
			}
			return Equal(values, ValuesOf("seek", Records)[10:])
		}},
		{"create-partitions", func() error {
			return All(func() error { return admin.CreatePartitions(topic, Partitions+2, nil, false) }, topicHas(Partitions+2))
		}},
		{"describe-cluster", func() error {
			brokers, _, err := admin.DescribeCluster()
			if err != nil {
				return err
			}
			return Equal(len(brokers) >= Replication, true)
		}},
		{"describe-log-dirs", func() error {
			brokers, _, err := admin.DescribeCluster()
			if err != nil {
				return err
			}
			directories, err := admin.DescribeLogDirs([]int32{brokers[0].ID()})
			if err != nil {
				return err
			}
			return Equal(len(directories[brokers[0].ID()]) > 0, true)
		}},
		{"reassignments", func() error {
			moving, err := admin.ListPartitionReassignments(topic, []int32{0})
			if err != nil {
				return err
			}
			return Equal(len(moving), 0)
		}},
		{"acls", acls},
		{"quotas", func() error {
			component := sarama.QuotaFilterComponent{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchAny}
			entries, err := admin.DescribeClientQuotas([]sarama.QuotaFilterComponent{component}, false)
			if err != nil {
				return err
			}
			return Equal(len(entries), 0)
		}},
		{"scram", func() error {
			found, err := admin.DescribeUserScramCredentials(nil)
			if err != nil {
				return err
			}
			return Equal(len(found), 0)
		}},
		{"delete-topic", func() error {
			if err := admin.DeleteTopic(topic); err != nil {
				return err
			}
			return Until(func() bool {
				listed, err := admin.ListTopics()
				_, has := listed[topic]
				return err == nil && !has
			}, "the topic is gone")
		}},
	}))
}
