package lockrec_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
)

func TestUnused(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		change func(r *lockrec.Record)
		want   bool
		err    error
	}{
		"free":                          {func(r *lockrec.Record) {}, true, nil},
		"free for a shorter time":       {func(r *lockrec.Record) { r.Renewed = now.Add(-time.Hour + 1) }, false, nil},
		"freed in the future":           {func(r *lockrec.Record) { r.Renewed = now.Add(time.Hour) }, false, nil},
		"held":                          {func(r *lockrec.Record) { r.State = lockrec.Held }, false, nil},
		"shared":                        {func(r *lockrec.Record) { r.State = lockrec.Shared }, false, nil},
		"broken":                        {func(r *lockrec.Record) { r.State = lockrec.Broken }, false, nil},
		"the next grant has to wait":    {func(r *lockrec.Record) { r.NotBefore = now.Add(1) }, false, nil},
		"the next grant may begin now":  {func(r *lockrec.Record) { r.NotBefore = now }, true, nil},
		"a run in the present period":   {func(r *lockrec.Record) { r.Run = &lockrec.Run{PeriodEnd: now.Add(1)} }, false, nil},
		"a run in the period before":    {func(r *lockrec.Record) { r.Run = &lockrec.Run{PeriodEnd: now} }, true, nil},
		"the first token of this time":  {func(r *lockrec.Record) { r.Token = lockrec.FirstToken(now) }, false, lockrec.ErrTokenInFuture},
		"a token just below this time":  {func(r *lockrec.Record) { r.Token = lockrec.FirstToken(now) - 1 }, true, nil},
		"a held lock with a high token": {func(r *lockrec.Record) { r.State, r.Token = lockrec.Held, lockrec.FirstToken(now) }, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := &lockrec.Record{Name: "job", State: lockrec.Free, Token: 7, Renewed: now.Add(-time.Hour)}
			c.change(r)
			if got, err := lockrec.Unused(r, now, time.Hour); got != c.want || !errors.Is(err, c.err) {
				t.Errorf("got %v and error %v, want %v and %v", got, err, c.want, c.err)
			}
		})
	}
	if got, err := lockrec.Unused(nil, now, time.Hour); got || err != nil {
		t.Errorf("for no record: got %v and error %v, want false and no error", got, err)
	}
}
