package lockmodel

// Property is one promise of the protocol.
type Property int

// The properties.
const (
	Kept Property = iota
	Exclusion
	TokenRises
	OwnGrant
	NoFalseLoss
	OwnRelease
	EndedStaysEnded
	BreakOrder
	KnownNonce
	KeptAlone
	Progress
	TicketKept
	NotDelayed
)

var propertyTexts = [...]string{
	Kept:            "nothing is broken",
	Exclusion:       "two clients believe at one instant that they hold the lock",
	TokenRises:      "a token does not rise",
	OwnGrant:        "a client adopts a grant that is not its own",
	NoFalseLoss:     "a client reports a grant as lost or given up, but the register still has the grant",
	OwnRelease:      "a release frees a lock that its grant does not hold",
	EndedStaysEnded: "a grant is written again, although its client reported that the grant has certainly ended",
	BreakOrder:      "after a break with --now the older holder does not have the smaller token",
	KnownNonce:      "the register has a write of a client's grant that the client does not know",
	KeptAlone:       "a holder that is left alone with a good network loses its lock",
	Progress:        "a client that is left alone with a good network does not get the lock",
	TicketKept:      "a ticket is refused, although no process has continued its lease",
	NotDelayed:      "a break or a request to yield delays a client that could have taken the lock without it",
}

// String describes how the property is broken.
func (p Property) String() string { return propertyTexts[p] }
