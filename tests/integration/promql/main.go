// Reads PromQL expressions from standard input, one a line; prints what Prometheus' own parser says of each that it refuses.
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	refused := 0
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if _, err := parser.ParseExpr(lines.Text()); err != nil {
			fmt.Printf("%s: %v\n", lines.Text(), err)
			refused++
		}
	}
	if refused > 0 {
		os.Exit(1)
	}
}
