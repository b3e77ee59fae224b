package lockrec_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
)

func TestLoss(t *testing.T) {
	for name, c := range map[string]struct {
		rec  *lockrec.Record
		want error
	}{
		"removed":                {nil, lockrec.ErrRemoved},
		"held":                   {&lockrec.Record{State: lockrec.Held, Grant: "g"}, nil},
		"after a request":        {&lockrec.Record{State: lockrec.Held, Grant: "g", Nonce: "2", HolderNonce: "1"}, nil},
		"held by another":        {&lockrec.Record{State: lockrec.Held, Grant: "other"}, lockrec.ErrTakenOver},
		"freed":                  {&lockrec.Record{State: lockrec.Free, Grant: "g"}, lockrec.ErrTakenOver},
		"shared":                 {&lockrec.Record{State: lockrec.Shared, Grant: "g"}, lockrec.ErrTakenOver},
		"broken":                 {&lockrec.Record{State: lockrec.Broken, Grant: "g"}, lockrec.ErrBroken},
		"another's was broken":   {&lockrec.Record{State: lockrec.Broken, Grant: "other"}, lockrec.ErrBroken},
		"open session":           {&lockrec.Record{Kind: lockrec.KindSession, State: lockrec.Held, Grant: "g"}, nil},
		"revoked session":        {&lockrec.Record{Kind: lockrec.KindSession, State: lockrec.Revoked, Grant: "g"}, lockrec.ErrRevoked},
		"stand-in for a session": {&lockrec.Record{Kind: lockrec.KindSession, State: lockrec.Held, Grant: "other"}, lockrec.ErrRemoved},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lockrec.Loss(c.rec, "g"); got != c.want {
				t.Errorf("got the error %v, want %v", got, c.want)
			}
		})
	}
}

func TestUseTicket(t *testing.T) {
	ticket := lockrec.Ticket{Grant: "g", Token: 7, TTL: time.Minute, Nonce: "1", PendingWrites: []lockrec.PendingWrite{{Nonce: "2"}, {Nonce: "3"}}}
	for name, c := range map[string]struct {
		change  func(r *lockrec.Record) // the state after the one that the ticket names
		named   bool
		release bool
		write   int
		want    error
	}{
		"the named state":                  {func(r *lockrec.Record) { r.Nonce = "1" }, true, false, -1, nil},
		"a request in the named state":     {func(r *lockrec.Record) { r.Nonce, r.HolderNonce = "9", "1" }, true, false, -1, nil},
		"a request over the named state":   {func(r *lockrec.Record) { r.Nonce, r.HolderNonce = "9", "1" }, false, false, -1, nil},
		"a pending write":                  {func(r *lockrec.Record) { r.Nonce = "3" }, false, false, 1, nil},
		"a request over a pending write":   {func(r *lockrec.Record) { r.Nonce, r.HolderNonce = "9", "2" }, false, false, 0, nil},
		"another write":                    {func(r *lockrec.Record) { r.Nonce = "4" }, false, false, -1, lockrec.ErrTicketUsed},
		"the named write again":            {func(r *lockrec.Record) { r.Nonce = "1" }, false, false, -1, lockrec.ErrTicketUsed},
		"another nonce in the named state": {func(r *lockrec.Record) { r.Nonce = "2" }, true, false, -1, lockrec.ErrInvalidTicket},
		"another token":                    {func(r *lockrec.Record) { r.Token = 8 }, true, false, -1, lockrec.ErrInvalidTicket},
		"another TTL":                      {func(r *lockrec.Record) { r.TTL++ }, true, false, -1, lockrec.ErrInvalidTicket},
		"a session":                        {func(r *lockrec.Record) { r.Session = "s" }, true, false, -1, lockrec.ErrInvalidTicket},
		"another grant":                    {func(r *lockrec.Record) { r.Grant = "other" }, false, false, -1, lockrec.ErrTakenOver},
		"free after another grant":         {func(r *lockrec.Record) { r.State, r.Grant = lockrec.Free, "other" }, false, false, -1, lockrec.ErrTakenOver},
		"free":                             {func(r *lockrec.Record) { r.State = lockrec.Free }, false, false, -1, lockrec.ErrReleased},
		"broken":                           {func(r *lockrec.Record) { r.State, r.BrokenNonce = lockrec.Broken, "1" }, false, false, -1, lockrec.ErrBroken},
		"broken, to free it":               {func(r *lockrec.Record) { r.State, r.BrokenNonce = lockrec.Broken, "1" }, false, true, -1, nil},
		"broken after a pending write":     {func(r *lockrec.Record) { r.State, r.BrokenNonce = lockrec.Broken, "2" }, false, true, -1, nil},
		"broken after another write":       {func(r *lockrec.Record) { r.State, r.BrokenNonce = lockrec.Broken, "4" }, false, true, -1, lockrec.ErrBroken},
	} {
		t.Run(name, func(t *testing.T) {
			r := &lockrec.Record{Name: "job", State: lockrec.Held, Grant: "g", Token: 7, TTL: time.Minute, Nonce: "1"}
			c.change(r)
			write, err := lockrec.UseTicket(r, &ticket, c.named, c.release)
			if write != c.write || !errors.Is(err, c.want) {
				t.Errorf("got write %d and error %v, want %d and %v", write, err, c.write, c.want)
			}
		})
	}
	if write, err := lockrec.UseTicket(nil, &ticket, false, true); write != -1 || err != lockrec.ErrRemoved {
		t.Errorf("for no record: got write %d and error %v, want -1 and %v", write, err, lockrec.ErrRemoved)
	}
}
