package versionmodel

// beginLease starts an operation of a client that uses the register as a lock.
func (b *brancher) beginLease(c uint8) {
	cl := &b.from.clients[c]
	if cl.holds {
		b.do("renews", c, cl.version, func(s *state) string {
			b.write(s, c, renew, cl.version, b.from.entries[cl.version].token)
			return ""
		})
		b.do("releases", c, cl.version, func(s *state) string {
			b.write(s, c, release, cl.version, b.from.entries[cl.version].token)
			return ""
		})
		return
	}
	b.do("looks at the lock", c, 0, func(s *state) string {
		s.clients[c].left += 16
		return b.list(s, c, toWrite)
	})
	if free := b.from.entries[cl.version]; b.m.Reuse && cl.version != 0 && free.holder == 0 {
		b.do("acquires again", c, cl.version, func(s *state) string {
			b.write(s, c, acquire, cl.version, cl.floor+1)
			return ""
		})
	}
}

func (b *brancher) write(s *state, c uint8, w write, base, token uint8) {
	cl := &s.clients[c]
	cl.left += 16
	cl.step, cl.write, cl.base, cl.token = ready, w, base, token
}

// lookAtLock decides what to do with the lock as it was listed: a free one is
// acquired, any other is another client's and is observed.
func (b *brancher) lookAtLock(s *state, c uint8) {
	cl := &s.clients[c]
	if s.entries[cl.base].holder == 0 {
		cl.write, cl.token = acquire, cl.floor+1
		return
	}
	b.m.beginPause(s, c)
	cl.step, cl.before = observing, 0
	for d := uint8(1); d <= b.m.clients(); d++ {
		o := &s.clients[d]
		if d != c && (o.holds || o.step == sent || o.step == settling || o.step == marking || o.step == paging && o.own != 0) {
			cl.before = cl.before.with(d)
		}
	}
}

// observing ends an observation for the TTL in the record: whatever another client
// believed since before is over, if its TTL is no longer.
func (b *brancher) observing(c uint8) {
	if !b.m.pauseOver(b.from, c) {
		return
	}
	b.do("has observed for the TTL", c, b.from.clients[c].base, func(s *state) string {
		b.m.endPause(s, c)
		cl := &s.clients[c]
		ttl := b.m.ttl(s.entries[cl.base].holder)
		for d := uint8(1); d <= b.m.clients(); d++ {
			if o := &s.clients[d]; cl.before.has(d) && b.m.ttl(d) <= ttl {
				if o.holds {
					b.count("expired")
				}
				o.holds = false
				if !o.during.has(c) {
					o.stale = true
				}
				if o.step == ready && o.write != acquire {
					// No renewal or release is sent after the deadline.
					b.finish(s, d)
				}
			}
		}
		for d := range s.clients {
			s.clients[d].during = s.clients[d].during.without(c)
		}
		cl.before = 0
		return b.list(s, c, toTakeOver)
	})
}

func (m *Config) ttl(c uint8) uint8 {
	if c == 0 || m.TTL[c-1] == 0 {
		return 1
	}
	return m.TTL[c-1]
}

// hold makes a client the holder of the lease that was just acknowledged.
func (b *brancher) hold(s *state, c uint8) string {
	cl := &s.clients[c]
	if !b.m.Lease || cl.write == release {
		return ""
	}
	if cl.stale {
		b.count("acknowledged too late")
		return ""
	}
	switch {
	case cl.write == acquire:
		token := s.entries[cl.own].token
		if token <= s.highest {
			return "a token did not rise"
		}
		s.highest = token
		cl.holds = true
		b.count("acquired")
	case !cl.holds:
		return ""
	default:
		b.count("renewed")
	}
	for d := range s.clients {
		if cl.during.has(uint8(d)) {
			s.clients[d].before = s.clients[d].before.without(c)
		}
	}
	return ""
}

// broken returns the rule that a state breaks, or nothing.
func (m *Config) broken(s *state) string {
	holders := 0
	for c := range s.clients {
		if s.clients[c].holds {
			holders++
		}
	}
	if holders > 1 {
		return "two clients believe that they hold the lock"
	}
	v := m.look(s, 0, s.visible())
	if v.Torn {
		return "what others build on is missing"
	}
	if m.Broken && m.Lease && m.NoConfirm {
		return ""
	}
	tip := v.of(v.Tip())
	if !s.follows(tip, s.certain) {
		return "what was certain is lost"
	}
	if !m.Broken {
		for i := s.first(tip); i != 0; i = s.entries[i].prev {
			if s.refused.has(i) {
				return "a write took effect that was reported as not applied"
			}
		}
	}
	return ""
}
