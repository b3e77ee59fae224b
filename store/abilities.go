package store

import (
	"reflect"
	"sync"
)

// knownAbilities is the table of the optional abilities of a store. Each ability has a file
// with its interface, the function for stores that may lack it, and its decorated form.
// Package storetest has a case for each.
var knownAbilities = sync.OnceValue(func() []ability {
	return []ability{
		abilityOf("Watcher", func(s *intercepted, a Watcher) Watcher { return interceptedWatcher{s, a} }, OpWatch),
		abilityOf("Lister", func(s *intercepted, a Lister) Lister { return interceptedLister{s, a} }, OpList),
		abilityOf("UnsyncedPutter", func(s *intercepted, a UnsyncedPutter) UnsyncedPutter {
			return interceptedUnsynced{s, putHandler(a.PutUnsynced)}
		}, OpPutUnsynced),
		abilityOf("AgeReader", func(s *intercepted, a AgeReader) AgeReader { return interceptedAgeReader{s, a} }, OpGetAge),
		abilityOf("ConditionalGetter", func(s *intercepted, a ConditionalGetter) ConditionalGetter { return interceptedConditional{s, a} }, OpGetIfChanged),
		abilityOf("UncommittedReader", func(s *intercepted, a UncommittedReader) UncommittedReader { return interceptedUncommitted{s, a} }, OpGetUncommitted, OpHighestToken),
		abilityOf("Resolver", func(s *intercepted, a Resolver) Resolver { return interceptedResolver{s, a} }, OpResolve),
		// Presence concerns processes, and Waker other names than keys: both are passed on as they are.
		abilityOf("Presence", func(_ *intercepted, a Presence) Presence { return struct{ Presence }{a} }),
		abilityOf("Describer", func(s *intercepted, a Describer) Describer { return interceptedDescriber{s.below, a} }),
		abilityOf("TagLister", func(s *intercepted, a TagLister) TagLister { return interceptedTagLister{s, a} }, OpListTags),
		abilityOf("Waker", func(_ *intercepted, a Waker) Waker { return struct{ Waker }{a} }),
	}
})

// ability is one line of the table.
type ability struct {
	name  string
	kinds []Kind // its operations, for handlers; none if it has no key

	// found reports whether s has the ability.
	found func(s Store) bool

	// handOut sets target to the decorated ability of the store below s. asked is false if
	// target is for another ability; ok is false if the store below lacks this one.
	handOut func(s *intercepted, target any) (asked, ok bool)
}

// interceptedAbility is the decorated form of an ability whose methods pass through the handler of s.
type interceptedAbility[A any] struct {
	s *intercepted
	a A
}

// abilityOf returns the table line of the ability T. decorate makes its decorated form.
func abilityOf[T any](name string, decorate func(*intercepted, T) T, kinds ...Kind) ability {
	return ability{
		name:  name,
		kinds: kinds,
		found: func(s Store) bool { _, ok := As[T](s); return ok },
		handOut: func(s *intercepted, target any) (asked, ok bool) {
			t, asked := target.(*T)
			if !asked {
				return false, false
			}
			a, ok := As[T](s.inner)
			if ok {
				*t = decorate(s, a)
			}
			return true, ok
		},
	}
}

// Abilities returns the names of the interfaces of this package that [As] finds in s:
// "Watcher", "Lister" and so on.
func Abilities(s Store) (names []string) {
	for _, a := range knownAbilities() {
		if a.found(s) {
			names = append(names, a.name)
		}
	}
	return names
}

// As looks for the ability T in the store s, or in a store that s decorates. T is one of the
// interfaces of this package, or any other type.
//
// A decorator supports As in one of two ways. With a method Unwrap() Store, callers may use the
// store below directly. With a method As(target any) bool, the decorator decides itself: it sets
// target (a *T) and returns true. The decorators of this package ([Intercept], [Prefix]) have As.
// They return only the abilities that this package defines, and calls of these abilities also
// pass through the decorator. They hide everything else of the store below: its concrete type,
// and interfaces that this package does not know.
func As[T any](s Store) (T, bool) {
	var t T
	ok := asTarget(s, &t)
	return t, ok
}

// asTarget sets target, a *T, to the ability T of s.
func asTarget(s Store, target any) bool {
	out := reflect.ValueOf(target).Elem()
	for s != nil {
		if d, ok := s.(interface{ As(target any) bool }); ok && d.As(target) {
			return true
		}
		if reflect.TypeOf(s).AssignableTo(out.Type()) {
			out.Set(reflect.ValueOf(s))
			return true
		}
		d, ok := s.(interface{ Unwrap() Store })
		if !ok {
			return false
		}
		s = d.Unwrap()
	}
	return false
}
