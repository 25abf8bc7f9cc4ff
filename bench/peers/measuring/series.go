package measuring

import "time"

// Series is how many jobs were completed in each second since its start.
type Series struct {
	Start   time.Time
	Seconds []int
	Total   int
}

// Reach notes that so many jobs are completed by then.
func (s *Series) Reach(total int, at time.Time) {
	second := int(at.Sub(s.Start) / time.Second)
	for len(s.Seconds) <= second {
		s.Seconds = append(s.Seconds, 0)
	}
	s.Seconds[second] += total - s.Total
	s.Total = total
}

// Within is the number of jobs completed in the first seconds.
func (s *Series) Within(seconds int) int {
	sum := 0
	for _, n := range s.Seconds[:min(seconds, len(s.Seconds))] {
		sum += n
	}
	return sum
}
