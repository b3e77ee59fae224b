package lockmodel

import "github.com/holdfast-go/holdfast/proof/explore"

// Probe leaves client c alone with a good network, while the other one and the operator do nothing.
// It must come to hold the lock: no outcome leaves a lock that no client can take, and none leaves
// a client that cannot continue. If it holds the lock already, and at least one more attempt may be
// unresolved, it must keep the lock.
func (m *machine) Probe(from *state, c int, lives bool) (broke uint8) {
	if lives {
		return 0 // that is the same
	}
	var w world
	m.Begin(&w, from)
	keeps := w.keepable(c)
	for range 100 {
		if w.believes(c) && w.cl[c].mode == holding && w.cl[c].io == quiet && w.cl[c].n == 0 {
			if keeps && (w.Has(ResolvedLost) || w.Has(Expired)) {
				return m.Broken(KeptAlone)
			}
			return 0
		}
		w.alone(c)
		w.finish()
	}
	return m.Broken(Progress)
}

// keepable says whether client c holds the lock, the register agrees, and the bounds of
// the model let it send again.
func (w *world) keepable(c int) bool {
	cl := &w.cl[c]
	return w.believes(c) && cl.mode == holding && w.reg.kind == held && w.reg.grant == cl.grant &&
		int(cl.n) < w.Attempts && int(w.n) < w.Flight
}

// alone takes the one step that an undisturbed client takes next.
func (w *world) alone(c int) {
	cl := &w.cl[c]
	switch cl.io {
	case quiet:
		w.aloneQuiet(c)
	case waiting:
		for i := range w.n {
			if w.flight[i].rec.ver == cl.wver {
				w.apply(int(i))
				return
			}
		}
	case confirmed:
		w.confirm(c)
	case asked:
		w.snapshot(c)
	case refused:
		if w.refuse(c); cl.mode != idle {
			w.snapshot(c) // the client reads what its write conflicted with
		}
	case answered:
		w.answer(c)
		if cl.mode == idle && !w.mayTake(c) || cl.n == uint8(w.Attempts) {
			w.pass(c, explore.Slowest, explore.Slowest)
		}
	}
}

// aloneQuiet sends the next request of the client, and reads where nothing may be sent.
func (w *world) aloneQuiet(c int) {
	cl := &w.cl[c]
	before := w.state
	ok := false
	switch cl.mode {
	case idle:
		ok = w.mayTake(c) && w.acquire(c)
	case acquiring:
		ok = w.sendHeld(c, toAcquire) || w.giveUp(c)
	case holding:
		ok = w.sendHeld(c, toRenew)
	case releasing:
		ok = cl.left > 0 && w.sendFree(c, toRelease)
	case givingUp:
		ok = w.sendFree(c, toGiveUp)
	case attaching:
		ok = w.sendAttach(c) || w.leave(c)
	case extending:
		ok = w.sendRenewal(c) || w.leave(c)
	case freeing:
		ok = w.sendFree(c, toRelease)
	}
	switch {
	case ok:
	case int(before.n) == w.Flight: // the bound forbids a further write: one of the late writes arrives
		w.state = before
		w.apply(0)
	default:
		w.state = before
		w.snapshot(c)
	}
}
