package main

import (
	"context"
	"sync"
	"time"

	"github.com/riverqueue/river"

	"windlass/bench/peers/measuring"
)

// seedBatch is the number of jobs per COPY where jobs are put in place untimed.
const seedBatch = 10_000

func enqueue(ctx context.Context, s measuring.Settings) (map[string]any, map[string]any, error) {
	store, err := openStore(ctx, s.URL, s.Clients)
	if err != nil {
		return nil, nil, err
	}
	if err := store.migrate(ctx); err != nil {
		return nil, nil, err
	}
	client, err := store.client(&river.Config{})
	if err != nil {
		return nil, nil, err
	}
	began := time.Now()
	if err := insertConcurrently(ctx, client, s); err != nil {
		return nil, nil, err
	}
	took := time.Since(began).Seconds()
	used := map[string]any{"clients": s.Clients, "pool_max_connections": s.Clients, "batch": s.Batch, "call": "Insert"}
	if s.Batch > 1 {
		used["call"] = "InsertManyFast (COPY)"
	}
	figures := map[string]any{"enqueued_per_second": float64(s.Jobs) / took, "enqueued_seconds": took}
	return used, figures, store.expect(ctx, s.Jobs, "available")
}

// insertConcurrently gives each client an equal, connected part of the ids.
func insertConcurrently(ctx context.Context, client *client, s measuring.Settings) error {
	var group sync.WaitGroup
	failures := make(chan error, s.Clients)
	for i := range s.Clients {
		from, to := s.Jobs*i/s.Clients, s.Jobs*(i+1)/s.Clients
		group.Go(func() {
			if s.Batch > 1 {
				failures <- insertAll(ctx, client, from, to-from, s.Batch)
				return
			}
			for id := from; id < to; id++ {
				if _, err := client.Insert(ctx, jobArgs{ID: id}, nil); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}
