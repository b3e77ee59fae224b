package picture_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/picture"
)

// The tracker reports a takeover only if the lease was over: else it may have missed a release.
func TestTracker(t *testing.T) {
	const ttl = 30 * time.Second
	held := func(grant string, token uint64, renewed float64) lease.Record {
		return lease.Record{Name: "job", State: lease.Held, Grant: grant, Token: token, Holder: "holder " + grant, TTL: ttl, Renewed: second(renewed)}
	}
	asked := held("c", 3, 50)
	asked.YieldRequest = &lease.YieldRequest{By: "eve", Reason: "deploy", At: second(51)}
	broken := asked
	broken.State, broken.Token = lease.Broken, 4
	shared := func(members ...lease.Member) lease.Record {
		return lease.Record{Name: "job", State: lease.Shared, Token: 5, Holders: members}
	}
	one, two := lease.Member{Grant: "S1.1", Session: "S1", Token: 5}, lease.Member{Grant: "S2.1", Session: "S2", Token: 6}
	handed := held("S3.1", 7, 0)
	handed.Session, handed.Holder = "S3", "session S3"

	tracker := picture.Tracker{HolderOf: func(id string) string { return map[string]string{"S1": "ada", "S3": "cy"}[id] }}
	var got []string
	for _, step := range []struct {
		at float64
		r  lease.Record
	}{
		{0, lease.Record{Name: "job"}},
		{1, held("a", 1, 1)},
		{11, held("a", 1, 11)},
		{11.5, held("a", 1, 11)}, // another client entered the queue
		{20, held("b", 2, 20)},   // within the TTL
		{50, held("c", 3, 50)},   // the TTL is over
		{52, asked},
		{53, asked},
		{54, broken},
		{60, shared(one)},
		{61, shared(one, two)},
		{62, shared(two)},
		{70, handed},
		{80, func() lease.Record { r := handed; r.Grant, r.Token = "S3.2", 8; return r }()},
		{200, held("d", 9, 200)}, // a session is renewed in a record of its own
		{210, lease.Record{Name: "job", State: lease.Free, Token: 9}},
		{211, lease.Record{Name: "job"}},
	} {
		for _, e := range tracker.See(step.r, second(step.at)) {
			if e.Lock != "job" || !e.Time.Equal(second(step.at)) {
				t.Errorf("%+v is not of the lock or the time", e)
			}
			line := fmt.Sprintf("%v %s %s %d %s%s", step.at, e.Kind, e.Grant, e.Token, e.Holder, e.By)
			if !e.Until.IsZero() {
				line += fmt.Sprintf(" until %v", e.Until.Sub(start).Seconds())
			}
			got = append(got, line)
		}
	}
	want := []string{
		"1 granted a 1 holder a until 31",
		"11 renewed a 1 holder a until 41",
		"20 changed hands b 2 holder b until 50",
		"50 taken over c 3 holder c until 80",
		"52 asked  0 eve",
		"54 broken c 3 holder c",
		"60 entered S1.1 5 ada",
		"61 entered S2.1 6 session S2",
		"62 released S1.1 5 session S1",
		"70 released S2.1 6 session S2",
		"70 granted S3.1 7 cy",
		"80 granted S3.2 8 cy", // handed over
		"200 changed hands d 9 holder d until 230",
		"210 released d 9 holder d",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}

	// The first record says since when.
	since := held("a", 1, 90)
	since.Granted = second(-100)
	if events := new(picture.Tracker).See(since, second(100)); len(events) != 1 || !events[0].Time.Equal(second(-100)) {
		t.Errorf("the first record is %+v", events)
	}
}
