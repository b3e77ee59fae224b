package username

import (
	"os/user"
	"testing"
)

// TestCurrent: for a user in /etc/passwd, the name is that of os/user.
func TestCurrent(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if got := Current(); got != me.Username {
		t.Errorf("got %q, want %q", got, me.Username)
	}
}

func TestNameOf(t *testing.T) {
	const passwd = `root:x:0:0:root:/root:/bin/bash
# old:x:7:7::/:/bin/sh
+nis:x:7:7::/:/bin/sh
:x:7:7::/:/bin/sh
short:x:7
alice:x:1000:7::/home/alice:/bin/sh
again:x:1000:1000::/:/bin/sh
last:x:8:8::/:/bin/sh`
	for id, want := range map[string]string{"0": "root", "1000": "alice", "8": "last", "7": "", "x": "", "": ""} {
		if got := nameOf(id, passwd); got != want {
			t.Errorf("user %q: got %q, want %q", id, got, want)
		}
	}
}
