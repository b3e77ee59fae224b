package lockrec_test

import (
	"slices"
	"strings"
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

// A request can be read, whatever the client is called: JSON writes three bytes for each that is not UTF-8.
func TestRequestYieldOfAnyName(t *testing.T) {
	r := &lockrec.Record{Name: "job", State: lockrec.Held, Token: 7, Grant: "g", TTL: time.Minute, Nonce: "n"}
	for _, by := range []string{strings.Repeat("\xfc", 400), strings.Repeat("\xfcx", 400), strings.Repeat("é", 600), strings.Repeat("x", lockrec.MaxReason)} {
		asked, err := lockrec.RequestYield(r, lockrec.YieldRequest{By: by}, 0)
		if err != nil {
			t.Fatal(err)
		}
		asked.Nonce = "m"
		value, err := lockrec.Encode(asked)
		if err != nil {
			t.Fatal(err)
		}
		back, err := lockrec.Decode("", "job", value)
		if err != nil {
			t.Errorf("a request by %.8q: %v", by, err)
		} else if back.YieldRequest.By != asked.YieldRequest.By || len(by) == lockrec.MaxReason && asked.YieldRequest.By != by {
			t.Errorf("a request by %.8q is read as one by %q", by, back.YieldRequest.By)
		}
	}
}
