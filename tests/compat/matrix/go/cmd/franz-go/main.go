// franz-go: kgo for records, kadm for everything else.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	. "barnabas/compat/checks"
)

var (
	topic  = Name("topic")
	shared = Name("shared")
	group  = Name("group")
	always = context.Background()
	admin  *kadm.Client
)

func client(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(Bootstrap)}, options...)...)
}

func create(name string) error {
	created, err := admin.CreateTopic(always, Partitions, int16(Replication), nil, name)
	if err != nil {
		return err
	}
	return created.Err
}

func produce(name string, values []string, partitions int, options ...kgo.Opt) error {
	producer, err := client(append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return err
	}
	defer producer.Close()
	records := []*kgo.Record{}
	for number, value := range values {
		records = append(records, &kgo.Record{Topic: name, Partition: int32(number % partitions), Value: []byte(value)})
	}
	late, done := context.WithTimeout(always, Patience)
	defer done()
	return producer.ProduceSync(late, records...).FirstErr()
}

func consume(name string, count int, offset int64) ([]string, error) {
	from := map[string]map[int32]kgo.Offset{name: {0: kgo.NewOffset().At(offset)}}
	consumer, err := client(kgo.ConsumePartitions(from))
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	return poll(consumer, count, nil), nil
}

// poll reads so many records, or fewer where they do not come in time.
func poll(consumer *kgo.Client, count int, each func(*kgo.Record)) []string {
	late, done := context.WithTimeout(always, Patience)
	defer done()
	values := []string{}
	for len(values) < count && late.Err() == nil {
		for _, record := range consumer.PollRecords(late, count-len(values)).Records() {
			values = append(values, string(record.Value))
			if each != nil {
				each(record)
			}
		}
	}
	return values
}

func roundTrip(of string, options ...kgo.Opt) func() error {
	return func() error {
		name := Name(of)
		if err := create(name); err != nil {
			return err
		}
		if err := produce(name, ValuesOf(of, Records), 1, options...); err != nil {
			return err
		}
		values, err := consume(name, Records, 0)
		if err != nil {
			return err
		}
		return Equal(values, ValuesOf(of, Records))
	}
}

func compressed(of string, codec kgo.CompressionCodec) func() error {
	return roundTrip(of, kgo.ProducerBatchCompression(codec))
}

func joinGroup(groupID string, options ...kgo.Opt) (Member, error) {
	seen := &Seen{}
	count := 0
	changed := func(sign int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			count += sign * len(partitions[shared])
			seen.SetPartitions(count)
		}
	}
	consumer, err := client(append(options,
		kgo.ConsumerGroup(groupID), kgo.ConsumeTopics(shared), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(500*time.Millisecond), kgo.OnPartitionsAssigned(changed(1)), kgo.OnPartitionsRevoked(changed(-1)),
	)...)
	if err != nil {
		return Member{}, err
	}
	running, stop := context.WithCancel(always)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for running.Err() == nil {
			for _, record := range consumer.PollFetches(running).Records() {
				seen.Add(string(record.Value))
			}
		}
	}()
	return Member{Seen: seen, Leave: func() { stop(); <-gone; consumer.Close() }}, nil
}

func groupShare(balancer kgo.GroupBalancer) func() error {
	return func() error {
		join := func() (Member, error) {
			return joinGroup(Name("share-"+balancer.ProtocolName()), kgo.Balancers(balancer))
		}
		return GroupShare(balancer.ProtocolName(), join, func(values []string) error { return produce(shared, values, Partitions) }, true)
	}
}

func readSome(count int) ([]string, error) {
	consumer, err := client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	var refusal error
	values := poll(consumer, count, func(record *kgo.Record) {
		refusal = errors.Join(refusal, consumer.CommitRecords(always, record))
	})
	return values, refusal
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

func describeGroups() error {
	member, err := joinGroup(Name("described"))
	if err != nil {
		return err
	}
	defer member.Leave()
	if err := Until(func() bool { return member.Seen.Partitions() == Partitions }, "the member has all"); err != nil {
		return err
	}
	described, err := admin.DescribeGroups(always, Name("described"))
	if err != nil {
		return err
	}
	found := described[Name("described")]
	return Equal([]any{found.State, len(found.Members)}, []any{"Stable", 1})
}

func groupOffsetIs(expected int64) func() error {
	return func() error {
		offsets, err := admin.FetchOffsets(always, group)
		if err != nil {
			return err
		}
		found, has := offsets.Lookup(topic, 0)
		if !has {
			return Equal(int64(-1), expected)
		}
		return Equal(found.At, expected)
	}
}

func hasGroupIs(expected bool) func() error {
	return func() error {
		groups, err := admin.ListGroups(always)
		if err != nil {
			return err
		}
		_, has := groups[group]
		return Equal(has, expected)
	}
}

func config(key string) string {
	described, err := admin.DescribeTopicConfigs(always, topic)
	if err != nil {
		return err.Error()
	}
	for _, each := range described[0].Configs {
		if each.Key == key {
			return each.MaybeValue()
		}
	}
	return "not told"
}

func listOffsets() error {
	begin, err := admin.ListStartOffsets(always, topic)
	if err != nil {
		return err
	}
	end, err := admin.ListEndOffsets(always, topic)
	if err != nil {
		return err
	}
	first, _ := begin.Lookup(topic, 0)
	last, _ := end.Lookup(topic, 0)
	return Equal([]int64{first.Offset, last.Offset}, []int64{0, Records})
}

func topicHas(partitions int) func() error {
	return func() error {
		return Until(func() bool {
			listed, err := admin.ListTopics(always, topic)
			return err == nil && len(listed[topic].Partitions) == partitions &&
				listed[topic].Partitions.NumReplicas() == Replication
		}, "the topic has its partitions and replicas")
	}
}

func refused(err error) func() error {
	return func() error {
		if errors.Is(err, kerr.SecurityDisabled) {
			return nil
		}
		return fmt.Errorf("%v instead of SECURITY_DISABLED", err)
	}
}

func acls() error {
	everything := kadm.NewACLs().AnyResource().Allow().AllowHosts().Deny().DenyHosts().Operations(kadm.OpAny).
		ResourcePatternType(kadm.ACLPatternAny)
	described, err := admin.DescribeACLs(always, everything)
	if err == nil && len(described) > 0 {
		err = described[0].Err
	}
	reading := kadm.NewACLs().Topics(topic).Allow("User:a").AllowHosts("*").Operations(kadm.OpRead)
	created, createErr := admin.CreateACLs(always, reading)
	if createErr == nil && len(created) > 0 {
		createErr = created[0].Err
	}
	deleted, deleteErr := admin.DeleteACLs(always, everything)
	if deleteErr == nil && len(deleted) > 0 {
		deleteErr = deleted[0].Err
	}
	return All(refused(err), refused(createErr), refused(deleteErr))
}

func main() {
	connected, err := client()
	if err != nil {
		panic(err)
	}
	admin = kadm.NewClient(connected)
	var seventh kadm.Offsets
	seventh.AddOffset(topic, 0, 7, -1)
	var tenth kadm.Offsets
	tenth.AddOffset(topic, 0, 10, -1)
	var first kadm.TopicsSet
	first.Add(topic, 0)
	Main("github.com/twmb/franz-go", []Check{
		{"create-topic", func() error {
			return All(func() error { return create(topic) }, func() error { return create(shared) })
		}},
		{"list-topics", func() error {
			listed, err := admin.ListTopics(always)
			if err != nil {
				return err
			}
			return Equal(listed.Has(topic) && listed.Has(shared), true)
		}},
		{"describe-topics", topicHas(Partitions)},
		{"produce", roundTrip("produce", kgo.DisableIdempotentWrite(), kgo.ProducerBatchCompression(kgo.NoCompression()))},
		{"produce-acks-0", roundTrip("acks-0", kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.NoAck()))},
		{"produce-acks-1", roundTrip("acks-1", kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()))},
		{"produce-idempotent", roundTrip("idempotent")},
		{"produce-gzip", compressed("gzip", kgo.GzipCompression())},
		{"produce-snappy", compressed("snappy", kgo.SnappyCompression())},
		{"produce-lz4", compressed("lz4", kgo.Lz4Compression())},
		{"produce-zstd", compressed("zstd", kgo.ZstdCompression())},
		{"consume-assigned", func() error {
			if err := produce(topic, ValuesOf("seek", Records), 1); err != nil {
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
		{"group-share", groupShare(kgo.RangeBalancer())},
		{"group-cooperative", groupShare(kgo.CooperativeStickyBalancer())},
		{"group-resume", groupResume},
		{"transactions", transactions},
		{"transactional-offsets", transactionalOffsets},
		{"list-groups", hasGroupIs(true)},
		{"describe-groups", describeGroups},
		{"list-group-offsets", groupOffsetIs(Records)},
		{"alter-group-offsets", func() error {
			return All(func() error { return admin.CommitAllOffsets(always, group, seventh) }, groupOffsetIs(7))
		}},
		{"delete-group-offsets", func() error {
			deleted, err := admin.DeleteOffsets(always, group, first)
			if err != nil {
				return err
			}
			return All(deleted.Error, groupOffsetIs(-1))
		}},
		{"delete-groups", func() error {
			deleted, err := admin.DeleteGroup(always, group)
			if err != nil {
				return err
			}
			return All(func() error { return deleted.Err }, hasGroupIs(false))
		}},
		{"describe-configs", func() error {
			brokers, err := admin.DescribeBrokerConfigs(always)
			if err != nil {
				return err
			}
			return All(
				func() error { return Equal(config("cleanup.policy"), "delete") },
				func() error { return Equal(len(brokers) > 0, true) },
			)
		}},
		{"alter-configs", func() error {
			value := "123456"
			altered, err := admin.AlterTopicConfigs(always, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}, topic)
			if err != nil {
				return err
			}
			if altered[0].Err != nil {
				return altered[0].Err
			}
			return Until(func() bool { return config("retention.ms") == value }, "the config is returned")
		}},
		{"delete-records", func() error {
			deleted, err := admin.DeleteRecords(always, tenth)
			if err != nil {
				return err
			}
			values, err := consume(topic, Records-10, 10)
			if err != nil {
				return err
			}
			return All(
				func() error { return Equal(deleted[topic][0].LowWatermark, int64(10)) },
				func() error { return Equal(values, ValuesOf("seek", Records)[10:]) },
			)
		}},
		{"create-partitions", func() error {
			updated, err := admin.UpdatePartitions(always, Partitions+2, topic)
			if err != nil {
				return err
			}
			return All(func() error { return updated[topic].Err }, topicHas(Partitions+2))
		}},
		{"describe-cluster", func() error {
			brokers, err := admin.ListBrokers(always)
			if err != nil {
				return err
			}
			return Equal(len(brokers) >= Replication, true)
		}},
		{"describe-log-dirs", func() error {
			directories, err := admin.DescribeAllLogDirs(always, nil)
			if err != nil {
				return err
			}
			return Equal(len(directories) >= Replication, true)
		}},
		{"reassignments", func() error {
			moving, err := admin.ListPartitionReassignments(always, nil)
			if err != nil {
				return err
			}
			return Equal(len(moving), 0)
		}},
		{"elect-leaders", func() error {
			elected, err := admin.ElectLeaders(always, kadm.ElectPreferredReplica, first)
			if err != nil {
				return err
			}
			if err := elected[topic][0].Err; err != nil && !errors.Is(err, kerr.ElectionNotNeeded) {
				return err
			}
			return nil
		}},
		{"describe-producers", func() error {
			described, err := admin.DescribeProducers(always, first)
			if err != nil {
				return err
			}
			return described[topic].Partitions[0].Err
		}},
		{"list-config-resources", func() error {
			listed, err := admin.ListConfigResources(always)
			if err != nil {
				return err
			}
			return All(func() error { return listed.Err }, func() error { return Equal(len(listed.Resources) > 0, true) })
		}},
		{"list-transactions", listTransactions},
		{"acls", acls},
		{"quotas", func() error {
			components := []kadm.DescribeClientQuotaComponent{{Type: "user", MatchType: kadm.QuotasMatchType(2)}}
			entries, err := admin.DescribeClientQuotas(always, false, components)
			if err != nil {
				return err
			}
			return Equal(len(entries), 0)
		}},
		{"scram", func() error {
			found, err := admin.DescribeUserSCRAMs(always)
			if err != nil {
				return err
			}
			return Equal(len(found), 0)
		}},
		{"delete-topic", func() error {
			deleted, err := admin.DeleteTopic(always, topic)
			if err != nil {
				return err
			}
			if deleted.Err != nil {
				return deleted.Err
			}
			return Until(func() bool {
				listed, err := admin.ListTopics(always)
				return err == nil && !listed.Has(topic)
			}, "the topic is gone")
		}},
	})
}
