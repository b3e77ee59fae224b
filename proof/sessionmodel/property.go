package sessionmodel

// Property is one promise of the protocol.
type Property int

// The properties.
const (
	Kept Property = iota
	Exclusion
	RevokedBelieves
	Revived
	TokenRises
	Known
	OwnRelease
	EndedStaysEnded
	NoFalseLoss
	NotDelayed
	KeptAlone
	Progress
	Freedom
)

var propertyTexts = [...]string{
	Kept:            "nothing is broken",
	Exclusion:       "two clients believe at one instant that they hold the lock",
	RevokedBelieves: "a client trusts in a session that was revoked or closed",
	Revived:         "a session whose deadline has passed is trusted again",
	TokenRises:      "a token does not rise",
	Known:           "a living session holds a lock, or a write under way may give it a lock, and its client does not know",
	OwnRelease:      "a release frees a lock that its grant does not hold",
	EndedStaysEnded: "a claim is applied, although its client reported that the claim has certainly ended",
	NoFalseLoss:     "a client reports an open session as lost, although no record was removed",
	NotDelayed:      "a request to yield or a notification delays the takeover of a dead holder",
	KeptAlone:       "a session that is left alone with a good network is lost",
	Progress:        "a client that is left alone with a good network does not get the lock",
	Freedom:         "a client does not get the lock, although the other client is idle",
}

// String describes how the property is broken.
func (p Property) String() string { return propertyTexts[p] }
