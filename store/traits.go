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

	// ID identifies the registers of the store. Programs use it to order stores, or to
	// remember what they have read. Two stores with the same ID and the same Prefix have
	// the same registers; otherwise they have different registers. The ID contains no
	// secret, and does not change while the registers exist. If the store can ensure it,
	// the ID is the same for every program that uses the registers. If ID is empty, Name
	// identifies the registers.
	ID string

	// Prefix is the text that the store puts before each key, with the slash. In two
	// stores with the same ID, two keys name the same register if Prefix and key
	// together are equal.
	Prefix string

	// Local says that requests reach the store without a network. Then short leases make sense.
	Local bool

	// ConflictCarriesState says that a conflict of Put carries the current value and version at no
	// extra cost. Then a caller that expects to create the register need not read it first.
	ConflictCarriesState bool

	// ReadsUnsynced says that a read can show a write before that write survives a power cut. Then
	// Resolve makes the write durable before it reports it as applied.
	ReadsUnsynced bool

	// Trusted says that the store is known to honour conditions, so that it need
	// not be probed before its first use.
	Trusted bool

	// MinTTL is the shortest lease that makes sense on this store; zero means that the
	// store sets no bound.
	MinTTL time.Duration

	// MinWriteTime is the shortest time that a write takes, if the store delays its writes
	// ([Traits.Delayed]). The store refuses a write whose context ends earlier. Zero means
	// that a write takes no longer than its requests.
	MinWriteTime time.Duration
}

// Delayed reports whether the store delays its writes. A store that does so is an
// [UncommittedReader], and its callers must obey the rules stated there.
func (t Traits) Delayed() bool { return t.MinWriteTime > 0 }

// Describer is a store that knows its [Traits].
type Describer interface {
	Traits() Traits
}

// TraitsOf returns the traits of s, or the zero value. If the traits of the store have no ID,
// TraitsOf sets ID to Name.
func TraitsOf(s Store) Traits {
	d, ok := As[Describer](s)
	if !ok {
		return Traits{}
	}
	t := d.Traits()
	t.ID = cmp.Or(t.ID, t.Name)
	return t
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
