package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/riverqueue/river"
)

// settings is what the caller asked for in the environment; a value that the command does not use stays 0.
type settings struct {
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

func readSettings(command string) (settings, error) {
	s := settings{URL: os.Getenv("BENCH_URL"), Command: command}
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

// tuning is what one worker process runs with; zero means River's own default.
type tuning struct {
	MaxWorkers int
	Cooldown   time.Duration
	Poll       time.Duration
}

// tuningFor follows the `river bench` command that River ships: 2,000 workers, 2 ms between fetches, 20 ms between
// polls. With sleeping handlers and for latency shorter intervals won a sweep. Without tuning only the number of workers is given, as it has no default.
func (s settings) tuningFor() tuning {
	switch {
	case s.Command == "work":
		return tuning{MaxWorkers: s.Concurrency, Cooldown: time.Millisecond, Poll: time.Millisecond}
	case s.Command == "latency":
		return tuning{MaxWorkers: 100, Cooldown: time.Millisecond, Poll: 2 * time.Millisecond}
	case s.Command == "drain" && !s.Tuned:
		return tuning{MaxWorkers: 10}
	default:
		return tuning{MaxWorkers: 2000, Cooldown: 2 * time.Millisecond, Poll: 20 * time.Millisecond}
	}
}

func (t tuning) config() *river.Config {
	return &river.Config{
		FetchCooldown:     t.Cooldown,
		FetchPollInterval: t.Poll,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: t.MaxWorkers}},
	}
}

// described tells the settings in the words of River's documentation.
func (t tuning) described() map[string]any {
	or := func(d time.Duration, unset time.Duration) float64 {
		if d == 0 {
			d = unset
		}
		return float64(d) / float64(time.Millisecond)
	}
	return map[string]any{
		"max_workers":            t.MaxWorkers,
		"fetch_cooldown_ms":      or(t.Cooldown, river.FetchCooldownDefault),
		"fetch_poll_interval_ms": or(t.Poll, river.FetchPollIntervalDefault),
	}
}
