package lockrec_test

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
)

// TestRequestYieldTwice shows that a request which is repeated after a lost reply does not reach a
// holder that came after its first write. A later request reaches this holder.
func TestRequestYieldTwice(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	first := lockrec.YieldRequest{By: "operator", At: at}
	r := &lockrec.Record{Name: "job", State: lockrec.Shared, Token: 7, TTL: time.Minute, Holders: []lockrec.Member{
		{Grant: "A.1", Session: "A", TTL: time.Minute, Mode: lockrec.ModeShared, Token: 7},
		{Grant: "B.1", Session: "B", TTL: time.Minute, Mode: lockrec.ModeShared, Token: 7},
	}}
	r, err := lockrec.RequestYield(r, first, 0)
	if err != nil || r == nil {
		t.Fatalf("the first request: %+v, %v", r, err)
	}
	r.Holders[1].Grant, r.Holders[1].Session = "C.1", "C" // B has left, and C has come
	if again, err := lockrec.RequestYield(r, first, 0); err != nil || again != nil {
		t.Errorf("the same request again: %+v, %v; want no record", again, err)
	}
	later := lockrec.YieldRequest{By: "operator", At: at.Add(time.Second)}
	next, err := lockrec.RequestYield(r, later, 0)
	if err != nil || next == nil || !slices.Equal(next.YieldRequest.Grants, []string{"A.1", "C.1"}) {
		t.Errorf("a later request: %+v, %v; want one of A.1 and C.1", next, err)
	}
}
