package lockrec_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/store"
)

// The token of a copy never decreases, and is ahead of the other store by the lead. A second copy changes
// nothing.
func TestCopiedTokens(t *testing.T) {
	now := time.UnixMicro(5_000_000)
	free := func(token uint64) *lockrec.Record {
		return &lockrec.Record{Name: "a", State: lockrec.Free, Token: token, Nonce: "N"}
	}
	for _, c := range []struct {
		from    uint64
		to      *lockrec.Record
		want    uint64
		changed bool
	}{
		{7, nil, 5_000_000, true},
		{6_000_000, nil, 6_000_000 + lockrec.CopyLead, true},
		{7, free(7), 7 + lockrec.CopyLead, true},
		{7, free(1), 7 + lockrec.CopyLead, true},
		{7, free(7 + lockrec.CopyLead - 1), 7 + lockrec.CopyLead, true},
		{7, free(7 + lockrec.CopyLead), 7 + lockrec.CopyLead, false},
		{7, free(math.MaxUint64), math.MaxUint64, false},
		{math.MaxUint64 - lockrec.CopyLead, free(1), math.MaxUint64, true},
	} {
		t.Run(fmt.Sprint(c.from, c.to), func(t *testing.T) {
			got, changed, err := lockrec.Copied(free(c.from), c.to, now)
			if err != nil || got.Token != c.want || changed != c.changed {
				t.Errorf("token %d, changed %v, %v; want %d, %v", got.Token, changed, err, c.want, c.changed)
			}
			if _, changed, err := lockrec.Copied(free(c.from), &got, now.Add(time.Hour)); changed || err != nil {
				t.Errorf("the second copy: changed %v, %v", changed, err)
			}
		})
	}
	if _, _, err := lockrec.Copied(free(math.MaxUint64-lockrec.CopyLead+1), nil, now); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a copy without room for a token = %v", err)
	}
}

// The later run and the later NotBefore stay, in whatever order the records were written. Nothing of a
// grant is copied.
func TestCopiedFields(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	run := func(began time.Time) *lockrec.Run {
		return &lockrec.Run{Period: "day", Began: began, PeriodEnd: began.Add(time.Hour), Outcome: lockrec.RunDone, Attempts: 1, Grant: "G"}
	}
	old := lockrec.Record{
		Name: "a", State: lockrec.Free, Token: 7, Nonce: "N", Holder: "old", Grant: "G", Process: "P", TTL: time.Minute, Granted: at, Renewed: at,
		Queue: []lockrec.Member{member("U.0", lockrec.ModeExclusive, 0, 0)}, NotBefore: at.Add(time.Hour), Data: []byte("old"), Run: run(at),
	}
	later := lockrec.Record{
		Name: "a", State: lockrec.Free, Token: 9, Nonce: "N", Holder: "later", Grant: "H", Process: "Q", TTL: time.Minute, Granted: at.Add(time.Minute), Renewed: at.Add(time.Minute),
		NotBefore: at.Add(time.Minute), Data: []byte("later"), Slots: 3, Run: run(at.Add(time.Minute)),
	}
	first, changed, err := lockrec.Copied(&old, nil, at)
	if err != nil || !changed || first.Grant+first.Process != "" || first.Queue != nil || first.State != lockrec.Free {
		t.Errorf("the first copy = %+v, changed %v, %v", first, changed, err)
	}
	if first.Holder != "old" || string(first.Data) != "old" || !first.NotBefore.Equal(old.NotBefore) || !first.Granted.Equal(old.Granted) || !reflect.DeepEqual(first.Run, old.Run) {
		t.Errorf("the first copy lacks what the record has: %+v", first)
	}
	for _, order := range [][2]lockrec.Record{{old, later}, {later, old}} {
		got, _, err := lockrec.Copied(&order[0], &order[1], at)
		if err != nil || got.Holder != "later" || string(got.Data) != "later" || got.Slots != 3 {
			t.Errorf("a copy of %s over %s = %+v, %v", order[0].Holder, order[1].Holder, got, err)
		}
		if !got.NotBefore.Equal(old.NotBefore) || !got.Granted.Equal(old.Granted) {
			t.Errorf("a copy of %s over %s may be granted from %v on", order[0].Holder, order[1].Holder, got.NotBefore)
		}
		if !got.Run.Began.Equal(later.Run.Began) {
			t.Errorf("a copy of %s over %s has the run of %v", order[0].Holder, order[1].Holder, got.Run.Began)
		}
		if _, changed, err := lockrec.Copied(&order[0], &got, at); changed || err != nil {
			t.Errorf("the second copy of %s over %s: changed %v, %v", order[0].Holder, order[1].Holder, changed, err)
		}
	}
}
