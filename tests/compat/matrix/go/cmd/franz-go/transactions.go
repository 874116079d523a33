package main

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	. "barnabas/compat/checks"
)

// offsetsByTime looks for timestamps between those of records, and behind the last one.
func offsetsByTime() error {
	name, begin := Name("timed"), time.Now().Add(-time.Hour).UnixMilli()
	if err := create(name); err != nil {
		return err
	}
	producer, err := client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer producer.Close()
	for number := range int64(Records) {
		record := &kgo.Record{Topic: name, Value: fmt.Append(nil, "timed ", number), Timestamp: time.UnixMilli(begin + 10*number)}
		if err := producer.ProduceSync(always, record).FirstErr(); err != nil {
			return err
		}
	}
	for number, expected := range map[int64]int64{0: 0, 7: 7, Records - 1: Records - 1, Records: Records} {
		// kadm puts the end in place of "none".
		found, err := admin.ListOffsetsAfterMilli(always, begin+10*number-3, name)
		if err != nil {
			return err
		}
		offset, _ := found.Lookup(name, 0)
		if err := Equal(offset.Offset, expected); err != nil {
			return err
		}
	}
	return nil
}

// transaction writes the values and ends as it is told.
func transaction(producer *kgo.Client, name string, values []string, end kgo.TransactionEndTry) error {
	if err := producer.BeginTransaction(); err != nil {
		return err
	}
	for _, value := range values {
		if err := producer.ProduceSync(always, &kgo.Record{Topic: name, Value: []byte(value)}).FirstErr(); err != nil {
			return err
		}
	}
	return producer.EndTransaction(always, end)
}

func consumeIsolated(name string, count int, level kgo.IsolationLevel) ([]string, error) {
	from := map[string]map[int32]kgo.Offset{name: {0: kgo.NewOffset().AtStart()}}
	consumer, err := client(kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(level))
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	return poll(consumer, count, nil), nil
}

func transactions() error {
	name := Name("transactions")
	one, aborted, two := ValuesOf("one", Records), ValuesOf("aborted", Records), ValuesOf("two", Records)
	if err := create(name); err != nil {
		return err
	}
	producer, err := client(kgo.TransactionalID(Name("records")), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer producer.Close()
	err = All(
		func() error { return transaction(producer, name, one, kgo.TryCommit) },
		func() error { return transaction(producer, name, aborted, kgo.TryAbort) },
		func() error { return transaction(producer, name, two, kgo.TryCommit) },
	)
	if err != nil {
		return err
	}
	committed, err := consumeIsolated(name, 2*Records, kgo.ReadCommitted())
	if err != nil {
		return err
	}
	if err := Equal(committed, append(append([]string{}, one...), two...)); err != nil {
		return err
	}
	all, err := consumeIsolated(name, 3*Records, kgo.ReadUncommitted())
	if err != nil {
		return err
	}
	return Equal(all, append(append(append([]string{}, one...), aborted...), two...))
}

// transactionalOffsets reads half as a member, and again as one whose transaction was aborted, then committed.
func transactionalOffsets() error {
	name, of := Name("transactional-offsets"), Name("transactional-group")
	if err := create(name); err != nil {
		return err
	}
	if err := produce(name, ValuesOf("offsets", Records), 1); err != nil {
		return err
	}
	for _, end := range []struct {
		try  kgo.TransactionEndTry
		left int64
	}{{kgo.TryAbort, -1}, {kgo.TryCommit, Records}} {
		session, err := kgo.NewGroupTransactSession(
			kgo.SeedBrokers(Bootstrap), kgo.TransactionalID(Name("offsets")), kgo.ConsumerGroup(of), kgo.ConsumeTopics(name),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		)
		if err != nil {
			return err
		}
		err = session.Begin()
		if err == nil {
			err = Equal(poll(session.Client(), Records, nil), ValuesOf("offsets", Records))
		}
		if err == nil {
			_, err = session.End(always, end.try)
		}
		session.Close()
		if err != nil {
			return err
		}
		if err := Until(func() bool { return offsetOf(of, name) == end.left }, fmt.Sprint("the group is at ", end.left)); err != nil {
			return err
		}
	}
	return nil
}

func offsetOf(of, name string) int64 {
	offsets, err := admin.FetchOffsets(always, of)
	found, has := offsets.Lookup(name, 0)
	if err != nil || !has {
		return -1
	}
	return found.At
}

// listTransactions has the transactions of this run, whoever else was there.
func listTransactions() error {
	listed, err := admin.ListTransactions(always, nil, nil)
	if err != nil {
		return err
	}
	return Equal(described(listed, Name("records")), "CompleteCommit")
}

func described(listed kadm.ListedTransactions, id string) string {
	found, has := listed[id]
	if !has {
		return "not listed"
	}
	return found.State
}
