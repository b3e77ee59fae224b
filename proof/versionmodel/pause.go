package versionmodel

// beginPause starts a pause, or an observation, and remembers the PUTs that must end
// before the pause ends.
func (m *Config) beginPause(s *state, c uint8) {
	cl := &s.clients[c]
	cl.pauseSeen = cl.seen
	cl.pauseFlying, cl.pauseTimed = s.onTheWay(), 0
	for d := uint8(1); d <= m.clients(); d++ {
		if st := s.clients[d].step; d != c && (st == sent || st == marking || st == paging) {
			cl.pauseTimed = cl.pauseTimed.with(d)
		}
	}
}

// pauseOver reports whether a pause may end.
func (m *Config) pauseOver(s *state, c uint8) bool {
	return m.Broken || m.ShortSettle || s.clients[c].pauseFlying&s.onTheWay() == 0
}

// endPause ends a pause: entries seen before the pause are no longer recent, and an
// operation that lasted during the whole pause took longer than L.
func (m *Config) endPause(s *state, c uint8) {
	cl := &s.clients[c]
	cl.settled |= cl.pauseSeen
	for d := uint8(1); d <= m.clients(); d++ {
		if cl.pauseTimed.has(d) && !m.ShortSettle {
			s.clients[d].slow = true
		}
	}
	cl.pauseSeen, cl.pauseFlying, cl.pauseTimed = 0, 0, 0
}

// untime ends the time measurement of a client.
func (s *state) untime(c uint8) {
	for d := range s.clients {
		s.clients[d].pauseTimed = s.clients[d].pauseTimed.without(c)
	}
}
