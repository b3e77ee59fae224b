package explore

// What the states of models have in common. A state holds no pointer and no time. A list is an
// array after the number of its values; the rest is zero. Of a clock a state has only what is left
// of a wait.

// The clocks. One tick of true time is 1.5 units of a right clock. With rho = 1/3 a clock
// advances by 1 to 2 units in a tick, and f = (1+rho)/(1-rho) = 2.
const (
	Slowest = 1
	Fastest = 2
)

// Put appends a value to a list of n values.
func Put[R any](list []R, n *uint8, v R) {
	list[*n] = v
	*n++
}

// Take removes value i from a list of n values, and returns it.
func Take[R any](list []R, n *uint8, i int) R {
	v := list[i]
	copy(list[i:*n], list[i+1:*n])
	*n--
	clear(list[*n : *n+1])
	return v
}

// Keep removes from a list of n values those for which good returns false. The function good may
// change a value.
func Keep[R any](list []R, n *uint8, good func(v *R) bool) {
	kept := uint8(0)
	for i := range *n {
		if good(&list[i]) {
			list[kept] = list[i]
			kept++
		}
	}
	clear(list[kept:*n])
	*n = kept
}

// Sort orders a list of n values, at most 8, by keys that do not depend on the names of versions.
// If same reports that two values with one key are equal, Sort keeps only the first. This changes
// nothing: when the store applies one write, it refuses the other writes over the same version.
func Sort[R any](list []R, n *uint8, key func(v *R) uint64, same func(key uint64, a, b *R) bool) {
	if *n < 2 {
		return
	}
	var keys [8]uint64
	for i := range *n {
		keys[i] = key(&list[i])
	}
	for i := uint8(1); i < *n; i++ {
		for j := i; j > 0 && keys[j] < keys[j-1]; j-- {
			keys[j], keys[j-1] = keys[j-1], keys[j]
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
	kept := uint8(1)
	for i := uint8(1); i < *n; i++ {
		if keys[i] == keys[i-1] && same(keys[i], &list[kept-1], &list[i]) {
			continue
		}
		list[kept] = list[i]
		kept++
	}
	clear(list[kept:*n])
	*n = kept
}

// Names numbers versions and grants in the order in which they appear in a state.
type Names struct {
	to   [128]uint8
	Last uint8 // the last number that was given
}

// texts are the small numbers of a state as the ids and nonces of a record.
var texts = func() (all [256]string) {
	for i := range all[1:] {
		all[i+1] = string([]byte{byte(i + 1)})
	}
	return all
}()

// Text converts a number in a state to an id or nonce of a record. Number converts it back. Zero
// means none.
func Text(n uint8) string { return texts[n] }

// Number returns the number of a Text.
func Number(text string) uint8 {
	if text == "" {
		return 0
	}
	return text[0]
}

// GoneVersion names a version that no client can find any more.
const GoneVersion = 255

// Set gives an old name a number.
func (n *Names) Set(old, number uint8) { n.to[old] = number }

// Rename replaces the name in v by its number. Zero and GoneVersion do not change.
func (n *Names) Rename(v *uint8) {
	if *v == 0 || *v == GoneVersion {
		return
	}
	if n.to[*v] == 0 {
		n.Last++
		n.to[*v] = n.Last
	}
	*v = n.to[*v]
}

// Tokens are renumbered after each step.
const (
	TopToken  = 8  // the largest granted so far
	LowToken  = 4  // those below it are all alike
	HighToken = 10 // those above it are all alike
)

// LowerToken renumbers a token after the largest token has risen by that number. Zero means no
// token.
func LowerToken(t *uint8, by uint8) {
	if *t != 0 {
		*t = min(max(*t-min(by, *t), LowToken), HighToken)
	}
}
