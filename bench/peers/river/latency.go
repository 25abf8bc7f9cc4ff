package main

import (
	"context"
	"fmt"
	"time"

	"windlass/bench/peers/measuring"
)

const warmUp = 200

// latency measures, one job at a time, from the call of Insert to the start of the handler, both in this process.
func latency(ctx context.Context, s measuring.Settings) (map[string]any, map[string]any, error) {
	store, err := openStore(ctx, s.URL, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := store.migrate(ctx); err != nil {
		return nil, nil, err
	}
	starts := make(chan time.Time, 1)
	job := &handler{marks: &measuring.Marks{}, started: func(int) { starts <- time.Now() }}
	config := tuningFor(s).config()
	config.Workers = job.workers()
	client, err := store.client(config)
	if err != nil {
		return nil, nil, err
	}
	if err := client.Start(ctx); err != nil {
		return nil, nil, err
	}
	samples := make([]time.Duration, 0, s.Samples)
	for id := range warmUp + s.Samples {
		began := time.Now()
		if _, err := client.Insert(ctx, jobArgs{ID: id}, nil); err != nil {
			return nil, nil, err
		}
		select {
		case started := <-starts:
			if id >= warmUp {
				samples = append(samples, started.Sub(began))
			}
		case <-time.After(patience):
			return nil, nil, fmt.Errorf("job %d did not start within %v", id, patience)
		}
		if id >= warmUp {
			time.Sleep(time.Until(began.Add(time.Duration(s.GapMS) * time.Millisecond)))
		}
	}
	if err := client.Stop(ctx); err != nil {
		return nil, nil, err
	}
	if err := job.marks.Check(warmUp + s.Samples); err != nil {
		return nil, nil, err
	}
	used := tuningFor(s).described()
	used["gap_ms"] = s.GapMS
	return used, measuring.Distribution(samples), store.expect(ctx, warmUp+s.Samples, "completed")
}
