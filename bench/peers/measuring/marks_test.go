package measuring

import "testing"

func TestCheckFindsMissingAndRepeatedJobs(t *testing.T) {
	for name, ids := range map[string][]int{
		"none of them": {}, "one missing": {0, 2}, "one twice": {0, 1, 1, 2}, "one unasked": {0, 1, 2, 3},
	} {
		marks := &Marks{}
		for _, id := range ids {
			marks.Add(id)
		}
		if marks.Check(3) == nil {
			t.Errorf("%s: ids %v passed as jobs 0 to 2 handled once each", name, ids)
		}
	}
}

func TestCheckAcceptsEachOnceOverTwoProcesses(t *testing.T) {
	first, second := &Marks{}, &Marks{}
	first.Add(0)
	second.Add(1)
	second.Add(2)
	first.Merge(second.Counts)
	if err := first.Check(3); err != nil {
		t.Error(err)
	}
}
