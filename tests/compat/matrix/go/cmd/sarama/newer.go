//go:build !older

package main

import (
	"github.com/IBM/sarama"

	. "barnabas/compat/checks"
)

func listOffsets() error {
	for at, expected := range map[int64]int64{sarama.OffsetOldest: 0, sarama.OffsetNewest: Records} {
		found, err := admin.ListOffsets(map[string]map[int32]int64{topic: {0: at}}, nil)
		if err != nil {
			return err
		}
		if err := Equal(found[topic][0].Offset, expected); err != nil {
			return err
		}
	}
	return nil
}

var alterGroupOffsets = []Check{
	{"alter-group-offsets", func() error {
		first := map[string]map[int32]sarama.OffsetAndMetadata{topic: {0: {Offset: 7, LeaderEpoch: -1}}}
		if _, err := admin.AlterConsumerGroupOffsets(group, first, nil); err != nil {
			return err
		}
		return groupOffsetIs(7)()
	}},
}

// answered is for what its calls that list and delete ACLs return.
func answered(err error) error { return refused(err) }
