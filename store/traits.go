package store

import (
	"cmp"
	"time"
)

// Traits tells what the layers above may count on. The zero value promises
// nothing and is right for every store.
type Traits struct {
	// Name names the store for people, usually as a URL without secrets.
	Name string

	// ID names the space of registers among all spaces, for programs that order
	// stores or remember what they saw of them: two stores with one ID and one
	// Prefix are the same registers, and others are not. It lasts as long as the
	// registers do, is the same for every program that reaches them as far as that
	// can be, and has no secret in it. Empty means that the name tells.
	ID string

	// Prefix is what the store puts before each key, with the slash: with it two
	// stores of one ID tell whether two keys are one register.
	Prefix string

	// Local says that a request reaches the store without a network, so that short
	// leases make sense.
	Local bool

	// ConflictTells says that a conflict of Put carries the current value and
	// version at no extra cost: creating first is then the cheapest read.
	ConflictTells bool

	// Trusted says that the store is known to honour conditions, so that it need
	// not be probed before its first use.
	Trusted bool

	// NoReadBack says that a write with an unknown outcome cannot be recognised by
	// reading it back: it is to be treated as a stranger's.
	NoReadBack bool

	// MinTTL is the shortest lease that makes sense on this store, in time; zero
	// means no bound of its own.
	MinTTL time.Duration

	// WriteTime is how long a write takes at least, where the store has it wait; a
	// write whose context ends sooner is refused. Zero means that a write takes no
	// longer than its requests.
	WriteTime time.Duration
}

// Describer is a store that knows its [Traits].
type Describer interface {
	Traits() Traits
}

// TraitsOf returns the traits of s, or the zero value. Their ID is the name where the
// store tells none.
func TraitsOf(s Store) Traits {
	d, ok := As[Describer](s)
	if !ok {
		return Traits{}
	}
	t := d.Traits()
	t.ID = cmp.Or(t.ID, t.Name)
	return t
}

// describerAbility hands out the traits, with what [Prefix] puts before each key.
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
