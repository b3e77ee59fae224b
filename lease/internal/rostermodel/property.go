package rostermodel

// Property is one promise that the protocol makes.
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
	Exclusion:  "two clients believe at one instant what excludes each other",
	Dropped:    "a waiter or holder whose session lives is not in the record any more",
	Known:      "a record has an entry of a living session whose client does not know of it",
	Overtaken:  "a client is granted before one that has waited for longer",
	TooMany:    "a slot is granted that does not exist",
	TokenRises: "a token does not rise",
	Progress:   "a client that is left alone with a good network is not granted",
	Freedom:    "a client is not granted, although the others live and want nothing",
}

// String says what it means that the property is broken.
func (p Property) String() string { return propertyTexts[p] }
