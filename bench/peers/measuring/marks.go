package measuring

import (
	"fmt"
	"sync"
)

// Marks counts how often each id was handled.
type Marks struct {
	mutex  sync.Mutex
	Counts []byte
}

// Add notes that the job was handled once more.
func (m *Marks) Add(id int) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for len(m.Counts) <= id {
		m.Counts = append(m.Counts, make([]byte, max(1024, len(m.Counts)))...)
	}
	m.Counts[id]++
}

// Merge adds another process's counts.
func (m *Marks) Merge(counts []byte) {
	for id, n := range counts {
		for ; n > 0; n-- {
			m.Add(id)
		}
	}
}

// Check fails unless each id below jobs was handled exactly once, and no other id at all.
func (m *Marks) Check(jobs int) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	missing, again := max(0, jobs-len(m.Counts)), 0
	for id, n := range m.Counts {
		if id < jobs && n == 0 {
			missing++
		}
		if n > 1 || (id >= jobs && n > 0) {
			again++
		}
	}
	if missing+again > 0 {
		return fmt.Errorf("of %d jobs %d were not handled and %d were handled more than once or unasked", jobs, missing, again)
	}
	return nil
}
