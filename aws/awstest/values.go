package awstest

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// The limits of DynamoDB.
const (
	maxDepth  = 32        // of lists and maps
	maxName   = 1<<16 - 1 // bytes
	maxDigits = 38
)

// checkItem refuses an item with values that the server does not accept. It returns the size of the
// item in bytes.
func checkItem(item avItem) (size int) {
	for name, v := range item {
		checkName(name)
		_, n := measure(v, 1)
		size += len(name) + n
	}
	return size
}

func checkName(name string) {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		refuse("One or more parameter values were invalid: the attribute name %.80q", name)
	}
}

// equal reports whether two values are the same. Numbers are equal by value, and sets in any order.
func equal(a, b any) bool {
	x, _ := measure(a, 1)
	y, _ := measure(b, 1)
	return x == y
}

// measure returns a text that only equal values have, and the size of the value in bytes. It
// refuses what the server does not accept.
func measure(v any, depth int) (text string, size int) {
	a, _ := v.(attribute)
	if len(a) != 1 {
		refuse("Supplied AttributeValue has more than one datatypes set, or none")
	}
	if depth > maxDepth {
		refuse("Nesting Levels have exceeded supported limits")
	}
	for kind, x := range a {
		list, isList := x.([]any)
		switch s, isText := x.(string); {
		case kind == "S" && isText:
			if !utf8.ValidString(s) {
				refuse("One or more parameter values were invalid: %.60q is not UTF-8", s)
			}
			return kind + strconv.Quote(s), len(s)
		case kind == "N" && isText:
			return kind + canonicalNumber(s), numberSize(s)
		case kind == "B" && isText:
			b := decoded(s)
			return kind + strconv.Quote(string(b)), len(b)
		case kind == "BOOL", kind == "NULL" && x == true:
			return kind + fmt.Sprint(x), 1
		case kind == "L" && isList:
			texts, size := measureAll(list, depth+1)
			return kind + "[" + strings.Join(texts, ",") + "]", 3 + len(list) + size
		case kind == "M":
			m, _ := x.(map[string]any)
			all, size := kind+"{", 3
			for _, name := range slices.Sorted(maps.Keys(m)) {
				checkName(name)
				text, n := measure(m[name], depth+1)
				all, size = all+strconv.Quote(name)+text, size+1+len(name)+n
			}
			return all + "}", size
		case (kind == "SS" || kind == "NS" || kind == "BS") && isList:
			elements := make([]any, len(list))
			for i, element := range list {
				elements[i] = attribute{kind[:1]: element}
			}
			texts, size := measureAll(elements, depth)
			slices.Sort(texts)
			if len(texts) == 0 || len(slices.Compact(slices.Clone(texts))) < len(texts) {
				refuse("One or more parameter values were invalid: an empty set, or one that contains duplicates")
			}
			return kind + "[" + strings.Join(texts, ",") + "]", size
		}
		refuse("a value of the type %q", kind)
	}
	return "", 0
}

func measureAll(list []any, depth int) (texts []string, size int) {
	for _, element := range list {
		text, n := measure(element, depth)
		texts, size = append(texts, text), size+n
	}
	return texts, size
}

var decimal = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([-+]?)(\d*)(?:\.(\d+))?(?:[eE]([-+]?\d{1,4}))?$`)
})

// canonicalNumber returns a number as the server writes it: an integer of up to 38 digits without
// an exponent ("100"), a fraction without trailing zeros ("0.5"), others with an exponent
// ("1E+100").
func canonicalNumber(text string) string {
	match := decimal().FindStringSubmatch(text)
	if match == nil || match[2]+match[3] == "" {
		refuse("The parameter cannot be converted to a numeric value: %.60s", text)
	}
	exp, _ := strconv.Atoi(match[4])
	exp -= len(match[3])
	digits := strings.TrimLeft(match[2]+match[3], "0")
	significant := strings.TrimRight(digits, "0")
	exp += len(digits) - len(significant)
	n := len(significant)
	switch {
	case n == 0:
		return "0"
	case n > maxDigits:
		refuse("Attempting to store more than 38 significant digits in a Number: %.60s", text)
	case exp+n-1 > 125 || exp+n-1 < -130:
		refuse("Number overflow: %.60s", text)
	}
	sign := strings.TrimPrefix(match[1], "+")
	switch {
	case exp >= 0 && exp+n <= maxDigits:
		return sign + significant + strings.Repeat("0", exp)
	case exp < 0 && -exp < n:
		return sign + significant[:n+exp] + "." + significant[n+exp:]
	case exp < 0 && -exp <= maxDigits:
		return sign + "0." + strings.Repeat("0", -exp-n) + significant
	}
	return fmt.Sprintf("%s%sE%+d", sign, significant, exp)
}

// numberSize counts a byte for each two digits between the first and the last that are not zero, one
// more, and one for a sign.
func numberSize(text string) int {
	text, negative := strings.CutPrefix(text, "-")
	mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
	digits := strings.Trim(strings.Replace(mantissa, ".", "", 1), "0")
	size := (len(digits)+1)/2 + 1
	if negative {
		size++
	}
	return min(size, 21)
}

func rational(text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		refuse("The parameter cannot be converted to a numeric value: %s", text)
	}
	return r
}

func decoded(text string) []byte {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		refuse("Base64 encoded length is unexpected: %v", err)
	}
	return b
}
