package redis_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// refused reports whether an error is one line that matches a sentinel, proves that nothing was written, and
// says what to do.
func refused(err, sentinel error, advice string) bool {
	return errors.Is(err, sentinel) && store.OutcomeOf(err) == store.NotApplied && strings.Contains(err.Error(), advice) && !strings.Contains(err.Error(), "\n")
}

func TestNothing(t *testing.T) {}
