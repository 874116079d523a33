module barnabas/security

go 1.25

require (
	github.com/IBM/sarama v1.43.3
	github.com/jcmturner/gokrb5/v8 v8.4.4
	github.com/segmentio/kafka-go v0.4.51
	github.com/twmb/franz-go v1.22.2
	github.com/twmb/franz-go/pkg/sasl/kerberos v1.1.0
	github.com/xdg-go/scram v1.2.0
)
