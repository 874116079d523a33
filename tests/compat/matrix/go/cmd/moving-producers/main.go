// What tests/compat/java/MovingProducers.java is, of franz-go: the same arguments, the same report, the same lines on
// standard output; see tests/faults/moving_leaders/deliveries.py.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	batchBytesMax = 1024
	valueBytes    = 100
	linger        = time.Millisecond
	// As the Java client's delivery.timeout.ms; franz-go's own default is none.
	deliveryTimeout = 120 * time.Second
	nap             = 200 * time.Microsecond
	sayEvery        = 500 * time.Millisecond
)

var (
	acknowledged, failed atomic.Int64
	stopping             atomic.Bool
	always               = context.Background()
)

type producer struct {
	number        int
	topic         string
	sent          []int
	unanswered    []atomic.Int32
	unansweredMax int32
	client        *kgo.Client
	lock          sync.Mutex
	file          *os.File
	report        *bufio.Writer
}

func newProducer(number int, bootstrap, topic string, partitions, unansweredMax int, directory string) *producer {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ClientID(fmt.Sprintf("producer-%d", number)),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(batchBytesMax),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(linger),
		kgo.RecordDeliveryTimeout(deliveryTimeout),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, func() string {
			return fmt.Sprintf("%d producer-%d ", time.Now().UnixMilli(), number)
		})),
	)
	check(err)
	file, err := os.Create(filepath.Join(directory, fmt.Sprintf("producer-%d.txt", number)))
	check(err)
	return &producer{
		number:        number,
		topic:         topic,
		sent:          make([]int, partitions),
		unanswered:    make([]atomic.Int32, partitions),
		unansweredMax: int32(unansweredMax),
		client:        client,
		file:          file,
		report:        bufio.NewWriter(file),
	}
}

func (p *producer) run() {
	for !stopping.Load() {
		if !p.sendToEach() {
			time.Sleep(nap)
		}
	}
	check(p.client.Flush(always))
	p.client.Close()
	for partition, sent := range p.sent {
		fmt.Fprintf(p.report, "sent %d %d\n", partition, sent)
	}
	check(p.report.Flush())
	check(p.file.Close())
}

// sendToEach says whether any partition took one.
func (p *producer) sendToEach() bool {
	any := false
	for partition := range p.sent {
		if p.unanswered[partition].Load() < p.unansweredMax {
			p.send(partition)
			any = true
		}
	}
	return any
}

func (p *producer) send(partition int) {
	sequence := p.sent[partition]
	p.sent[partition]++
	p.unanswered[partition].Add(1)
	value := fmt.Appendf(nil, "%-*s", valueBytes, fmt.Sprintf("p%d-%d-%d", p.number, partition, sequence))
	record := &kgo.Record{Topic: p.topic, Partition: int32(partition), Value: value}
	p.client.Produce(always, record, func(record *kgo.Record, err error) {
		p.answered(partition, sequence, record.Offset, err)
	})
}

func (p *producer) answered(partition, sequence int, offset int64, err error) {
	p.unanswered[partition].Add(-1)
	line := fmt.Appendf(nil, "%d %d %d ", time.Now().UnixMilli(), partition, sequence)
	if err == nil {
		acknowledged.Add(1)
		line = strconv.AppendInt(line, offset, 10)
	} else {
		failed.Add(1)
		line = fmt.Appendf(line, "- %s", nameOf(err))
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	_, writing := p.report.Write(append(line, '\n'))
	check(writing)
}

// nameOf is Kafka's where the broker named it, and one word in any case.
func nameOf(err error) string {
	var kafka *kerr.Error
	if errors.As(err, &kafka) {
		return kafka.Message
	}
	return strings.ReplaceAll(err.Error(), " ", "_")
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func atoi(text string) int {
	number, err := strconv.Atoi(text)
	check(err)
	return number
}

func sayVersion() {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == "github.com/twmb/franz-go" {
			fmt.Println("version", strings.TrimPrefix(module.Version, "v"))
		}
	}
}

func main() {
	sayVersion()
	arguments := os.Args[1:]
	producers := []*producer{}
	for number := range atoi(arguments[3]) {
		producers = append(producers, newProducer(
			number, arguments[0], arguments[1], atoi(arguments[2]), atoi(arguments[4]), arguments[5]))
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stopping.Store(true)
	}()
	var running sync.WaitGroup
	for _, each := range producers {
		running.Go(each.run)
	}
	ended := make(chan struct{})
	go func() {
		running.Wait()
		close(ended)
	}()
	for {
		fmt.Println(acknowledged.Load(), failed.Load())
		select {
		case <-ended:
			fmt.Println(acknowledged.Load(), failed.Load())
			return
		case <-time.After(sayEvery):
		}
	}
}
