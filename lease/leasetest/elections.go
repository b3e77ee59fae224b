package leasetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/lease"
)

// electionCases are the rules of candidates and of clients that look for the leader.
func electionCases() []testCase {
	return []testCase{
		{"Election", "At most one candidate leads at a time, with or without a session. Readers see each leader with its own value and token. When a leader resigns, another candidate leads.", caseElection},
		{"Observe", "Observe yields every leader and every value in order, each with the token of its term.", caseObserve},
		{"LeadAgain", "A leader that has lost its lease campaigns again, with a higher token.", caseLeadAgain},
	}
}

func (e *env) election(c *lease.Client) *lease.Election {
	candidate, err := c.Election(job, nil)
	e.Must("Election", err)
	return candidate
}

// leads checks who leads.
func (e *env) leads(reader *lease.Client, value string, token uint64) {
	l, err := reader.Leader(e.ctx, job)
	if err != nil || string(l.Value) != value || l.Token != token {
		e.Errorf("Leader returned the value %q, the token %d and the error %v; want the value %q and the token %d", l.Value, l.Token, err, value, token)
	}
}

func caseElection(e *env) {
	e.WantErr("Leader before the first campaign", suitetest.ErrOf(e.client(e.b, nil).Leader(e.ctx, job)), lease.ErrNoLeader)
	var candidates sync.WaitGroup
	defer candidates.Wait()
	var mu sync.Mutex
	var last uint64
	for i := range e.Contenders {
		c, reader := e.client(e.store(i), nil), e.client(e.b, nil)
		candidate := e.election(c)
		if i%4 < 2 {
			var err error
			candidate, err = e.session(c).Election(job, nil)
			e.Must("Election", err)
		}
		value := fmt.Sprint("candidate ", i)
		candidates.Go(func() {
			g, err := candidate.Campaign(e.ctx, []byte(value))
			if !e.OK("Campaign", err) {
				return
			}
			mu.Lock()
			e.higher(g.Token(), last)
			last = g.Token()
			mu.Unlock()
			for _, v := range []string{value, value + " again"} {
				e.OK("Proclaim", candidate.Proclaim(e.ctx, []byte(v)))
				e.leads(reader, v, g.Token())
			}
			e.OK("Resign", candidate.Resign(e.ctx))
		})
	}
}

func caseObserve(e *env) {
	type told struct {
		value string
		token uint64
	}
	all := make(chan told)
	observer := e.client(e.b, nil)
	var reading sync.WaitGroup
	defer reading.Wait()
	stop := make(chan struct{})
	defer close(stop)
	reading.Go(func() {
		for l, err := range observer.Observe(e.ctx, job) {
			if err != nil && !errors.Is(err, lease.ErrNoLeader) {
				e.Errorf("Observe: %v", err)
				return
			}
			select {
			case all <- told{string(l.Value), l.Token}:
			case <-stop:
				return
			}
		}
	})
	expect := func(value string, token uint64) {
		select {
		case got := <-all:
			if got != (told{value, token}) {
				e.Fatalf("Observe yielded %+v; want the value %q and the token %d", got, value, token)
			}
		case <-e.ctx.Done():
			e.Fatalf("Observe did not yield the value %q", value)
		}
	}
	expect("", 0)
	candidate := e.election(e.client(e.a, nil))
	g, err := candidate.Campaign(e.ctx, []byte("first"))
	e.Must("Campaign", err)
	expect("first", g.Token())
	e.Must("Proclaim", candidate.Proclaim(e.ctx, []byte("second")))
	expect("second", g.Token())
	e.Must("Resign", candidate.Resign(e.ctx))
	expect("", 0)
	next, err := e.election(e.client(e.a, nil)).Campaign(e.ctx, []byte("second"))
	e.Must("Campaign", err)
	expect("second", next.Token())
	// The observer waits for a change: this one ends it.
	e.release(next)
}

func caseLeadAgain(e *env) {
	c := e.client(e.a, e.short)
	terms := 0
	var last uint64
	err := c.Lead(e.ctx, job, []byte("leader"), func(ctx context.Context, g *lease.Guard) error {
		e.leads(e.client(e.b, nil), "leader", g.Token())
		e.higher(g.Token(), last)
		last = g.Token()
		if terms++; terms == 3 {
			return nil
		}
		if _, err := e.client(e.b, nil).Break(e.ctx, job, g.Token(), nil); err != nil {
			e.Errorf("Break: %v", err)
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}, nil)
	if err != nil || terms != 3 {
		e.Errorf("Lead returned %v after %d terms; want 3 terms", err, terms)
	}
	e.WantErr("Leader after the last term", suitetest.ErrOf(e.client(e.b, nil).Leader(e.ctx, job)), lease.ErrNoLeader)
}
