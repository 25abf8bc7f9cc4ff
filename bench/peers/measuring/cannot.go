package measuring

import "errors"

// cannot is a reason why a scenario is not possible here.
type cannot string

func (c cannot) Error() string { return string(c) }

// Cannot makes an error that ends the process with status 77, which means skipped, not failed.
func Cannot(reason string) error { return cannot(reason) }

// Status is the exit status for an error: 77 for what cannot be done here, else 1.
func Status(err error) int {
	if errors.As(err, new(cannot)) {
		return 77
	}
	return 1
}
