// franz-go in each cell.
package main

import (
	"context"

	gokrb5 "github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/kerberos"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	. "barnabas/security/cells"
)

func client(cell Cell, more ...kgo.Opt) (*kgo.Client, error) {
	options := append([]kgo.Opt{kgo.SeedBrokers(cell.Bootstrap), kgo.AllowAutoTopicCreation()}, more...)
	config, err := cell.TLS()
	if err != nil {
		return nil, err
	}
	if config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	switch cell.Mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: cell.User, Pass: cell.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: cell.User, Pass: cell.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: cell.User, Pass: cell.Password}.AsSha512Mechanism()))
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Auth{Token: cell.Token()}.AsMechanism()))
	case "GSSAPI":
		login, err := ticket(cell)
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.SASL(kerberos.Auth{Client: login, Service: cell.Service}.AsMechanism()))
	}
	return kgo.NewClient(options...)
}

func ticket(cell Cell) (*gokrb5.Client, error) {
	realm, err := config.Load(cell.Krb5Conf)
	if err != nil {
		return nil, err
	}
	keys, err := keytab.Load(cell.Keytab)
	if err != nil {
		return nil, err
	}
	user, name := cell.Kerberos()
	return gokrb5.NewWithKeytab(user, name, keys, realm, gokrb5.DisablePAFXFAST(true)), nil
}

func use(cell Cell) error {
	late, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	producer, err := client(cell)
	if err != nil {
		return err
	}
	defer producer.Close()
	for _, value := range cell.Values() {
		record := &kgo.Record{Topic: cell.Topic, Partition: 0, Value: []byte(value)}
		if err := producer.ProduceSync(late, record).FirstErr(); err != nil {
			return err
		}
	}
	consumer, err := client(cell, kgo.ConsumeTopics(cell.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer consumer.Close()
	found := []string{}
	for len(found) < Records {
		fetches := consumer.PollFetches(late)
		if late.Err() != nil {
			return late.Err()
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) { found = append(found, string(record.Value)) })
	}
	return cell.Equal(found)
}

func refused(cell Cell) error {
	late, cancel := context.WithTimeout(context.Background(), 2*RefusedWithin)
	defer cancel()
	one, err := client(cell)
	if err != nil {
		return err
	}
	defer one.Close()
	return one.Ping(late)
}

func main() { Run("github.com/twmb/franz-go", use, refused) }
