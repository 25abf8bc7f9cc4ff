package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type client = river.Client[pgx.Tx]

// store is the database with River's tables in it.
type store struct{ pool *pgxpool.Pool }

// openStore connects; connections of 0 leaves the pool at the default of pgx (4, or the number of processors).
func openStore(ctx context.Context, url string, connections int) (*store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("BENCH_URL is not a postgres URL: %w", err)
	}
	if connections > 0 {
		config.MaxConns = int32(connections)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &store{pool}, pool.Ping(ctx)
}

func (s *store) migrate(ctx context.Context) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(s.pool), &rivermigrate.Config{Logger: logger()})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// client makes a River client; without queues in its configuration it can only insert.
func (s *store) client(config *river.Config) (*client, error) {
	config.Logger = logger()
	return river.NewClient(riverpgxv5.New(s.pool), config)
}

// insertAll enqueues ids from..from+count in batches of the size given, through the COPY interface.
func insertAll(ctx context.Context, c *client, from, count, batch int) error {
	params := make([]river.InsertManyParams, 0, batch)
	for id := from; id < from+count; {
		params = params[:0]
		for ; id < from+count && len(params) < batch; id++ {
			params = append(params, river.InsertManyParams{Args: jobArgs{ID: id}})
		}
		if _, err := c.InsertManyFast(ctx, params); err != nil {
			return fmt.Errorf("inserting %d jobs: %w", len(params), err)
		}
	}
	return nil
}

func (s *store) analyze(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, "ANALYZE river_job")
	return err
}

// expect fails unless the table holds exactly so many jobs in the state, and no others.
func (s *store) expect(ctx context.Context, jobs int, state string) error {
	var total, matching int
	const query = "SELECT count(*), count(*) FILTER (WHERE state = $1::river_job_state) FROM river_job"
	if err := s.pool.QueryRow(ctx, query, state).Scan(&total, &matching); err != nil {
		return err
	}
	if total != jobs || matching != jobs {
		return fmt.Errorf("the store holds %d jobs, %d of them %s; expected %d", total, matching, state, jobs)
	}
	return nil
}

// logger keeps River's warnings off stdout, where the result goes.
func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
