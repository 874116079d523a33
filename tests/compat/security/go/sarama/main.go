// Sarama in each cell; its SCRAM is a package that its users bring along.
package main

import (
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"

	. "barnabas/security/cells"
)

type exchange struct {
	hash         func() hash.Hash
	conversation *scram.ClientConversation
}

func (it *exchange) Begin(user, password, authzid string) error {
	client, err := scram.HashGeneratorFcn(it.hash).NewClient(user, password, authzid)
	if err == nil {
		it.conversation = client.NewConversation()
	}
	return err
}

func (it *exchange) Step(challenge string) (string, error) { return it.conversation.Step(challenge) }

func (it *exchange) Done() bool { return it.conversation.Done() }

type tokens struct{ cell Cell }

func (it tokens) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: it.cell.Token()}, nil
}

func settings(cell Cell) (*sarama.Config, error) {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	secured, err := cell.TLS()
	if err != nil {
		return nil, err
	}
	config.Net.TLS.Enable, config.Net.TLS.Config = secured != nil, secured
	if cell.Mechanism != "" {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(cell.Mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = cell.User, cell.Password
	}
	switch cell.Mechanism {
	case "OAUTHBEARER":
		config.Net.SASL.TokenProvider = tokens{cell}
	case "GSSAPI":
		user, realm := cell.Kerberos()
		config.Net.SASL.GSSAPI = sarama.GSSAPIConfig{
			AuthType: sarama.KRB5_KEYTAB_AUTH, KeyTabPath: cell.Keytab, KerberosConfigPath: cell.Krb5Conf,
			ServiceName: cell.Service, Username: user, Realm: realm, DisablePAFXFAST: true,
		}
	case "SCRAM-SHA-256":
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &exchange{hash: sha256.New} }
	case "SCRAM-SHA-512":
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &exchange{hash: sha512.New} }
	}
	return config, nil
}

func use(cell Cell) error {
	config, err := settings(cell)
	if err != nil {
		return err
	}
	producer, err := sarama.NewSyncProducer([]string{cell.Bootstrap}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	for _, value := range cell.Values() {
		message := &sarama.ProducerMessage{Topic: cell.Topic, Value: sarama.StringEncoder(value)}
		if _, _, err := producer.SendMessage(message); err != nil {
			return err
		}
	}
	consumer, err := sarama.NewConsumer([]string{cell.Bootstrap}, config)
	if err != nil {
		return err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(cell.Topic, 0, sarama.OffsetOldest)
	if err != nil {
		return err
	}
	defer partition.Close()
	found := []string{}
	for late := time.After(Patience); len(found) < Records; {
		select {
		case message := <-partition.Messages():
			found = append(found, string(message.Value))
		case <-late:
			return fmt.Errorf("%d of %d records", len(found), Records)
		}
	}
	return cell.Equal(found)
}

func refused(cell Cell) error {
	config, err := settings(cell)
	if err != nil {
		return err
	}
	config.Metadata.Retry.Max = 0
	client, err := sarama.NewClient([]string{cell.Bootstrap}, config)
	if err == nil {
		client.Close()
	}
	return err
}

func main() { Run("github.com/IBM/sarama", use, refused) }
