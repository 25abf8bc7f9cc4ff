// Command pgq measures the PgQ event queue by the contract of bench/peers.
package main

import (
	"context"
	"fmt"
	"os"

	"windlass/bench/peers/measuring"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: run enqueue|drain|latency|mixed")
		os.Exit(1)
	}
	err := measuring.Run(context.Background(), os.Args[1], "3.5", map[string]measuring.Scenario{
		"enqueue": enqueue, "drain": drain, "latency": latency, "mixed": mixed})
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgq:", err)
		os.Exit(measuring.Status(err))
	}
}
