package main

import (
	"context"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"windlass/bench/peers/measuring"
)

// drain works off jobs that are already there; the scenario "work" is the same with handlers that sleep.
func drain(ctx context.Context, s measuring.Settings) (map[string]any, map[string]any, error) {
	store, err := openStore(ctx, s.URL, 0)
	if err != nil {
		return nil, nil, err
	}
	seeded, err := seed(ctx, store, s)
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
	moved := time.Now()
	for line.Total < s.Jobs {
		total, err := fleet.completed(moved.Add(patience))
		if err != nil {
			return nil, nil, err
		}
		if total == line.Total && time.Since(moved) > patience {
			return nil, nil, fmt.Errorf("no job completed for %v: %d of %d are", patience, total, s.Jobs)
		}
		moved = time.Now()
		line.Reach(total, moved)
	}
	took := moved.Sub(line.Start).Seconds()
	if err := finish(ctx, store, fleet, s.Jobs); err != nil {
		return nil, nil, err
	}
	used := tuningFor(s).described()
	used["processes"] = s.Processes
	figures := map[string]any{"completed_per_second": float64(s.Jobs) / took, "completed_seconds": took,
		"per_second": line.Seconds, "enqueued_per_second": float64(s.Jobs) / seeded.Seconds()}
	return used, figures, nil
}

// seed creates the tables and the jobs, untimed for the scenario.
func seed(ctx context.Context, store *store, s measuring.Settings) (time.Duration, error) {
	if err := store.migrate(ctx); err != nil {
		return 0, err
	}
	client, err := store.client(&river.Config{})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := insertAll(ctx, client, 0, s.Jobs, seedBatch); err != nil {
		return 0, err
	}
	took := time.Since(began)
	return took, store.analyze(ctx)
}

// finish stops the workers, then checks their counts and the store.
func finish(ctx context.Context, store *store, fleet *fleet, jobs int) error {
	if err := fleet.stop(); err != nil {
		return err
	}
	if err := fleet.marks.Check(jobs); err != nil {
		return err
	}
	return store.expect(ctx, jobs, "completed")
}
