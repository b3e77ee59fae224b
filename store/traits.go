package store

import (
	"cmp"
	"time"
)

// Traits are the properties of a store that the layers above may rely on. The zero value
// promises nothing, so it is right for every store.
type Traits struct {
	// Name names the store for people, usually as a URL without secrets.
	Name string

	// ID identifies the space of registers among all spaces, for programs that order
	// stores or remember what they saw of them. Two stores with the same ID and the same
	// Prefix have the same registers; otherwise they have different ones. The ID lasts as
	// long as the registers do, contains no secret, and is the same for every program
	// that reaches them, as far as the store can arrange that. Empty means that Name
	// identifies the space.
	ID string

	// Prefix is what the store puts before each key, slash included. Two stores with the
	// same ID compare Prefix and key to see whether they name the same register.
	Prefix string

	// Local says that a request reaches the store without a network, so that short
	// leases make sense.
	Local bool

	// ConflictCarriesState says that a conflict of Put carries the current value and version at
	// no extra cost. A caller that expects to create the register then need not read
	// first.
	ConflictCarriesState bool

	// Trusted says that the store is known to honour conditions, so that it need
	// not be probed before its first use.
	Trusted bool

	// CannotReadOwnWrites says that a caller cannot recognise its own write of unknown
	// outcome by reading it back. It must treat that write as one of another program.
	CannotReadOwnWrites bool

	// MinTTL is the shortest lease that makes sense on this store; zero means that the
	// store sets no bound.
	MinTTL time.Duration

	// MinWriteTime is the least time that a write takes, on a store that makes writes wait.
	// The store refuses a write whose context ends earlier. Zero means that a write takes
	// no longer than its requests.
	MinWriteTime time.Duration
}

// Describer is a store that knows its [Traits].
type Describer interface {
	Traits() Traits
}

// TraitsOf returns the traits of s, or the zero value. Where the store gives no ID, the
// ID is the name.
func TraitsOf(s Store) Traits {
	d, ok := As[Describer](s)
	if !ok {
		return Traits{}
	}
	t := d.Traits()
	t.ID = cmp.Or(t.ID, t.Name)
	return t
}

// describerAbility passes the traits on, with what [Prefix] puts before each key.
func describerAbility() ability {
	return abilityOf("Describer", "", func(s *intercepted, a Describer) Describer { return interceptedDescriber{s.below, a} })
}

type interceptedDescriber struct {
	below string
	a     Describer
}

func (d interceptedDescriber) Traits() Traits {
	t := d.a.Traits()
	t.Prefix += d.below
	return t
}
