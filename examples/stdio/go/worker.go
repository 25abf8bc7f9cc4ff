// Works jobs of Windlass, 10 at once:  go build worker.go && windlass work --stdio 'exec ./worker'
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
)

type job struct {
	Type, Kind string
	Ticket     uint64
	Attempt    int
	Args       json.RawMessage
}

type message map[string]any

var handlers = map[string]func(job) (any, error){"mail.send": sendMail}
var writing sync.Mutex

func sendMail(job job) (any, error) {
	var args struct{ To string }
	if err := json.Unmarshal(job.Args, &args); err != nil || args.To == "" {
		return nil, errors.Join(errors.New("nobody to send it to"), err)
	}
	say(message{"type": "log", "ticket": job.Ticket, "text": fmt.Sprint("attempt ", job.Attempt)})
	say(message{"type": "progress", "ticket": job.Ticket, "percent": 50, "note": "handing it over"})
	return message{"sent_to": args.To}, nil
}

func say(m message) error {
	writing.Lock()
	defer writing.Unlock()
	return json.NewEncoder(os.Stdout).Encode(m) // one line; an error where something in it has no JSON form
}

func run(next job) {
	result, err := handlers[next.Kind](next)
	if err == nil {
		err = say(message{"type": "complete", "ticket": next.Ticket, "result": result})
	}
	if err != nil {
		say(message{"type": "retry", "ticket": next.Ticket, "error": err.Error()})
	}
}

func main() {
	say(message{"type": "ready", "protocol": 1, "concurrency": 10, "kinds": []string{"mail.send"}})
	var running sync.WaitGroup
	defer running.Wait()
	in := json.NewDecoder(os.Stdin)
	for next := (job{}); in.Decode(&next) == nil; next = (job{}) {
		if next.Type == "job" {
			running.Go(func() { run(next) })
		}
	}
}
