package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// trustFor is how long a store that passed its probe is not probed again. A server
// that is replaced by a worse one is found out after that, and by doctor at any time.
const trustFor = 7 * 24 * time.Hour

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
	return known(filepath.Join(dir, "probed", hex.EncodeToString(sum[:])))
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
	info, err := os.Stat(string(k))
	return err == nil && time.Since(info.ModTime()).Abs() < trustFor
}

// note notes that the store passed. If that fails, the next run probes again.
func (k known) note() {
	if k == "" || os.MkdirAll(filepath.Dir(string(k)), 0o700) != nil {
		return
	}
	if os.WriteFile(string(k), nil, 0o600) == nil {
		now := time.Now()
		_ = os.Chtimes(string(k), now, now)
	}
}

// forget makes the next run probe again.
func (k known) forget() {
	if k != "" {
		_ = os.Remove(string(k))
	}
}
