package filestore

type notify struct{ poll bool }

func (n *notify) close() {}

type presence struct{}

func (p *presence) end(s *Store) error { return nil }
