// Package measuring is what the adapters in Go share: settings, marks and figures.
package measuring

import (
	"errors"
	"fmt"
	"os"
	"strconv"
)

// Settings is what the caller asked for in the environment; a value that the command does not use stays 0.
type Settings struct {
	URL         string
	Command     string
	Jobs        int
	Clients     int
	Batch       int
	Processes   int
	Tuned       bool
	SleepMS     int
	Concurrency int
	Samples     int
	GapMS       int
	Seconds     int
	Backlog     int
}

// ReadSettings checks what the command needs.
func ReadSettings(command string) (Settings, error) {
	s := Settings{URL: os.Getenv("BENCH_URL"), Command: command}
	if s.URL == "" {
		return s, errors.New("BENCH_URL is not set: give the postgres:// URL of an empty database")
	}
	tuned := 0
	wanted := map[string]map[string]*int{
		"enqueue": {"BENCH_JOBS": &s.Jobs, "BENCH_CLIENTS": &s.Clients, "BENCH_BATCH": &s.Batch},
		"drain":   {"BENCH_JOBS": &s.Jobs, "BENCH_PROCESSES": &s.Processes, "BENCH_TUNED": &tuned},
		"work":    {"BENCH_JOBS": &s.Jobs, "BENCH_SLEEP_MS": &s.SleepMS, "BENCH_CONCURRENCY": &s.Concurrency},
		"latency": {"BENCH_SAMPLES": &s.Samples, "BENCH_GAP_MS": &s.GapMS},
		"mixed":   {"BENCH_SECONDS": &s.Seconds, "BENCH_BACKLOG": &s.Backlog, "BENCH_BATCH": &s.Batch},
	}[command]
	if wanted == nil {
		return s, fmt.Errorf("unknown scenario %q: give enqueue, drain, work, latency or mixed", command)
	}
	for name, into := range wanted {
		n, err := strconv.Atoi(os.Getenv(name))
		if err != nil || n < 0 {
			return s, fmt.Errorf("%s is %q: give a whole number", name, os.Getenv(name))
		}
		*into = n
	}
	s.Tuned = tuned == 1
	if s.Command == "work" || s.Command == "mixed" {
		s.Processes = 1
	}
	return s, nil
}
