package measuring

import (
	"slices"
	"time"
)

// Distribution sorts the samples and gives their figures.
func Distribution(samples []time.Duration) map[string]any {
	if len(samples) == 0 {
		return map[string]any{"samples": 0}
	}
	slices.Sort(samples)
	sum := time.Duration(0)
	for _, sample := range samples {
		sum += sample
	}
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	at := func(share float64) float64 {
		return micros(samples[min(len(samples)-1, int(share*float64(len(samples))))])
	}
	return map[string]any{"samples": len(samples), "average_us": micros(sum) / float64(len(samples)),
		"p50_us": at(0.50), "p90_us": at(0.90), "p95_us": at(0.95), "p99_us": at(0.99), "p999_us": at(0.999),
		"max_us": micros(samples[len(samples)-1])}
}
