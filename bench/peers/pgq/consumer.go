package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"windlass/bench/peers/measuring"
)

type jobArgs struct {
	ID int `json:"id"`
}

// reader consumes the queue batch by batch and hands each event to the handler.
type reader struct {
	store   *store
	marks   measuring.Marks
	line    measuring.Series
	ticks   bool            // plays the ticker daemon too: a faster one makes more, empty batches than a consumer can finish
	started func(time.Time) // called at the start of each handler, where that is wanted
}

// batch works one batch off, if there is one: it reads the events, handles each and commits the end of the batch.
func (r *reader) batch(ctx context.Context) (bool, error) {
	if r.ticks {
		if err := r.store.tick(ctx); err != nil {
			return false, err
		}
	}
	var batch *int64
	if err := r.store.pool.QueryRow(ctx, "SELECT pgq.next_batch($1, $2)", queue, consumer).Scan(&batch); err != nil {
		return false, err
	}
	if batch == nil {
		return false, nil
	}
	rows, err := r.store.pool.Query(ctx, "SELECT ev_data FROM pgq.get_batch_events($1)", *batch)
	if err != nil {
		return false, err
	}
	events := 0
	var data []byte
	_, err = pgx.ForEachRow(rows, []any{&data}, func() error {
		events++
		return r.handle(data)
	})
	if err != nil {
		return false, err
	}
	if _, err := r.store.pool.Exec(ctx, "SELECT pgq.finish_batch($1)", *batch); err != nil {
		return false, err
	}
	r.line.Reach(r.line.Total+events, time.Now())
	return true, nil
}

func (r *reader) handle(data []byte) error {
	if r.started != nil {
		r.started(time.Now())
	}
	var args jobArgs
	if err := json.Unmarshal(data, &args); err != nil {
		return fmt.Errorf("event %q: %w", data, err)
	}
	r.marks.Add(args.ID)
	return nil
}

// until works batches off until so many events are handled; it looks again after the pause where there is no batch.
func (r *reader) until(ctx context.Context, events int, pause time.Duration) error {
	moved := time.Now()
	for r.line.Total < events {
		found, err := r.batch(ctx)
		if err != nil {
			return err
		}
		if found {
			moved = time.Now()
		} else if time.Since(moved) > patience {
			return fmt.Errorf("no batch for %v: %d of %d events are handled", patience, r.line.Total, events)
		} else {
			time.Sleep(pause)
		}
	}
	return nil
}
