package main

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"windlass/bench/peers/measuring"
)

type jobArgs struct {
	ID int `json:"id"`
}

func (jobArgs) Kind() string { return "bench" }

// handler is the user's worker: River has parsed the args into jobArgs, it marks the id and sleeps if told to.
type handler struct {
	river.WorkerDefaults[jobArgs]
	marks   *measuring.Marks
	sleep   time.Duration
	started func(id int)
}

func (h *handler) Work(ctx context.Context, job *river.Job[jobArgs]) error {
	if h.started != nil {
		h.started(job.Args.ID)
	}
	if h.sleep > 0 {
		time.Sleep(h.sleep)
	}
	h.marks.Add(job.Args.ID)
	return nil
}

func (h *handler) workers() *river.Workers {
	workers := river.NewWorkers()
	river.AddWorker(workers, h)
	return workers
}
