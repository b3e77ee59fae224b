package logmodel

import "testing"

// move runs one process until it is about to do a step.
type move struct {
	proc  int
	doing doing // what it is asked for, if it is idle; nothing: to seal
	until step
	high  uint8 // what its listing shows as the highest number; zero: the highest there is
}

// starts reports whether an idle process began with what it was asked for.
func (m move) starts(p proc) bool {
	switch m.doing {
	case nothing:
		return p.step == appendSeal
	case getting:
		return p.doing == getting || p.step == idle // or ended at once
	}
	return p.doing == m.doing
}

// replay takes moves until something is violated.
func replay(t *testing.T, c Config, moves []move) string {
	t.Helper()
	w := newWorld(c)
	s := initial()
	for at, m := range moves {
		for range 100 {
			var next []state
			w.emit = func(s state) {
				w.check(&s)
				next = append(next, s)
			}
			before := s.proc[m.proc].step
			w.step(s, m.proc)
			if w.bad != "" {
				return w.bad
			}
			found := false
			for _, n := range next {
				p := n.proc[m.proc]
				if (before != idle || m.starts(p)) && (before != listed || m.high == 0 || p.cursor == m.high) {
					s, found = n, true
					break
				}
			}
			if !found {
				t.Fatalf("move %d: process %d cannot continue from %q", at, m.proc, stepNames[before])
			}
			if s.proc[m.proc].step == m.until {
				break
			}
		}
		if got := s.proc[m.proc].step; got != m.until {
			t.Fatalf("move %d: process %d is at %q, not at %q", at, m.proc, stepNames[got], stepNames[m.until])
		}
	}
	return ""
}

// TestSealedPredecessor shows why COLD looks into the segment before the highest: two
// slow processes bring back two old segments in a row, while a listing shows none of
// the new ones. It takes four processes, which random walks do not find.
func TestSealedPredecessor(t *testing.T) {
	const slow1, fast, slow2, reader = 0, 1, 2, 3
	moves := []move{
		{proc: slow1, doing: getting, until: idle},
		{proc: slow1, until: linkNext}, // from 1 to 2
		{proc: fast, doing: getting, until: idle},
		{proc: slow2, doing: getting, until: idle},
		{proc: slow2, until: linkNext}, // from 2 to 3
		{proc: fast, doing: getting, until: idle},
		{proc: fast, until: idle}, // segment 4
		{proc: fast, doing: putting, until: idle},
		{proc: reader, doing: getting, until: listed},
		{proc: fast, until: idle},
		{proc: fast, until: idle}, // segment 6; no file remains from the beginning of the listing
		{proc: slow1, until: checkAfterLink},
		{proc: slow2, until: checkAfterLink},
		{proc: reader, until: openHighest, high: 3},
		{proc: reader, until: idle},
	}
	c := Config{Procs: 4, Numbers: 8, Writes: 2, MaxLen: 2}
	// The reader starts again, and finds the newest.
	moves[len(moves)-1].until = openBefore
	if got := replay(t, c, append(moves, move{proc: reader, until: list}, move{proc: reader, until: idle})); got != "" {
		t.Errorf("with the look: %s", got)
	}
}
