package compare

import (
	"errors"
)

// IsNotComparable reports whether an error is a refusal, and not a failure.
func IsNotComparable(err error) bool {
	var e *NotComparable
	return errors.As(err, &e)
}
