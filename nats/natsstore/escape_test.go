package natsstore

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// FuzzEscape: each valid key is a subject that NATS accepts, and no two keys have the same subject.
func FuzzEscape(f *testing.F) {
	for _, key := range []string{"a", "a/b", "a.b", "a=2Eb", "*", ">", " ", "ü/\x00/=", "a/.x", strings.Repeat("é", store.MaxKey/2)} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if store.CheckKey(key) != nil {
			return
		}
		subject := escape(key)
		if strings.Trim(subject, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=.") != "" ||
			strings.Contains("."+subject+".", "..") || len(subject) > 3*len(key) {
			t.Errorf("%q: the subject is %q", key, subject)
		}
		if back, ok := unescape(subject); !ok || back != key {
			t.Errorf("%q: the subject %q is the key %q, %v", key, subject, back, ok)
		}
	})
}

// TestUnescapeForeign: a subject that escape does not make belongs to no register.
func TestUnescapeForeign(t *testing.T) {
	for _, subject := range []string{"a=", "a=4", "a=zz", "a=61", "a=2e", "a b", "=+1", "é"} {
		if key, ok := unescape(subject); ok {
			t.Errorf("%q: the key %q", subject, key)
		}
	}
}
