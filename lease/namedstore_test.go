package lease_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// named returns a store that has a name, as everything that remembers needs one.
func named(t *testing.T) store.Store {
	t.Helper()
	return &namedStore{Store: &memstore.Store{}, name: "test:" + t.Name()}
}

type namedStore struct {
	store.Store
	name string
}

func (s *namedStore) Unwrap() store.Store { return s.Store }

func (s *namedStore) Traits() store.Traits {
	traits := store.TraitsOf(s.Store)
	traits.Name = s.name
	return traits
}
