package logmodel

// Mutant is a set of deliberate faults. Most of them leave out one check of the protocol.
type Mutant uint32

// The deliberate faults, one bit each. A text such as PUT 3 names a step of the protocol in package
// filestore.
const (
	// NoNameCheck: after a write that counts in its segment, the process does not check that the segment
	// still has its name (PUT 3).
	NoNameCheck Mutant = 1 << iota

	// NoSecondFold: if the segment of a write has lost its name, the process does not check
	// whether the segment was sealed (PUT 3).
	NoSecondFold

	// VoidSucceeds: every appended write reports success, even if it does not count (PUT 5).
	VoidSucceeds

	// NoSealCheck: a process seals a segment without a check that the segment has its name (SEAL).
	NoSealCheck

	// NoCheckBeforeLink leaves out the check before the link (NEXT 3).
	NoCheckBeforeLink

	// NoCheckAfterLink leaves out the check after the link (NEXT 4).
	NoCheckAfterLink

	// UnlinkLeftover: if a process finds after the link that its segment was removed, it removes
	// the link, although NEXT 4 says that it changes nothing.
	UnlinkLeftover

	// PruneOwn: the process keeps only one segment (NEXT 4).
	PruneOwn

	// PruneDown: the process removes segments from the highest number to the lowest (NEXT 4).
	PruneDown

	// PruneOn: if the process cannot remove a segment, it still removes the segments after it
	// (NEXT 4 and COLD).
	PruneOn

	// NoCheckAfterOpen leaves out the check after the open (NEXT 5).
	NoCheckAfterOpen

	// NoPredecessor: COLD accepts the highest segment that it finds, without its predecessor.
	NoPredecessor

	// NoFirstCheck: COLD accepts segment 1 without a check that it has its name.
	NoFirstCheck

	// EmptyIsAbsent: after an empty listing, COLD reports that the register is absent.
	EmptyIsAbsent
)
