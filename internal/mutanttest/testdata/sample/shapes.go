package sample

import "fmt"

// Zero is outside of any function.
const Zero = 0

type counter struct{ n int }

// add has a receiver, two parameters of one type, one without a name, and two results.
func (c *counter) add(a, b int, _ string) (sum int, err error) {
	c.n += a + b
	return c.n, nil
}

// reset has no result.
func (c *counter) reset() { c.n = Zero }

// unit has a receiver without a name.
func (counter) unit() string { return "apples" }

// join takes any number.
func join(format string, more ...any) string {
	return fmt.Sprintf(format, more...)
}

// first has a type of its own in each call.
func first[T any](all ...T) T { return all[0] }
