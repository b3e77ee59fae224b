package memstore

// Sizes returns how many registers and watched keys a store holds.
func (s *Store) Sizes() (registers, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.registers), len(s.waiting)
}
