package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/riverqueue/river"
)

type jobArgs struct {
	ID int `json:"id"`
}

func (jobArgs) Kind() string { return "bench" }

// marks counts how often each id was handled.
type marks struct {
	mutex  sync.Mutex
	counts []byte
}

func (m *marks) add(id int) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for len(m.counts) <= id {
		m.counts = append(m.counts, make([]byte, max(1024, len(m.counts)))...)
	}
	m.counts[id]++
}

// merge adds another process's counts.
func (m *marks) merge(counts []byte) {
	for id, n := range counts {
		for ; n > 0; n-- {
			m.add(id)
		}
	}
}

// check fails unless each id below jobs was handled exactly once, and no other id at all.
func (m *marks) check(jobs int) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	missing, again := max(0, jobs-len(m.counts)), 0
	for id, n := range m.counts {
		if id < jobs && n == 0 {
			missing++
		}
		if n > 1 || (id >= jobs && n > 0) {
			again++
		}
	}
	if missing+again > 0 {
		return fmt.Errorf("of %d jobs %d were not handled and %d were handled more than once or unasked", jobs, missing, again)
	}
	return nil
}

// handler is the user's worker: River has parsed the args into jobArgs, it marks the id and sleeps if told to.
type handler struct {
	river.WorkerDefaults[jobArgs]
	marks   *marks
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
	h.marks.add(job.Args.ID)
	return nil
}

func (h *handler) workers() *river.Workers {
	workers := river.NewWorkers()
	river.AddWorker(workers, h)
	return workers
}
