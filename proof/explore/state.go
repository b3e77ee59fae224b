package explore

// What the states of models have in common. A state holds no pointer and no time. A list is an
// array after the number of its values; the rest is zero. Of a clock a state has only what is left
// of a wait.

// Slowest and Fastest are the two rates of a clock: the units by which the clock advances in one tick.
// One tick of true time is 1.5 units of a right clock. So the rate error rho is 1/3, and f =
// (1+rho)/(1-rho) = 2.
const (
	Slowest = 1
	Fastest = 2
)

// Put appends a value to a list of n values.
func Put[R any](list []R, n *uint8, v R) {
	list[*n] = v
	*n++
}

// Take removes the value at index i from a list of n values, and returns the value.
func Take[R any](list []R, n *uint8, i int) R {
	v := list[i]
	copy(list[i:*n], list[i+1:*n])
	*n--
	clear(list[*n : *n+1])
	return v
}

// Keep keeps the values of a list for which the function good returns true, and removes the others. The
// function good may change a value.
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

// Sort orders a list of n values, at most 8. The keys do not depend on the names of versions. If the
// function same reports that two values with one key are equal, Sort keeps only the first. This has no
// effect on later steps: when the store applies one write, it refuses all other writes over the same
// version.
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

// Names gives new numbers to versions and grants, in the order in which they appear in a state.
type Names struct {
	to   [128]uint8
	Last uint8 // last number that was given
}

// texts are the small numbers of a state as the ids and nonces of a record.
var texts = func() (all [256]string) {
	for i := range all[1:] {
		all[i+1] = string([]byte{byte(i + 1)})
	}
	return all
}()

// Text converts a number in a state to an id or a nonce of a record. Number converts the id or nonce
// back. Zero means none.
func Text(n uint8) string { return texts[n] }

// Number returns the number of a Text.
func Number(text string) uint8 {
	if text == "" {
		return 0
	}
	return text[0]
}

// GoneVersion is the name of every version that no client can find any more.
const GoneVersion = 255

// Set gives a number to an old name.
func (n *Names) Set(old, number uint8) { n.to[old] = number }

// Rename replaces the old name in v by its new number. Zero and GoneVersion do not change.
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

// After each step, all tokens get new numbers. These are the numbers.
const (
	TopToken  = 8  // the largest token that was granted
	LowToken  = 4  // the token LowToken and all lower tokens
	HighToken = 10 // the token HighToken and all higher tokens
)

// LowerToken returns the new number of a token after the largest token has risen by the given number.
// Zero means that there is no token.
func LowerToken(t *uint8, by uint8) {
	if *t != 0 {
		*t = min(max(*t-min(by, *t), LowToken), HighToken)
	}
}
