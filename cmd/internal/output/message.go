package output

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/store"
)

// OneLine returns an error as one line for people, whatever was joined into it. If the
// store as a whole is at fault, it leaves out the operation that noticed the fault. So all
// commands report one fault in the same words. A text that occurs twice is printed once. For nil
// it returns the empty string.
func OneLine(err error) string {
	if err == nil {
		return ""
	}
	var texts []string
	for _, text := range faults(err, !store.InDoubt(err)) {
		if i := slices.IndexFunc(texts, func(said string) bool { return strings.Contains(text, said) }); i >= 0 {
			texts[i] = text // the longer text says more
		} else if !slices.ContainsFunc(texts, func(said string) bool { return strings.Contains(said, text) }) {
			texts = append(texts, text)
		}
	}
	return printable.OneLine(strings.Join(texts, "; "))
}

// faults returns the texts of an error; several errors may be joined in it. With shorten,
// it leaves out the operations around a fault of the whole store. It shortens nothing about
// a write whose outcome is unknown.
func faults(err error, shorten bool) (texts []string) {
	whole := shorten && ofStore(err)
	joined, _ := err.(interface{ Unwrap() []error })
	op, isOp := err.(*store.OpError)
	_, names := err.(storeNamer)
	_, ours := err.(interface{ Hints() []string })
	switch {
	case ours, names && !isOp: // its text is complete, with its causes
		return []string{err.Error()}
	case joined != nil && isJoin(err, joined.Unwrap()), joined != nil && whole:
		for _, part := range joined.Unwrap() {
			texts = append(texts, faults(part, shorten)...)
		}
		return texts
	case joined != nil || !whole:
		return []string{err.Error()}
	}
	inner := errors.Unwrap(err)
	switch {
	case isOp && !NamesStore(op.Err) && op.Store != "":
		return []string{op.Store + ": " + op.Err.Error()}
	case inner == nil, !NamesStore(inner):
		return []string{err.Error()}
	}
	return faults(inner, shorten)
}

// isJoin reports whether the text of an error is only the texts of its parts.
func isJoin(err error, parts []error) bool {
	return err.Error() == fmt.Sprint(errors.Join(parts...))
}

// storeNamer is an error that names its store.
type storeNamer interface{ StoreName() string }

var _ storeNamer = (*store.OpError)(nil)

// NamesStore reports whether the text of an error names the store.
func NamesStore(err error) bool { return StoreName(err) != "" }

// StoreName returns the name of the store of an error; empty if the error has none.
func StoreName(err error) string {
	if n := (storeNamer)(nil); errors.As(err, &n) {
		return n.StoreName()
	}
	return ""
}

// ofStore reports whether the store as a whole is at fault.
func ofStore(err error) bool {
	faults := []error{store.ErrUnavailable, store.ErrDenied, store.ErrMisconfigured, store.ErrUnsafe}
	return NamesStore(err) && slices.ContainsFunc(faults, func(fault error) bool { return errors.Is(err, fault) })
}
