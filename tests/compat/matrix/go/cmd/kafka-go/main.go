// segmentio's kafka-go: a writer, a reader, and a client for the rest. Its writer is not idempotent.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	. "barnabas/compat/checks"
)

var (
	topic  = Name("topic")
	shared = Name("shared")
	group  = Name("group")
	always = context.Background()
	client = &kafka.Client{Addr: kafka.TCP(Bootstrap), Timeout: Patience}
)

func create(name string) error {
	wanted := kafka.TopicConfig{Topic: name, NumPartitions: Partitions, ReplicationFactor: Replication}
	created, err := client.CreateTopics(always, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{wanted}})
	if err != nil {
		return err
	}
	return created.Errors[name]
}

// toFirst sends everything to the first of the partitions.
func toFirst(_ kafka.Message, partitions ...int) int { return partitions[0] }

func produce(name string, values []string, balancer kafka.Balancer, codec kafka.Compression) error {
	return write(&kafka.Writer{Topic: name, RequiredAcks: kafka.RequireAll, Balancer: balancer, Compression: codec}, values)
}

func write(writer *kafka.Writer, values []string) error {
	writer.Addr, writer.BatchTimeout = kafka.TCP(Bootstrap), 5*time.Millisecond
	defer writer.Close()
	messages := []kafka.Message{}
	for _, value := range values {
		messages = append(messages, kafka.Message{Value: []byte(value)})
	}
	late, done := context.WithTimeout(always, Patience)
	defer done()
	return writer.WriteMessages(late, messages...)
}

func consume(name string, count int, offset int64) ([]string, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{Bootstrap}, Topic: name, Partition: 0, MaxWait: 200 * time.Millisecond})
	defer reader.Close()
	if err := reader.SetOffset(offset); err != nil {
		return nil, err
	}
	return readFrom(reader, count)
}

func readFrom(reader *kafka.Reader, count int) ([]string, error) {
	late, done := context.WithTimeout(always, Patience)
	defer done()
	values := []string{}
	for len(values) < count {
		message, err := reader.ReadMessage(late)
		if err != nil {
			return values, err
		}
		values = append(values, string(message.Value))
	}
	return values, nil
}

func roundTrip(of string, codec kafka.Compression) func() error {
	return roundTripWith(of, kafka.RequireAll, codec)
}

func roundTripWith(of string, acks kafka.RequiredAcks, codec kafka.Compression) func() error {
	return func() error {
		name := Name(of)
		if err := create(name); err != nil {
			return err
		}
		writer := &kafka.Writer{Topic: name, RequiredAcks: acks, Balancer: kafka.BalancerFunc(toFirst), Compression: codec}
		if err := write(writer, ValuesOf(of, Records)); err != nil {
			return err
		}
		values, err := consume(name, Records, 0)
		if err != nil {
			return err
		}
		return Equal(values, ValuesOf(of, Records))
	}
}

func groupReader(groupID, name string) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{Bootstrap}, GroupID: groupID, Topic: name, StartOffset: kafka.FirstOffset,
		HeartbeatInterval: 500 * time.Millisecond, MaxWait: 200 * time.Millisecond,
	})
}

func joinGroup(groupID string) (Member, error) {
	reader := groupReader(groupID, shared)
	seen := &Seen{}
	running, stop := context.WithCancel(always)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			message, err := reader.ReadMessage(running)
			if running.Err() != nil {
				return
			}
			if err == nil {
				seen.Add(string(message.Value))
			}
		}
	}()
	return Member{Seen: seen, Leave: func() { stop(); <-gone; reader.Close() }}, nil
}

func groupShare() error {
	join := func() (Member, error) { return joinGroup(Name("share")) }
	return GroupShare("shared", join, func(values []string) error {
		return produce(shared, values, &kafka.RoundRobin{}, 0)
	}, false)
}

func groupResume() error {
	for _, expected := range [][]string{ValuesOf("seek", Records)[:Records/2], ValuesOf("seek", Records)[Records/2:]} {
		reader := groupReader(group, topic)
		values, err := readFrom(reader, Records/2)
		if err := errors.Join(err, reader.Close()); err != nil {
			return err
		}
		if err := Equal(values, expected); err != nil {
			return err
		}
	}
	return nil
}

func described(groupID string) kafka.DescribeGroupsResponseGroup {
	found, err := client.DescribeGroups(always, &kafka.DescribeGroupsRequest{GroupIDs: []string{groupID}})
	if err != nil {
		return kafka.DescribeGroupsResponseGroup{Error: err}
	}
	return found.Groups[0]
}

func describeGroups() error {
	member, err := joinGroup(Name("described"))
	if err != nil {
		return err
	}
	defer member.Leave()
	return Until(func() bool {
		found := described(Name("described"))
		return found.Error == nil && found.GroupState == "Stable" && len(found.Members) == 1
	}, "the group is stable, with one member")
}

func groupOffsetIs(expected int64) func() error {
	return func() error {
		found, err := client.OffsetFetch(always, &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {0}}})
		if err != nil {
			return err
		}
		return Equal(found.Topics[topic][0].CommittedOffset, expected)
	}
}

func hasGroupIs(expected bool) func() error {
	return func() error {
		listed, err := client.ListGroups(always, &kafka.ListGroupsRequest{})
		if err != nil {
			return err
		}
		has := false
		for _, each := range listed.Groups {
			has = has || each.GroupID == group
		}
		return Equal(has, expected)
	}
}

func config(key string) string {
	asked := kafka.DescribeConfigRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic}
	found, err := client.DescribeConfigs(always, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{asked}})
	if err != nil {
		return err.Error()
	}
	for _, entry := range found.Resources[0].ConfigEntries {
		if entry.ConfigName == key {
			return entry.ConfigValue
		}
	}
	return "not told"
}

func alterConfigs() error {
	value := "123456"
	entry := kafka.IncrementalAlterConfigsRequestConfig{Name: "retention.ms", Value: value, ConfigOperation: kafka.ConfigOperationSet}
	altered, err := client.IncrementalAlterConfigs(always, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{entry},
		}},
	})
	if err != nil {
		return err
	}
	if altered.Resources[0].Error != nil {
		return altered.Resources[0].Error
	}
	return Until(func() bool { return config("retention.ms") == value }, "the config is returned")
}

func listOffsets() error {
	found, err := client.ListOffsets(always, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{topic: {kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0)}},
	})
	if err != nil {
		return err
	}
	partition := found.Topics[topic][0]
	return Equal([]int64{partition.FirstOffset, partition.LastOffset}, []int64{0, Records})
}

func metadata(names ...string) map[string]kafka.Topic {
	found, err := client.Metadata(always, &kafka.MetadataRequest{Topics: names})
	topics := map[string]kafka.Topic{}
	if err != nil {
		return topics
	}
	for _, each := range found.Topics {
		if each.Error == nil {
			topics[each.Name] = each
		}
	}
	return topics
}

func topicHas(partitions int) func() error {
	return func() error {
		return Until(func() bool {
			found := metadata(topic)[topic].Partitions
			return len(found) == partitions && len(found[0].Replicas) == Replication
		}, "the topic has its partitions and replicas")
	}
}

func acls() error {
	found, err := client.DescribeACLs(always, &kafka.DescribeACLsRequest{Filter: kafka.ACLFilter{
		ResourceTypeFilter: kafka.ResourceTypeAny, ResourcePatternTypeFilter: kafka.PatternTypeAny,
		Operation: kafka.ACLOperationTypeAny, PermissionType: kafka.ACLPermissionTypeAny,
	}})
	if err != nil {
		return err
	}
	if !errors.Is(found.Error, kafka.SecurityDisabled) {
		return fmt.Errorf("%v instead of SECURITY_DISABLED", found.Error)
	}
	return nil
}

func quotas() error {
	component := kafka.DescribeClientQuotasRequestComponent{EntityType: "user", MatchType: 2}
	found, err := client.DescribeClientQuotas(always, &kafka.DescribeClientQuotasRequest{
		Components: []kafka.DescribeClientQuotasRequestComponent{component},
	})
	if err != nil {
		return err
	}
	return All(func() error { return found.Error }, func() error { return Equal(len(found.Entries), 0) })
}

func main() {
	Lacks = []string{"transactions"}
	Main("github.com/segmentio/kafka-go", []Check{
		{"create-topic", func() error {
			return All(func() error { return create(topic) }, func() error { return create(shared) })
		}},
		{"list-topics", func() error {
			listed := metadata()
			return Equal([]int{len(listed[topic].Partitions), len(listed[shared].Partitions)}, []int{Partitions, Partitions})
		}},
		{"describe-topics", topicHas(Partitions)},
		{"produce", roundTrip("produce", 0)},
		{"produce-acks-0", roundTripWith("acks-0", kafka.RequireNone, 0)},
		{"produce-acks-1", roundTripWith("acks-1", kafka.RequireOne, 0)},
		{"produce-gzip", roundTrip("gzip", kafka.Gzip)},
		{"produce-snappy", roundTrip("snappy", kafka.Snappy)},
		{"produce-lz4", roundTrip("lz4", kafka.Lz4)},
		{"produce-zstd", roundTrip("zstd", kafka.Zstd)},
		{"consume-assigned", func() error {
			if err := produce(topic, ValuesOf("seek", Records), kafka.BalancerFunc(toFirst), 0); err != nil {
				return err
			}
			values, err := consume(topic, Records/2, Records/2)
			if err != nil {
				return err
			}
			return Equal(values, ValuesOf("seek", Records)[Records/2:])
		}},
		{"list-offsets", listOffsets},
		{"group-share", groupShare},
		{"group-resume", groupResume},
		{"list-groups", hasGroupIs(true)},
		{"describe-groups", describeGroups},
		{"list-group-offsets", groupOffsetIs(Records)},
		{"alter-group-offsets", func() error {
			committed, err := client.OffsetCommit(always, &kafka.OffsetCommitRequest{
				GroupID: group, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: 0, Offset: 7}}},
			})
			if err != nil {
				return err
			}
			return All(func() error { return committed.Topics[topic][0].Error }, groupOffsetIs(7))
		}},
		{"delete-group-offsets", func() error {
			deleted, err := client.OffsetDelete(always, &kafka.OffsetDeleteRequest{GroupID: group, Topics: map[string][]int{topic: {0}}})
			if err != nil {
				return err
			}
			return All(func() error { return deleted.Error }, groupOffsetIs(-1))
		}},
		{"delete-groups", func() error {
			deleted, err := client.DeleteGroups(always, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
			if err != nil {
				return err
			}
			return All(func() error { return deleted.Errors[group] }, hasGroupIs(false))
		}},
		{"describe-configs", func() error { return Equal(config("cleanup.policy"), "delete") }},
		{"alter-configs", alterConfigs},
		{"create-partitions", func() error {
			created, err := client.CreatePartitions(always, &kafka.CreatePartitionsRequest{
				Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: Partitions + 2}},
			})
			if err != nil {
				return err
			}
			return All(func() error { return created.Errors[topic] }, topicHas(Partitions+2))
		}},
		{"describe-cluster", func() error {
			found, err := client.Metadata(always, &kafka.MetadataRequest{Topics: []string{topic}})
			if err != nil {
				return err
			}
			return Equal(len(found.Brokers) >= Replication, true)
		}},
		{"acls", acls},
		{"quotas", quotas},
		{"delete-topic", func() error {
			deleted, err := client.DeleteTopics(always, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
			if err != nil {
				return err
			}
			if err := deleted.Errors[topic]; err != nil {
				return err
			}
			return Until(func() bool { return len(metadata(topic)) == 0 }, "the topic is gone")
		}},
	})
}
