package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"windlass/bench/peers/measuring"
)

const (
	patience  = 60 * time.Second
	seedBatch = 10_000 // events per COPY and per batch of the consumer
	warmUp    = 200
)

func enqueue(ctx context.Context, s measuring.Settings) (map[string]any, map[string]any, error) {
	store, err := openStore(ctx, s.URL, s.Clients)
	if err != nil {
		return nil, nil, err
	}
	failures := make(chan error, s.Clients)
	var group sync.WaitGroup
	began := time.Now()
	for i := range s.Clients {
		from, to := s.Jobs*i/s.Clients, s.Jobs*(i+1)/s.Clients
		group.Go(func() {
			for id := from; id < to; id += s.Batch {
				var err error
				if s.Batch == 1 {
					err = store.insertOne(ctx, id)
				} else {
					err = store.insertAll(ctx, id, min(s.Batch, to-id))
				}
				if err != nil {
					failures <- err
					return
				}
			}
		})
	}
	group.Wait()
	took := time.Since(began).Seconds()
	close(failures)
	if err := <-failures; err != nil {
		return nil, nil, err
	}
	used := map[string]any{"clients": s.Clients, "batch": s.Batch, "call": "pgq.insert_event"}
	if s.Batch > 1 {
		used["call"] = "COPY into the current event table"
	}
	figures := map[string]any{"enqueued_per_second": float64(s.Jobs) / took, "enqueued_seconds": took}
	return used, figures, store.expectEvents(ctx, s.Jobs)
}

func drain(ctx context.Context, s measuring.Settings) (map[string]any, map[string]any, error) {
	if s.Processes != 1 || !s.Tuned {
		return nil, nil, measuring.Cannot("one consumer in one process only, see left_out in peer.json")
	}
	store, err := openStore(ctx, s.URL, 4)
	if err != nil {
		return nil, nil, err
	}
	began := time.Now()
	for id := 0; id < s.Jobs; id += seedBatch {
		if err := store.insertAll(ctx, id, min(seedBatch, s.Jobs-id)); err != nil {
			return nil, nil, err
		}
		if err := store.cut(ctx); err != nil {
			return nil, nil, err
		}
	}
	seeded := time.Since(began).Seconds()
	if _, err := store.pool.Exec(ctx, "ANALYZE"); err != nil {
		return nil, nil, err
	}
	r := &reader{store: store, line: measuring.Series{Start: time.Now()}}
	if err := r.until(ctx, s.Jobs, time.Millisecond); err != nil {
		return nil, nil, err
	}
	took := time.Since(r.line.Start).Seconds()
	used := map[string]any{"processes": 1, "events_per_batch": seedBatch}
	figures := map[string]any{"completed_per_second": float64(s.Jobs) / took, "completed_seconds": took,
		"per_second": r.line.Seconds, "enqueued_per_second": float64(s.Jobs) / seeded}
	return used, figures, r.check(ctx, s.Jobs)
}

// check fails unless each event was handled exactly once and none is left.
func (r *reader) check(ctx context.Context, events int) error {
	if err := r.marks.Check(events); err != nil {
		return err
	}
	return r.store.expectFinished(ctx)
}

// cut makes a batch of the events so far, also where the ticker would wait for more.
func (s *store) cut(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, "SELECT pgq.force_tick($1)", queue); err != nil {
		return fmt.Errorf("forcing a tick: %w", err)
	}
	return s.tick(ctx)
}
