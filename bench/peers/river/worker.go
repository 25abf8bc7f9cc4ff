package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"

	"windlass/bench/peers/measuring"
)

// serve is a worker process. It says "ready" on stdout, starts at "go" on stdin, then tells its number of completed jobs
// whenever it changed, and at "stop" (or the end of stdin) ends with the counts of its handler as JSON.
func serve(ctx context.Context, s measuring.Settings) error {
	store, err := openStore(ctx, s.URL, 0)
	if err != nil {
		return err
	}
	job := &handler{marks: &measuring.Marks{}, sleep: time.Duration(s.SleepMS) * time.Millisecond}
	config := tuningFor(s).config()
	config.Workers = job.workers()
	client, err := store.client(config)
	if err != nil {
		return err
	}
	var completed atomic.Int64
	countCompleted(client, s, &completed)

	stdin := bufio.NewScanner(os.Stdin)
	fmt.Println("ready")
	if !stdin.Scan() || stdin.Text() != "go" {
		return nil
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	stop := make(chan struct{})
	go func() {
		stdin.Scan()
		close(stop)
	}()
	tellProgress(&completed, stop)
	if err := client.Stop(ctx); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(job.marks.Counts)
}

// countCompleted counts by River's own events: they are sent after the completion is committed.
func countCompleted(client *client, s measuring.Settings, completed *atomic.Int64) {
	events, _ := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: max(s.Jobs, 100_000), // a full channel drops events
		Kinds:    []river.EventKind{river.EventKindJobCompleted, river.EventKindJobFailed, river.EventKindJobCancelled},
	})
	go func() {
		for event := range events {
			if event.Kind != river.EventKindJobCompleted {
				fmt.Fprintf(os.Stderr, "job %d ended as %s\n", event.Job.ID, event.Kind)
				os.Exit(1)
			}
			completed.Add(1)
		}
	}()
}

func tellProgress(completed *atomic.Int64, stop chan struct{}) {
	ticks := time.NewTicker(5 * time.Millisecond)
	defer ticks.Stop()
	told := int64(0)
	for {
		select {
		case <-stop:
			return
		case <-ticks.C:
			if now := completed.Load(); now != told {
				fmt.Println(now)
				told = now
			}
		}
	}
}
