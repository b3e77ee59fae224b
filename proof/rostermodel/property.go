package rostermodel

// Property is one promise of the protocol.
type Property int

// The properties.
const (
	Kept Property = iota
	Exclusion
	Dropped
	Known
	Overtaken
	TooMany
	TokenRises
	Progress
	Freedom
)

var propertyTexts = [...]string{
	Kept:       "nothing is broken",
	Exclusion:  "two clients believe at one instant that they hold the lock or slot, but exclude each other",
	Dropped:    "the record no longer has a waiter or holder whose session lives",
	Known:      "a record has an entry of a living session whose client does not know of it",
	Overtaken:  "a client gets the lock before a client that has waited for longer",
	TooMany:    "a client gets a slot that does not exist",
	TokenRises: "a token does not rise",
	Progress:   "a client that is left alone with a good network does not get the lock",
	Freedom:    "a client does not get the lock, although the other clients are idle",
}

// String describes how the property is broken.
func (p Property) String() string { return propertyTexts[p] }
