// Package kgo names the modules whose tests are compiled here.
package kgo

import (
	_ "github.com/twmb/franz-go/pkg/kadm"
	_ "github.com/twmb/franz-go/pkg/kgo"
)
