module barnabas/compat

go 1.25

require (
	github.com/IBM/sarama v1.43.3
	github.com/segmentio/kafka-go v0.4.51
	github.com/twmb/franz-go v1.22.2
	github.com/twmb/franz-go/pkg/kadm v1.19.0
)
