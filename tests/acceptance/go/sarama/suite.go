// Package sarama names the modules whose tests and proxy are compiled here.
package sarama

import (
	_ "github.com/IBM/sarama"
	_ "github.com/Shopify/toxiproxy/v2"
)
