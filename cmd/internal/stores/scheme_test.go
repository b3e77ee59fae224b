package stores

import "testing"

// TestSchemesAreComplete: each kind of store has what the help says of it.
func TestSchemesAreComplete(t *testing.T) {
	for _, s := range Schemes() {
		if s.what == "" || s.parameters == "" || s.open == nil || (s.openBucket == nil) != (s.ObjectForm == "") || (s.tables == nil) != (s.TableForm == "") {
			t.Errorf("%s: the scheme is not complete: %+v", s.Name, s)
		}
	}
}
