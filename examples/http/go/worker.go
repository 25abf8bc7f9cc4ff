// Works jobs of Windlass:  go build worker.go && WINDLASS_URL=https://jobs.example.com WINDLASS_TOKEN=wl_... ./worker
package main

import (
	"bytes"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"time"
)

type object = map[string]any
type answer struct {
	Worker string
	Jobs   []object
}

func post(path string, body object) (status int, said answer) { // 0: no answer
	text, _ := json.Marshal(body)
	request, _ := http.NewRequest("POST", os.Getenv("WINDLASS_URL")+"/work/v1/workers"+path, bytes.NewReader(text))
	request.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + os.Getenv("WINDLASS_TOKEN")}}
	response, err := http.DefaultClient.Do(request)
	if err != nil || json.NewDecoder(response.Body).Decode(&said) != nil {
		return 0, said
	}
	return response.StatusCode, said
}

func run(job object) object {
	if to, is := job["args"].(object)["to"].(string); is {
		return object{"receipt": job["receipt"], "outcome": "complete", "result": object{"sent_to": to}}
	}
	return object{"receipt": job["receipt"], "outcome": "retry", "error": "nobody to send it to"}
}

func main() { // one job after the other, so the lease and the time limit cover a whole turn
	register := object{"queues": object{"default": 10}, "kinds": []string{"mail.send"}, "lease_s": 300, "timeout_ms": 240_000}
	for path, body := "", register; ; {
		switch status, said := post(path, body); {
		case status == 201: // registered
			path, body = "/"+said.Worker+"/turn", object{}
		case status == 200:
			done := []object{}
			for _, job := range said.Jobs {
				done = append(done, run(job))
			}
			body = object{"done": done, "wait_s": 20}
		case status == 410: // it is not known any more: others have its jobs by now
			path, body = "", register
		case status == 0 || status == 429 || status >= 500:
			time.Sleep(time.Second)
			if path != "" {
				body["again"] = true // settling twice is harmless
			}
		default: // what we say is wrong, and stays wrong
			log.Fatal(status)
		}
	}
}
