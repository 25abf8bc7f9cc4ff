package main

import (
	"context"
	"fmt"
	"time"

	"windlass/bench/peers/measuring"
)

// latency measures, one event at a time, from the call of insert_event to the start of the handler.
func latency(ctx context.Context, s measuring.Settings) (map[string]any, map[string]any, error) {
	store, err := openStore(ctx, s.URL, 4)
	if err != nil {
		return nil, nil, err
	}
	if err := store.configure(ctx, "1", "1 millisecond"); err != nil {
		return nil, nil, err
	}
	starts := make(chan time.Time, 1)
	r := &reader{store: store, ticks: true, line: measuring.Series{Start: time.Now()}, started: func(at time.Time) { starts <- at }}
	total := warmUp + s.Samples
	consumed := make(chan error, 1)
	go func() { consumed <- r.until(ctx, total, time.Millisecond) }()
	samples := make([]time.Duration, 0, s.Samples)
	for id := range total {
		began := time.Now()
		if err := store.insertOne(ctx, id); err != nil {
			return nil, nil, err
		}
		select {
		case at := <-starts:
			if id >= warmUp {
				samples = append(samples, at.Sub(began))
				time.Sleep(time.Until(began.Add(time.Duration(s.GapMS) * time.Millisecond)))
			}
		case err := <-consumed:
			return nil, nil, fmt.Errorf("the consumer ended before event %d: %w", id, err)
		case <-time.After(patience):
			return nil, nil, fmt.Errorf("event %d was not handled within %v", id, patience)
		}
	}
	if err := <-consumed; err != nil {
		return nil, nil, err
	}
	used := map[string]any{"ticker": "called before each look", "ticker_max_count": 1, "ticker_max_lag_ms": 1, "ticker_idle_period_ms": 1, "consumer_pause_ms": 1, "gap_ms": s.GapMS}
	return used, measuring.Distribution(samples), r.check(ctx, total)
}

// mixed lets a producer feed the consumer for a time; what is left at the end is handled too, but does not count.
func mixed(ctx context.Context, s measuring.Settings) (map[string]any, map[string]any, error) {
	if s.Batch < 1 || s.Batch > s.Backlog {
		return nil, nil, fmt.Errorf("BENCH_BATCH is %d: give 1 to BENCH_BACKLOG (%d)", s.Batch, s.Backlog)
	}
	store, err := openStore(ctx, s.URL, 4)
	if err != nil {
		return nil, nil, err
	}
	if err := store.configure(ctx, "500", "10 milliseconds"); err != nil {
		return nil, nil, err
	}
	r := &reader{store: store, ticks: true, line: measuring.Series{Start: time.Now()}}
	inserted, err := r.feed(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	used := map[string]any{"ticker": "called before each look", "ticker_max_count": 500, "ticker_max_lag_ms": 10, "ticker_idle_period_ms": 10, "consumer_pause_ms": 1, "producer_batch": s.Batch}
	figures := map[string]any{"completed_per_second": float64(r.line.Within(s.Seconds)) / float64(s.Seconds),
		"per_second": r.line.Seconds[:min(s.Seconds, len(r.line.Seconds))]}
	return used, figures, r.check(ctx, inserted)
}

// feed inserts beside the consumer and returns how many events it inserted, all of them handled.
func (r *reader) feed(ctx context.Context, s measuring.Settings) (int, error) {
	inserted, busy, moved := 0, false, time.Now()
	insertions := make(chan error, 1)
	end := r.line.Start.Add(time.Duration(s.Seconds) * time.Second)
	for {
		feeding := time.Now().Before(end)
		if !busy && feeding && inserted-r.line.Total+s.Batch <= s.Backlog {
			busy = true
			go func(from int) { insertions <- r.store.insertAll(ctx, from, s.Batch) }(inserted)
		}
		if !busy && !feeding && r.line.Total == inserted {
			return inserted, nil
		}
		found, err := r.batch(ctx)
		if err != nil {
			return 0, err
		}
		if found {
			moved = time.Now()
		} else if time.Since(moved) > patience {
			return 0, fmt.Errorf("no batch for %v: %d of %d events are handled", patience, r.line.Total, inserted)
		}
		pause := time.Duration(0)
		if !found {
			pause = time.Millisecond
		}
		select {
		case err := <-insertions:
			if err != nil {
				return 0, err
			}
			busy, inserted = false, inserted+s.Batch
		case <-time.After(pause):
		}
	}
}
