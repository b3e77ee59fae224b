package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// appendVar makes the test binary a process that appends to a log, and cleanVar one that
// removes its first entries; the value is a target in JSON.
const (
	appendVar = "HOLDFAST_TEST_APPEND"
	cleanVar  = "HOLDFAST_TEST_CLEAN"
)

func (a target) log() (*object.Log, error) {
	b, err := a.bucket(&s3bucket.Options{AssumeAbilities: object.Abilities()})
	if err != nil {
		return nil, err
	}
	c, err := object.New(b, nil)
	if err != nil {
		return nil, err
	}
	return object.OpenLog(c, "log", nil)
}

func appendOne(ctx context.Context, l *object.Log) error {
	last, err := l.Latest(ctx)
	if err == nil {
		_, err = l.Append(ctx, last.Number, []byte("x"))
	}
	return err
}

func cleanAllButOne(ctx context.Context, l *object.Log) error {
	last, err := l.Latest(ctx)
	if err != nil {
		return err
	}
	return l.Trim(ctx, last.Number)
}

// TestLogKilled kills processes at each request of an append, and of a clean-up, before the
// server has seen it and after. The log continues, and what was acknowledged is in it.
func TestLogKilled(t *testing.T) {
	t.Parallel()
	for name, server := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range []struct{ name, variable string }{{"append", appendVar}, {"clean", cleanVar}} {
				for _, entries := range []uint64{0, 3} {
					if c.variable == cleanVar && entries == 0 {
						continue
					}
					for _, applied := range []bool{false, true} {
						for n, ended := 1, false; !ended; n++ {
							ended = killLog(t, server(t).NewBucket, target{Kind: "s3", S3: server(t)}, c.variable, entries, n, applied)
						}
					}
				}
			}
		})
	}
}

func killLog(t *testing.T, newBucket func(testing.TB, bool) string, at target, variable string, entries uint64, n int, applied bool) bool {
	t.Helper()
	at.Space = newBucket(t, false)
	l, err := at.log()
	if err != nil {
		t.Fatal(err)
	}
	for after := range entries {
		if _, err := l.Append(t.Context(), after, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	out, ended := killAt(t, at, variable, n, applied)
	what := fmt.Sprintf("%s on %d entries, killed at request %d, applied: %t", variable, entries, n, applied)
	count := func() (first, last uint64) {
		fresh, err := at.log()
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range fresh.Read(t.Context(), 0) {
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if first == 0 {
				first = e.Number
			}
			last = e.Number
		}
		return first, last
	}
	first, last := count()
	switch {
	case last < entries || last > entries+1, variable == cleanVar && last != entries, variable == cleanVar && first != 1 && first != entries:
		t.Errorf("%s: the log has the entries %d to %d", what, first, last)
	case variable == appendVar && strings.Contains(string(out), "done") && last != entries+1:
		t.Errorf("%s: it was acknowledged, and the log ends at %d", what, last)
	}
	if _, err := l.Append(t.Context(), last, nil); err != nil && !errors.Is(err, store.ErrConflict) {
		t.Errorf("%s: the log does not go on: %v", what, err)
	}
	if err := l.Trim(t.Context(), last+1); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if first, last := count(); first != last {
		t.Errorf("%s: after a clean-up the log has the entries %d to %d", what, first, last)
	}
	return ended
}
