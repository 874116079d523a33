// Package checks is what programs of the matrix have in common; tests/compat/matrix/python/checks.py says what they print.
package checks

import (
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	Partitions = 4
	Records    = 40
	Patience   = 60 * time.Second
)

var (
	Bootstrap   = os.Args[1]
	Replication = atoi(os.Args[2])
	prefix      = os.Args[3]
)

type Check struct {
	Capability string
	Run        func() error
}

func atoi(text string) int {
	number, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return number
}

// Name of a topic or a group.
func Name(suffix string) string { return prefix + "-" + suffix }

func ValuesOf(of string, count int) []string {
	values := make([]string, count)
	for number := range values {
		values[number] = fmt.Sprintf("%s %d", of, number)
	}
	return values
}

func Until(isSo func() bool, what string) error {
	for deadline := time.Now().Add(Patience); !isSo(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %s: %s", Patience, what)
		}
	}
	return nil
}

func Equal(found, expected any) error {
	if reflect.DeepEqual(found, expected) {
		return nil
	}
	return fmt.Errorf("%.200s instead of %.200s", fmt.Sprint(found), fmt.Sprint(expected))
}

// All calls one after the other, to the first that fails.
func All(calls ...func() error) error {
	for _, call := range calls {
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}

// Seen is what a consumer has read, and how many partitions it has.
type Seen struct {
	lock       sync.Mutex
	values     []string
	partitions int
}

func (seen *Seen) Add(value string) {
	seen.lock.Lock()
	defer seen.lock.Unlock()
	seen.values = append(seen.values, value)
}

func (seen *Seen) SetPartitions(count int) {
	seen.lock.Lock()
	defer seen.lock.Unlock()
	seen.partitions = count
}

func (seen *Seen) Partitions() int {
	seen.lock.Lock()
	defer seen.lock.Unlock()
	return seen.partitions
}

func (seen *Seen) Values() []string {
	seen.lock.Lock()
	defer seen.lock.Unlock()
	return append([]string(nil), seen.values...)
}

// Member is a consumer of a group that reads in the background.
type Member struct {
	Seen  *Seen
	Leave func()
}

func Covers(expected []string, members ...*Seen) bool {
	found := map[string]bool{}
	for _, member := range members {
		for _, value := range member.Values() {
			found[value] = true
		}
	}
	for _, value := range expected {
		if !found[value] {
			return false
		}
	}
	return true
}

// GroupShare has one member with all partitions, two with half each who read everything together, and one again. A client
// that does not tell what is assigned shows it by what its members read. `of` is in the values, so that no other group's
// records are taken for them.
func GroupShare(of string, join func() (Member, error), produce func([]string) error, tellsAssignment bool) error {
	values := ValuesOf(of, 4*Records)
	if err := produce(values[:Records]); err != nil {
		return err
	}
	first, err := join()
	if err != nil {
		return err
	}
	defer first.Leave()
	if err := Until(func() bool { return Covers(values[:Records], first.Seen) }, "the first member reads all"); err != nil {
		return err
	}
	second, err := join()
	if err != nil {
		return err
	}
	err = All(
		func() error {
			if !tellsAssignment {
				time.Sleep(6 * time.Second)
				return nil
			}
			return Until(func() bool {
				return first.Seen.Partitions() == Partitions/2 && second.Seen.Partitions() == Partitions/2
			}, "both have half")
		},
		func() error { return produce(values[Records : 3*Records]) },
		func() error {
			return Until(func() bool { return Covers(values[:3*Records], first.Seen, second.Seen) }, "both read all")
		},
		func() error { return Equal(len(second.Seen.Values()) > 0, true) },
	)
	second.Leave()
	if err != nil {
		return err
	}
	if err := produce(values[3*Records:]); err != nil {
		return err
	}
	return Until(func() bool { return Covers(values, first.Seen, second.Seen) }, "who is left reads all")
}

// Lacks names the capabilities that the client has no call for.
var Lacks []string

// Main says what will be checked of a module, and checks it; one that fails stops none of those behind it.
func Main(module string, all []Check) {
	fmt.Println("version", versionOf(module))
	if len(Lacks) > 0 {
		fmt.Println("lacks", strings.Join(Lacks, " "))
	}
	names := []string{}
	for _, check := range all {
		names = append(names, check.Capability)
	}
	fmt.Println("plan", strings.Join(names, " "))
	for _, check := range all {
		if err := within(check.Run); err != nil {
			fmt.Printf("failed %s: %.500s\n", check.Capability, strings.Join(strings.Fields(err.Error()), " "))
		} else {
			fmt.Println("ok", check.Capability)
		}
	}
}

func within(run func() error) error {
	done := make(chan error, 1)
	go func() { done <- run() }()
	select {
	case err := <-done:
		return err
	case <-time.After(3 * Patience):
		return fmt.Errorf("not done within %s", 3*Patience)
	}
}

func versionOf(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, each := range info.Deps {
		if each.Path == module {
			return each.Version
		}
	}
	return "unknown"
}
