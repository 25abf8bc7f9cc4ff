// Works jobs of Windlass:  go build worker.go && WINDLASS_URL=https://jobs.example.com WINDLASS_TOKEN=wl_... ./worker
package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"time"
)

type object = map[string]any

func post(path string, body object) (status int, said object) { // nil: no answer
	text, _ := json.Marshal(body)
	request, _ := http.NewRequest("POST", os.Getenv("WINDLASS_URL")+"/work/v1/workers"+path, bytes.NewReader(text))
	request.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + os.Getenv("WINDLASS_TOKEN")}}
	if response, err := http.DefaultClient.Do(request); err == nil {
		defer response.Body.Close()
		status = response.StatusCode
		json.NewDecoder(response.Body).Decode(&said)
	}
	return
}

func run(job object) object {
	args, _ := job["args"].(object)
	to, is := args["to"].(string)
	result, err := json.Marshal(object{"sent_to": to})
	switch {
	case !is:
		return object{"receipt": job["receipt"], "outcome": "retry", "error": "nobody to send it to"}
	case err != nil: // here it fails this job alone, and not the turn
		return object{"receipt": job["receipt"], "outcome": "retry", "error": err.Error()}
	}
	return object{"receipt": job["receipt"], "outcome": "complete", "result": json.RawMessage(result)}
}

func main() { // one job after the other, so the lease and the time limit cover a whole turn
	http.DefaultClient.Timeout = 40 * time.Second
	register := object{"queues": object{"default": 10}, "kinds": []string{"mail.send"}, "lease_s": 300, "timeout_ms": 240_000}
	for path, body := "", register; ; {
		switch status, said := post(path, body); {
		case said == nil || status == 429 || status >= 500:
			time.Sleep(time.Second)
		case status == 201: // registered
			path, body = "/"+said["worker"].(string)+"/turn", object{"wait_s": 20}
		case status == 200:
			done := []object{}
			for _, job := range said["jobs"].([]any) {
				done = append(done, run(job.(object)))
			}
			body = object{"done": done, "wait_s": 20, "again": true} // as after a lost answer: settling twice is harmless
		case status == 410: // it is not known any more: others have its jobs by now
			path, body = "", register
		default: // what we say is wrong, and stays wrong
			panic(said)
		}
	}
}
