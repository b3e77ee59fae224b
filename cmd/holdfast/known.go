package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/internal/private"
)

// trustFor is how long a store that passed its probe is not probed again. A server
// that is replaced by a worse one is found out after that, and by doctor at any time.
const trustFor = 7 * 24 * time.Hour

// The directories below that of this user's locks in which the command remembers
// something. What another user can have written there is not believed: it would take a
// lock from a living holder, or pass a server that ignores conditions.
const (
	seenDir   = "seen"   // sightings of locks
	probedDir = "probed" // stores that passed their probe
)

// tellState says once if something that was remembered is not used.
func (a *app) tellState() {
	a.toldState.Do(func() {
		base, err := defaultDir()
		if err != nil {
			return
		}
		for _, name := range []string{seenDir, probedDir} {
			dir, err := private.OpenPrivateDir(filepath.Join(base, name))
			var not *private.Error
			switch {
			case err == nil:
				dir.Close()
			case errors.As(err, &not):
				a.notef("%v: nothing is remembered there, and what it holds is not used", err)
			}
		}
	})
}

// known remembers that a store passed its probe, so that not every run pays for one:
// by an empty file in the state directory, whose name tells the store and whose time
// tells when. It is the path of that file; empty if nothing can be remembered.
type known string

// knownGood returns what is remembered of the store that a URL names.
func knownGood(u *url.URL) known {
	dir, err := defaultDir()
	if err != nil {
		return ""
	}
	return knownIn(dir, u)
}

func knownIn(dir string, u *url.URL) known {
	bare := *u
	bare.User, bare.Fragment = nil, ""
	bare.RawQuery = u.Query().Encode() // in one order
	sum := sha256.Sum256([]byte(bare.String() + "\n" + endpoints()))
	return known(filepath.Join(dir, probedDir, hex.EncodeToString(sum[:])))
}

// endpoints are the settings outside the URL that say which server it is.
func endpoints() (all string) {
	for _, name := range []string{
		"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_DYNAMODB",
		"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_CONFIG_FILE",
	} {
		all += name + "=" + os.Getenv(name) + "\n"
	}
	return all
}

func (k known) is() bool {
	if k == "" {
		return false
	}
	dir, err := private.OpenPrivateDir(filepath.Dir(string(k)))
	if err != nil {
		return false
	}
	defer dir.Close()
	f, info, err := dir.Open(filepath.Base(string(k)))
	if err != nil {
		return false
	}
	f.Close()
	return time.Since(info.ModTime()).Abs() < trustFor
}

// note notes that the store passed. If that fails, the next run probes again.
func (k known) note() {
	if k == "" {
		return
	}
	dir, err := private.MakePrivateDir(filepath.Dir(string(k)))
	if err != nil {
		return
	}
	defer dir.Close()
	if f, err := dir.Create(".new-"); err == nil {
		defer f.Discard()
		_ = f.Install(filepath.Base(string(k)))
	}
}

// forget makes the next run probe again.
func (k known) forget() {
	if k != "" {
		_ = os.Remove(string(k))
	}
}
