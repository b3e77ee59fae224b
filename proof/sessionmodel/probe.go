package sessionmodel

import "github.com/holdfast-go/holdfast/proof/explore"

// Probe lets client c take each lock in turn, with a good network, while the other client is dead,
// or renews and releases what it has. No outcome leaves a lock that no client can take. Once the
// client has a session it must keep it.
func (m *machine) Probe(from *state, c int, lives bool) uint8 {
	var w world
	m.Begin(&w, from)
	broken, failed := Progress, Kept
	if lives {
		broken = Freedom
	}
	got := 0
	opened := false
	for range 150 {
		if lives {
			w.quiet(1 - c)
		}
		w.eager(c, got)
		had := w.trusts(c)
		opened = opened || had && w.cl[c].term.n == 0
		for l := range m.Locks {
			if l == got && w.believes(c, l) {
				got++
			}
		}
		if got == m.Locks {
			break
		}
		w.pass(0, explore.Slowest, explore.Slowest)
		w.pass(1, explore.Slowest, explore.Slowest)
		w.canonical(&w.state)
		if had && opened && !w.trusts(c) && !m.plain(c) {
			failed = KeptAlone
		}
	}
	if got < m.Locks && m.Sees(broken) {
		return uint8(broken)
	}
	return m.Broken(failed)
}

// do takes a step, and lets the store carry out, and answer, what was sent.
func (w *world) do(step func() bool) bool {
	if int(w.n) == w.Flight {
		w.land(0) // the bound forbids a further write: one of the late writes arrives
	}
	before, n := w.state, w.n
	if !step() {
		w.state = before
		return false
	}
	if w.n > n {
		w.land(int(w.n) - 1)
	}
	w.hearRefusals()
	w.canonical(&w.state)
	return true
}

// land lets write i be applied, if it still can.
func (w *world) land(i int) {
	r := w.flight[i]
	if r.pred != w.reg[r.reg].ver && r.blind == 0 {
		explore.Take(w.flight[:], &w.n, i)
		return
	}
	w.apply(i, w.cares(&r))
	w.hearRefusals()
	w.canonical(&w.state)
}

// quiet is what a client does that lives and wants nothing: it renews, and releases what it has.
func (w *world) quiet(c int) {
	w.keepOn(c)
	for l := range w.Locks {
		for range 3 {
			switch w.cl[c].hold[l].mode {
			case claiming:
				w.do(func() bool { return w.giveUp(c, l) })
			case holding:
				w.do(func() bool { return w.release(c, l) })
			}
			w.freeOn(c, l)
		}
	}
}

func (w *world) freeOn(c, l int) {
	if w.cl[c].hold[l].mode == freeing {
		w.do(func() bool { return w.settleFree(c, l) })
	}
	if w.cl[c].hold[l].mode == freeing {
		w.do(func() bool { return w.freeAgain(c, l) })
	}
}

// keepOn opens a session if there is none, and renews it.
func (w *world) keepOn(c int) {
	for i := 0; i < int(w.n); {
		if w.flight[i].by == uint8(c) {
			w.land(i)
			i = 0
		} else {
			i++
		}
	}
	for range 3 {
		t := &w.cl[c].term
		switch {
		case t.mode == opening && !w.plain(c):
			w.do(func() bool { return w.settle(c) })
			if t.mode == opening && !w.do(func() bool { return w.tryOpen(c, nowhere) }) {
				w.do(func() bool { return w.abandon(c) })
			}
		case t.mode == opening:
			w.do(func() bool { return w.settle(c) })
		case t.mode == alive && t.n > 0:
			w.do(func() bool { return w.settle(c) })
			if t.mode == alive && t.n > 0 {
				w.do(func() bool { return w.beat(c) })
			}
			if t.mode == alive && int(t.n) == w.Attempts {
				t.n = 0 // the bound of the model forbids another renewal
			}
		}
	}
	for range 2 { // the first one may conflict with a notification
		if w.cl[c].term.mode == alive && w.do(func() bool { return w.beat(c) }) && w.cl[c].term.n == 0 {
			break
		}
		w.do(func() bool { return w.cl[c].term.n > 0 && w.settle(c) })
	}
}

// eager is what a client does that wants lock l: first it opens a session.
func (w *world) eager(c, want int) {
	w.keepOn(c)
	if w.cl[c].term.mode == none && !w.plain(c) {
		w.do(func() bool { return w.tryOpen(c, w.vacant(c)) })
	}
	for l := range w.Locks {
		h := &w.cl[c].hold[l]
		switch {
		case h.mode == claiming && l == want:
			w.do(func() bool { return w.settleClaim(c, l) })
			if h.mode == claiming {
				w.do(func() bool { return w.sendClaim(c, l) })
			}
			if h.mode == claiming && w.plain(c) && int(w.cl[c].term.n) == w.Attempts {
				w.do(func() bool { return w.giveUp(c, l) }) // the bound of the model forbids it to try again
			}
		case h.mode == claiming:
			w.do(func() bool { return w.giveUp(c, l) })
		case h.mode == holding && l != want:
			w.do(func() bool { return w.release(c, l) })
		}
		for range 3 {
			w.freeOn(c, l)
		}
	}
	if want < w.Locks && w.cl[c].hold[want].mode == idle {
		if r := &w.reg[want]; r.isTaken() {
			if isSession(r.under) {
				w.do(func() bool { return w.standIn(c, want) })
			}
			reg := w.reg[want].under
			w.do(func() bool { return w.look(c, reg) })
			reg = w.reg[want].under
			w.do(func() bool { return w.fence(c, reg) })
		}
		w.do(func() bool { return w.mayClaim(c, want) && w.claim(c, want) })
	}
}
