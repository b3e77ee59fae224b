package output

import "testing"

// What is nearly right gets the right word.
func TestNearest(t *testing.T) {
	commands := []string{"run", "renew", "unlock", "lock", "ls", "show", "watch", "break", "checkpoint", "doctor"}
	for typed, want := range map[string]string{
		"rnu": "run", "un": "run", "ruun": "run", "unlok": "unlock", "lokc": "lock", "check": "checkpoint",
		"whatch": "watch", "brake": "break", "xyzzy": "", "": "", "z": "", "doktor": "doctor", "l": "ls",
	} {
		if got := Nearest(typed, commands); got != want {
			t.Errorf("nearest to %q is %q, want %q", typed, got, want)
		}
	}
}
