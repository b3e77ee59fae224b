package model

// Mutant is a set of checks that are left out.
type Mutant uint32

// The checks, and other deliberate faults, one bit each.
const (
	// NoNameCheck: a write that counts in its segment succeeds without a look at
	// the segment's name (PUT 3).
	NoNameCheck Mutant = 1 << iota

	// NoSecondFold: a write whose segment lost its name succeeds without a look
	// whether that was sealed (PUT 3).
	NoSecondFold

	// VoidSucceeds: a write succeeds because it was appended (PUT 5).
	VoidSucceeds

	// SealAnything: a seal counts whatever state it names (FOLD).
	SealAnything

	// NoSealCheck: a segment is sealed without a look at its name (SEAL).
	NoSealCheck

	// NoCheckBeforeLink: NEXT 3.
	NoCheckBeforeLink

	// NoCheckAfterLink: NEXT 4.
	NoCheckAfterLink

	// UnlinkLeftover: a process that finds its segment removed after linking removes its
	// link (NEXT 4: "touching nothing").
	UnlinkLeftover

	// PruneOwn: only one segment is kept (NEXT 4).
	PruneOwn

	// PruneDown: segments are removed from the highest to the lowest (NEXT 4).
	PruneDown

	// PruneOn: one segment that cannot be removed does not keep those after it (NEXT 4
	// and COLD).
	PruneOn

	// NoCheckAfterOpen: NEXT 5.
	NoCheckAfterOpen

	// NoPredecessor: COLD believes in the highest segment that it finds.
	NoPredecessor

	// NoSealedPredecessor: COLD is content with a predecessor of any content.
	NoSealedPredecessor

	// NoFirstCheck: COLD believes in segment 1 without a look at its name.
	NoFirstCheck

	// EmptyIsAbsent: COLD takes an empty listing for a register that does not
	// exist.
	EmptyIsAbsent
)
