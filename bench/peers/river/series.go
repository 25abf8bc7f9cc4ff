package main

import "time"

// series is how many jobs were completed in each second since its start.
type series struct {
	start   time.Time
	seconds []int
	total   int
}

func (s *series) reach(total int, at time.Time) {
	second := int(at.Sub(s.start) / time.Second)
	for len(s.seconds) <= second {
		s.seconds = append(s.seconds, 0)
	}
	s.seconds[second] += total - s.total
	s.total = total
}

// within is the number of jobs completed in the first seconds.
func (s *series) within(seconds int) int {
	sum := 0
	for _, n := range s.seconds[:min(seconds, len(s.seconds))] {
		sum += n
	}
	return sum
}
