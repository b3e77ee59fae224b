package integration_test

import (
	"errors"
	"testing"

	"github.com/anishathalye/porcupine"
)

// The checker distinguishes histories of a lease from others.
func TestLeaseHistories(t *testing.T) {
	grant := func(token uint64, begin, end, released int64) grantSeen {
		return grantSeen{belief: belief{int(token), token, begin, end}, before: begin - 5, released: released}
	}
	write := func(g grantSeen, at int64, n int) grantSeen {
		g.writes = append(g.writes, porcupine.Operation{Input: leaseOp{opWrite, g.token, n}, Call: at, Return: at + 1})
		return g
	}
	for _, test := range []struct {
		name   string
		legal  bool
		grants []grantSeen
	}{
		{"one after the other", true, []grantSeen{grant(1, 10, 20, 25), grant(2, 24, 30, 35), grant(3, 40, 50, 0)}},
		{"taken over from one who fell silent", true, []grantSeen{grant(1, 10, 20, 0), grant(2, 60, 70, 80)}},
		{"released while the next one acquires", true, []grantSeen{grant(1, 10, 20, 60), grant(2, 40, 50, 0)}},
		{"a late write before the fence is raised", true, []grantSeen{write(grant(1, 10, 20, 0), 55, 1), write(grant(2, 50, 70, 80), 60, 2)}},

		{"two believe", false, []grantSeen{grant(1, 10, 30, 0), grant(2, 20, 40, 45)}},
		{"one believes again after another", false, []grantSeen{grant(1, 10, 50, 0), grant(2, 20, 21, 22)}},
		{"the token falls", false, []grantSeen{grant(2, 10, 20, 25), grant(1, 30, 40, 45)}},
		{"the token stays", false, []grantSeen{grant(1, 10, 20, 25), grant(1, 30, 40, 45)}},
		{"a late write behind the fence", false, []grantSeen{write(grant(1, 10, 20, 0), 70, 2), write(grant(2, 50, 70, 80), 60, 1)}},
		{"two writes of one number", false, []grantSeen{write(grant(1, 10, 20, 25), 15, 1), write(grant(2, 30, 40, 45), 35, 1)}},
	} {
		err := (&leaseHistory{test.grants}).check()
		if test.legal && err != nil || !test.legal && !errors.Is(err, errIllegal) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
