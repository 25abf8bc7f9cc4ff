package main

import (
	"time"

	"github.com/riverqueue/river"

	"windlass/bench/peers/measuring"
)

// tuning is what one worker process runs with; zero means River's own default.
type tuning struct {
	MaxWorkers int
	Cooldown   time.Duration
	Poll       time.Duration
}

// tuningFor follows the `river bench` command that River ships: 2,000 workers, 2 ms between fetches, 20 ms between
// polls. With sleeping handlers and for latency shorter intervals won a sweep. Without tuning only the number of workers is given, as it has no default.
func tuningFor(s measuring.Settings) tuning {
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
