// Command river measures the River job queue by the contract of bench/peers.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
)

type scenario func(context.Context, settings) (used, figures map[string]any, err error)

func main() {
	arguments := os.Args[1:]
	var err error
	switch {
	case len(arguments) == 2 && arguments[0] == "worker": // a child of the fleet
		var s settings
		if s, err = readSettings(arguments[1]); err == nil {
			err = serve(context.Background(), s)
		}
	case len(arguments) == 1:
		err = measure(context.Background(), arguments[0])
	default:
		err = fmt.Errorf("usage: run enqueue|drain|work|latency|mixed")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, command string) error {
	s, err := readSettings(command)
	if err != nil {
		return err
	}
	scenarios := map[string]scenario{"enqueue": enqueue, "drain": drain, "work": drain, "latency": latency, "mixed": mixed}
	used, figures, err := scenarios[command](ctx, s)
	if err != nil {
		return err
	}
	result := map[string]any{"version": version(), "settings": used, "figures": figures}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// version is River's, as it is linked in.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, module := range info.Deps {
		if module.Path == "github.com/riverqueue/river" {
			return module.Version
		}
	}
	return "unknown"
}
