package belief

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/lockrec"
)

// The reasons for which a grant ends; package lease documents them.
var (
	ErrLost      = errors.New("lease lost")
	ErrTakenOver = lockrec.ErrTakenOver
	ErrExpired   = errors.New("not renewed in time")
	ErrBroken    = lockrec.ErrBroken
	ErrRemoved   = lockrec.ErrRemoved
	ErrReleased  = lockrec.ErrReleased
	ErrDetached  = errors.New("lease detached")
)

// LostError has the reason why a grant ended. The alias in package lease documents the fields.
type LostError struct {
	Name      string
	Session   string
	Token     uint64
	Reason    error
	NewHolder string
	Cause     error

	now bool
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("lease on %q (token %d) lost: %v", e.Name, e.Token, e.Reason)
	if e.Name == "" {
		s = fmt.Sprintf("session %s lost: %v", e.Session, e.Reason)
	}
	if e.NewHolder != "" {
		s += ": " + e.NewHolder
	}
	if e.Cause != nil {
		s += ": " + strings.ReplaceAll(e.Cause.Error(), "\n", "; ")
	}
	return s
}

func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns the reason and the cause.
func (e *LostError) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Cause}
}
