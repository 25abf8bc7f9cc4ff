package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"windlass/bench/peers/measuring"
)

const (
	queue    = "bench"
	consumer = "worker"
)

// store is a database with one PgQ queue and one consumer of it.
type store struct {
	pool  *pgxpool.Pool
	table pgx.Identifier // where new events go
}

func openStore(ctx context.Context, url string, connections int) (*store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("BENCH_URL is not a postgres URL: %w", err)
	}
	config.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &store{pool: pool}
	var available bool
	if err := pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pgq')").Scan(&available); err != nil {
		return nil, err
	}
	if !available {
		return nil, measuring.Cannot("the server has no extension pgq: install package postgresql-NN-pgq3 of its version")
	}
	return s, s.create(ctx)
}

func (s *store) create(ctx context.Context) error {
	for _, statement := range []string{
		"CREATE EXTENSION pgq",
		"SELECT pgq.create_queue('" + queue + "')",
		"SELECT pgq.register_consumer('" + queue + "', '" + consumer + "')",
	} {
		if _, err := s.pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	var table string
	if err := s.pool.QueryRow(ctx, "SELECT pgq.current_event_table($1)", queue).Scan(&table); err != nil {
		return err
	}
	s.table = strings.Split(table, ".")
	return nil
}

// configure sets when the ticker makes a tick: after so many events or so long, whichever comes first; and no less often
// in idle times, as an event that commits after the tick that counted it would wait for the next one.
func (s *store) configure(ctx context.Context, count, lag string) error {
	const statement = `SELECT pgq.set_queue_config($1, 'ticker_max_count', $2),
		pgq.set_queue_config($1, 'ticker_max_lag', $3), pgq.set_queue_config($1, 'ticker_idle_period', $3)`
	_, err := s.pool.Exec(ctx, statement, queue, count, lag)
	return err
}

func (s *store) insertOne(ctx context.Context, id int) error {
	data, err := json.Marshal(jobArgs{id})
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, "SELECT pgq.insert_event($1, 'bench', $2)", queue, string(data))
	return err
}

// insertAll copies the ids from..from+count into the current event table, as PgQ's documentation allows.
func (s *store) insertAll(ctx context.Context, from, count int) error {
	now := time.Now() // the column has no default, as insert_event fills it in
	rows := pgx.CopyFromSlice(count, func(i int) ([]any, error) {
		data, err := json.Marshal(jobArgs{from + i})
		return []any{now, "bench", string(data)}, err
	})
	_, err := s.pool.CopyFrom(ctx, s.table, []string{"ev_time", "ev_type", "ev_data"}, rows)
	return err
}

// tick lets PgQ cut a batch if one is due by its settings.
func (s *store) tick(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, "SELECT pgq.ticker($1)", queue)
	return err
}

// expectEvents fails unless the event tables hold exactly so many.
func (s *store) expectEvents(ctx context.Context, events int) error {
	var found int
	if err := s.pool.QueryRow(ctx, "SELECT count(*) FROM "+s.parent()).Scan(&found); err != nil {
		return err
	}
	if found != events {
		return fmt.Errorf("the queue holds %d events; expected %d", found, events)
	}
	return nil
}

// parent is the table that the rotated event tables inherit from.
func (s *store) parent() string {
	name := s.table[len(s.table)-1]
	return pgx.Identifier{s.table[0], name[:strings.LastIndex(name, "_")]}.Sanitize()
}

// expectFinished fails if the consumer is in the middle of a batch, or events wait behind its last one.
func (s *store) expectFinished(ctx context.Context) error {
	var pending int
	var batch *int64
	const query = "SELECT pending_events, current_batch FROM pgq.get_consumer_info($1, $2)"
	if err := s.pool.QueryRow(ctx, query, queue, consumer).Scan(&pending, &batch); err != nil {
		return err
	}
	if pending != 0 || batch != nil {
		return fmt.Errorf("the consumer has %d pending events (open batch: %t)", pending, batch != nil)
	}
	return nil
}
