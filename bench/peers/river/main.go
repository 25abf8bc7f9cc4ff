// Command river measures the River job queue by the contract of bench/peers.
package main

import (
	"context"
	"fmt"
	"os"

	"windlass/bench/peers/measuring"
)

func main() {
	arguments := os.Args[1:]
	var err error
	switch {
	case len(arguments) == 2 && arguments[0] == "worker": // a child of the fleet
		var s measuring.Settings
		if s, err = measuring.ReadSettings(arguments[1]); err == nil {
			err = serve(context.Background(), s)
		}
	case len(arguments) == 1:
		version := measuring.Version("github.com/riverqueue/river")
		err = measuring.Run(context.Background(), arguments[0], version, map[string]measuring.Scenario{
			"enqueue": enqueue, "drain": drain, "work": drain, "latency": latency, "mixed": mixed})
	default:
		err = fmt.Errorf("usage: run enqueue|drain|work|latency|mixed")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}
