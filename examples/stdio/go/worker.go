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

func say(m message) {
	writing.Lock()
	defer writing.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(m) // one line; nobody reads it when the worker is gone
}

func main() {
	say(message{"type": "ready", "protocol": 1, "concurrency": 10, "kinds": []string{"mail.send"}})
	var running sync.WaitGroup
	defer running.Wait()
	for in := json.NewDecoder(os.Stdin); ; {
		var next job
		if in.Decode(&next) != nil {
			return
		}
		if next.Type != "job" {
			continue
		}
		running.Go(func() {
			if result, err := handlers[next.Kind](next); err != nil {
				say(message{"type": "retry", "ticket": next.Ticket, "error": err.Error()})
			} else {
				say(message{"type": "complete", "ticket": next.Ticket, "result": result})
			}
		})
	}
}
