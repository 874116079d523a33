// segmentio's kafka-go in each cell. It has neither OAUTHBEARER nor GSSAPI.
package main

import (
	"context"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	. "barnabas/security/cells"
)

func mechanism(cell Cell) (sasl.Mechanism, error) {
	switch cell.Mechanism {
	case "PLAIN":
		return plain.Mechanism{Username: cell.User, Password: cell.Password}, nil
	case "SCRAM-SHA-256":
		return scram.Mechanism(scram.SHA256, cell.User, cell.Password)
	case "SCRAM-SHA-512":
		return scram.Mechanism(scram.SHA512, cell.User, cell.Password)
	}
	return nil, nil
}

func transport(cell Cell) (*kafka.Transport, error) {
	secured, err := cell.TLS()
	if err != nil {
		return nil, err
	}
	chosen, err := mechanism(cell)
	return &kafka.Transport{TLS: secured, SASL: chosen}, err
}

func use(cell Cell) error {
	way, err := transport(cell)
	if err != nil {
		return err
	}
	defer way.CloseIdleConnections()
	late, done := context.WithTimeout(context.Background(), Patience)
	defer done()
	first := kafka.BalancerFunc(func(_ kafka.Message, partitions ...int) int { return partitions[0] })
	writer := &kafka.Writer{
		Addr: kafka.TCP(cell.Bootstrap), Topic: cell.Topic, Balancer: first, RequiredAcks: kafka.RequireAll,
		BatchTimeout: 5 * time.Millisecond, Transport: way, AllowAutoTopicCreation: true,
	}
	defer writer.Close()
	messages := []kafka.Message{}
	for _, value := range cell.Values() {
		messages = append(messages, kafka.Message{Value: []byte(value)})
	}
	if err := writer.WriteMessages(late, messages...); err != nil {
		return err
	}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{cell.Bootstrap}, Topic: cell.Topic, MaxWait: 200 * time.Millisecond,
		Dialer: &kafka.Dialer{DualStack: true, Timeout: Patience, TLS: way.TLS, SASLMechanism: way.SASL},
	})
	defer reader.Close()
	found := []string{}
	for len(found) < Records {
		message, err := reader.ReadMessage(late)
		if err != nil {
			return err
		}
		found = append(found, string(message.Value))
	}
	return cell.Equal(found)
}

func refused(cell Cell) error {
	way, err := transport(cell)
	if err != nil {
		return err
	}
	defer way.CloseIdleConnections()
	late, done := context.WithTimeout(context.Background(), RefusedWithin)
	defer done()
	client := kafka.Client{Addr: kafka.TCP(cell.Bootstrap), Transport: way}
	_, err = client.Metadata(late, &kafka.MetadataRequest{})
	return err
}

func main() { Run("github.com/segmentio/kafka-go", use, refused, "OAUTHBEARER", "GSSAPI") }
