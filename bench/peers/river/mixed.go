package main

import (
	"context"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"windlass/bench/peers/measuring"
)

// mixed lets one producer feed one worker process for a time, keeping at most a backlog unfinished. What is left at
// the end is worked off too, for the check, but does not count.
func mixed(ctx context.Context, s measuring.Settings) (map[string]any, map[string]any, error) {
	if s.Batch < 1 || s.Batch > s.Backlog {
		return nil, nil, fmt.Errorf("BENCH_BATCH is %d: give 1 to BENCH_BACKLOG (%d)", s.Batch, s.Backlog)
	}
	store, err := openStore(ctx, s.URL, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := store.migrate(ctx); err != nil {
		return nil, nil, err
	}
	producer, err := store.client(&river.Config{})
	if err != nil {
		return nil, nil, err
	}
	fleet, err := newFleet(s)
	if err != nil {
		return nil, nil, err
	}
	defer fleet.kill()
	line := measuring.Series{Start: time.Now()}
	if err := fleet.start(); err != nil {
		return nil, nil, err
	}
	inserted, err := feed(ctx, producer, fleet, &line, s)
	if err != nil {
		return nil, nil, err
	}
	if err := finish(ctx, store, fleet, inserted); err != nil {
		return nil, nil, err
	}
	used := tuningFor(s).described()
	used["producer_batch"] = s.Batch
	figures := map[string]any{"completed_per_second": float64(line.Within(s.Seconds)) / float64(s.Seconds),
		"per_second": line.Seconds[:min(s.Seconds, len(line.Seconds))]}
	return used, figures, nil
}

// feed returns how many jobs it inserted, all of them completed.
func feed(ctx context.Context, producer *client, fleet *fleet, line *measuring.Series, s measuring.Settings) (int, error) {
	type insertion struct {
		jobs int
		err  error
	}
	insertions := make(chan insertion, 1)
	inserted, busy, moved := 0, false, time.Now()
	end := line.Start.Add(time.Duration(s.Seconds) * time.Second)
	for {
		feeding := time.Now().Before(end)
		if !busy && feeding && inserted-line.Total+s.Batch <= s.Backlog {
			busy = true
			go func(from int) {
				insertions <- insertion{s.Batch, insertAll(ctx, producer, from, s.Batch, s.Batch)}
			}(inserted)
		}
		if !busy && !feeding && line.Total == inserted {
			return inserted, nil
		}
		total, err := fleet.completed(time.Now().Add(time.Millisecond))
		if err != nil {
			return 0, err
		}
		if total != line.Total {
			moved = time.Now()
			line.Reach(total, moved)
		} else if time.Since(moved) > patience {
			return 0, fmt.Errorf("no job completed for %v: %d of %d are", patience, total, inserted)
		}
		select {
		case done := <-insertions:
			if done.err != nil {
				return 0, done.err
			}
			busy, inserted = false, inserted+done.jobs
		default:
		}
	}
}
