package main

import (
	"fmt"
	"time"

	"github.com/IBM/sarama"

	. "barnabas/compat/checks"
)

// offsetsByTime looks for timestamps between those of records, and behind the last one.
func offsetsByTime() error {
	name, begin := Name("timed"), time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	if err := create(name); err != nil {
		return err
	}
	client, err := sarama.NewClient([]string{Bootstrap}, settings())
	if err != nil {
		return err
	}
	defer client.Close()
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		return err
	}
	defer producer.Close()
	for number := range Records {
		at := begin.Add(time.Duration(number) * 10 * time.Millisecond)
		message := sarama.ProducerMessage{Topic: name, Value: sarama.StringEncoder(fmt.Sprint("timed ", number)), Timestamp: at}
		if _, _, err := producer.SendMessage(&message); err != nil {
			return err
		}
	}
	for number, expected := range map[int64]int64{0: 0, 7: 7, Records - 1: Records - 1, Records: -1} {
		found, err := client.GetOffset(name, 0, begin.UnixMilli()+10*number-3)
		if err != nil {
			return err
		}
		if err := Equal(found, expected); err != nil {
			return err
		}
	}
	return nil
}

func transactional(id string) (sarama.AsyncProducer, error) {
	config := settings()
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = Name(id)
	config.Net.MaxOpenRequests = 1
	return sarama.NewAsyncProducer([]string{Bootstrap}, config)
}

// send begins a transaction and writes the values; it stays open.
func send(producer sarama.AsyncProducer, name string, values []string) error {
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	for _, value := range values {
		producer.Input() <- &sarama.ProducerMessage{Topic: name, Partition: 0, Value: sarama.StringEncoder(value)}
	}
	for range values {
		select {
		case <-producer.Successes():
		case err := <-producer.Errors():
			return err
		case <-time.After(Patience):
			return fmt.Errorf("not delivered within %s", Patience)
		}
	}
	return nil
}

func consumeIsolated(name string, count int, isolation sarama.IsolationLevel) ([]string, error) {
	config := settings()
	config.Consumer.IsolationLevel = isolation
	return consumeWith(config, name, count, 0)
}

func transactions() error {
	name := Name("transactions")
	one, aborted, two := ValuesOf("one", Records), ValuesOf("aborted", Records), ValuesOf("two", Records)
	if err := create(name); err != nil {
		return err
	}
	producer, err := transactional("records")
	if err != nil {
		return err
	}
	defer producer.Close()
	err = All(
		func() error { return send(producer, name, one) },
		producer.CommitTxn,
		func() error { return send(producer, name, aborted) },
		producer.AbortTxn,
		func() error { return send(producer, name, two) },
		producer.CommitTxn,
	)
	if err != nil {
		return err
	}
	committed, err := consumeIsolated(name, 2*Records, sarama.ReadCommitted)
	if err != nil {
		return err
	}
	if err := Equal(committed, append(append([]string{}, one...), two...)); err != nil {
		return err
	}
	all, err := consumeIsolated(name, 3*Records, sarama.ReadUncommitted)
	if err != nil {
		return err
	}
	return Equal(all, append(append(append([]string{}, one...), aborted...), two...))
}

func transactionalOffsets() error {
	name, of := Name("transactional-offsets"), Name("transactional-group")
	if err := create(name); err != nil {
		return err
	}
	producer, err := transactional("offsets")
	if err != nil {
		return err
	}
	defer producer.Close()
	for _, end := range []struct {
		offset, expected int64
		call             func() error
	}{{5, -1, producer.AbortTxn}, {7, 7, producer.CommitTxn}} {
		offsets := map[string][]*sarama.PartitionOffsetMetadata{name: {{Partition: 0, Offset: end.offset, LeaderEpoch: -1}}}
		err := All(
			func() error { return send(producer, name, ValuesOf("offsets", Records)) },
			func() error { return producer.AddOffsetsToTxn(offsets, of) },
			end.call,
			func() error {
				return Until(func() bool {
					found, err := admin.ListConsumerGroupOffsets(of, map[string][]int32{name: {0}})
					return err == nil && found.GetBlock(name, 0).Offset == end.expected
				}, fmt.Sprint("the group is at ", end.expected))
			},
		)
		if err != nil {
			return err
		}
	}
	return nil
}
