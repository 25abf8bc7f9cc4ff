package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"windlass/bench/peers/measuring"
)

// patience is how long a fleet may stand still before it counts as stuck.
const patience = 60 * time.Second

// fleet is the worker processes of a run, seen from the process that measures.
type fleet struct {
	workers  []*workerProcess
	progress chan progress
	done     []int // completed jobs by worker
	marks    measuring.Marks
}

type workerProcess struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	lines   *bufio.Reader
}

type progress struct {
	worker int
	done   int
	err    error
}

// newFleet starts the processes and waits until each is connected and ready.
func newFleet(s measuring.Settings) (*fleet, error) {
	f := &fleet{progress: make(chan progress, 1024), done: make([]int, s.Processes)}
	for range s.Processes {
		command := exec.Command(os.Args[0], "worker", s.Command)
		command.Stderr = os.Stderr
		stdin, err := command.StdinPipe()
		if err != nil {
			return nil, err
		}
		stdout, err := command.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := command.Start(); err != nil {
			return nil, err
		}
		f.workers = append(f.workers, &workerProcess{command, stdin, bufio.NewReaderSize(stdout, 1<<16)})
	}
	for i, worker := range f.workers {
		if line, err := worker.lines.ReadString('\n'); err != nil || line != "ready\n" {
			return nil, fmt.Errorf("worker process %d did not get ready: %q, %v", i, line, err)
		}
	}
	return f, nil
}

func (f *fleet) start() error {
	for i, worker := range f.workers {
		if _, err := io.WriteString(worker.stdin, "go\n"); err != nil {
			return err
		}
		go f.listen(i, worker)
	}
	return nil
}

// listen passes a worker's numbers on until its last line, the counts, which it keeps.
func (f *fleet) listen(index int, worker *workerProcess) {
	for {
		line, err := worker.lines.ReadBytes('\n')
		if err != nil {
			f.progress <- progress{worker: index, err: fmt.Errorf("worker process %d ended early: %v", index, err)}
			return
		}
		if line[0] == '"' || line[0] == 'n' { // the counts: a base64 string, or null if it handled nothing
			var counts []byte
			err := json.Unmarshal(line, &counts)
			f.marks.Merge(counts)
			if err == nil {
				err = io.EOF
			}
			f.progress <- progress{worker: index, err: err}
			return
		}
		done, err := strconv.Atoi(string(line[:len(line)-1]))
		f.progress <- progress{worker: index, done: done, err: err}
	}
}

// completed waits for news until the deadline and returns how many jobs all workers have completed.
func (f *fleet) completed(deadline time.Time) (int, error) {
	select {
	case news := <-f.progress:
		if news.err != nil {
			return 0, news.err
		}
		f.done[news.worker] = news.done
	case <-time.After(time.Until(deadline)):
	}
	total := 0
	for _, done := range f.done {
		total += done
	}
	return total, nil
}

// stop ends the workers gracefully and returns once each has told its counts.
func (f *fleet) stop() error {
	for _, worker := range f.workers {
		if _, err := io.WriteString(worker.stdin, "stop\n"); err != nil {
			return err
		}
	}
	for told := 0; told < len(f.workers); {
		if news := <-f.progress; errors.Is(news.err, io.EOF) {
			told++
		} else if news.err != nil {
			return news.err
		}
	}
	for _, worker := range f.workers {
		if err := worker.command.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) kill() {
	for _, worker := range f.workers {
		_ = worker.command.Process.Kill() // fails only if it ended already
	}
}
