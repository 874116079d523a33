//go:build older

package main

import (
	"github.com/IBM/sarama"

	. "barnabas/compat/checks"
)

// listOffsets asks as a client: its admin has no call for it.
func listOffsets() error {
	client, err := sarama.NewClient([]string{Bootstrap}, settings())
	if err != nil {
		return err
	}
	defer client.Close()
	for at, expected := range map[int64]int64{sarama.OffsetOldest: 0, sarama.OffsetNewest: Records} {
		found, err := client.GetOffset(topic, 0, at)
		if err != nil {
			return err
		}
		if err := Equal(found, expected); err != nil {
			return err
		}
	}
	return nil
}

// Its admin can't alter a group's offsets.
var alterGroupOffsets []Check

// answered drops the refusal, as its calls that list and delete ACLs do: they don't look at the error of the answer.
func answered(err error) error { return err }
