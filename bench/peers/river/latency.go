package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const warmUp = 200

// latency measures, one job at a time, from the call of Insert to the start of the handler, both in this process.
func latency(ctx context.Context, s settings) (map[string]any, map[string]any, error) {
	store, err := openStore(ctx, s.URL, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := store.migrate(ctx); err != nil {
		return nil, nil, err
	}
	starts := make(chan time.Time, 1)
	job := &handler{marks: &marks{}, started: func(int) { starts <- time.Now() }}
	config := s.tuningFor().config()
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
	if err := job.marks.check(warmUp + s.Samples); err != nil {
		return nil, nil, err
	}
	used := s.tuningFor().described()
	used["gap_ms"] = s.GapMS
	return used, distribution(samples), store.expect(ctx, warmUp+s.Samples, "completed")
}

func distribution(samples []time.Duration) map[string]any {
	if len(samples) == 0 {
		return map[string]any{"samples": 0}
	}
	slices.Sort(samples)
	sum := time.Duration(0)
	for _, sample := range samples {
		sum += sample
	}
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	at := func(share float64) float64 {
		return micros(samples[min(len(samples)-1, int(share*float64(len(samples))))])
	}
	return map[string]any{"samples": len(samples), "average_us": micros(sum) / float64(len(samples)),
		"p50_us": at(0.50), "p90_us": at(0.90), "p95_us": at(0.95), "p99_us": at(0.99), "p999_us": at(0.999),
		"max_us": micros(samples[len(samples)-1])}
}
