// Works jobs of Windlass, 10 at once:  go build worker.go && windlass work --stdio 'exec ./worker'
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
)

type job struct {
	Type, Kind      string
	Ticket, Attempt uint64
	Args            json.RawMessage
}
type message map[string]any

var handlers = map[string]func(job) (any, error){"mail.send": sendMail}

func sendMail(job job) (any, error) {
	var args struct{ To string }
	if json.Unmarshal(job.Args, &args) != nil || args.To == "" {
		return nil, fmt.Errorf("nobody to send it to")
	}
	say(message{"type": "log", "ticket": job.Ticket, "text": fmt.Sprint("attempt ", job.Attempt)})
	say(message{"type": "progress", "ticket": job.Ticket, "percent": 50, "note": "handing it over"})
	return message{"sent_to": args.To}, nil
}

func say(m message) { // one line, by one write; none where something in it has no JSON form
	text, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

func run(next job) {
	defer func() {
		if why := recover(); why != nil {
			say(message{"type": "retry", "ticket": next.Ticket, "error": fmt.Sprint(why)})
		}
	}()
	result, err := handlers[next.Kind](next)
	if err != nil {
		panic(err)
	}
	say(message{"type": "complete", "ticket": next.Ticket, "result": result})
}

func main() {
	say(message{"type": "ready", "protocol": 1, "concurrency": 10, "kinds": []string{"mail.send"}})
	var running sync.WaitGroup
	defer running.Wait()
	for in, next := json.NewDecoder(os.Stdin), (job{}); in.Decode(&next) == nil; next = (job{}) {
		if next.Type == "job" {
			running.Go(func() { run(next) })
		}
	}
}
