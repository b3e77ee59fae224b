package allstores

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/internal/safefile"
)

// trustFor is how long a store that passed its probe is not probed again. If a worse server
// replaces the store's server, the command notices only after that time. doctor notices it
// at any time.
const trustFor = 7 * 24 * time.Hour

// probeCache remembers that a store passed its probe, so that not every run pays for one. It is
// the path of an empty file in the state directory: the name stands for the store, and the
// file's time is the time of the probe. It is empty if nothing can be remembered.
type probeCache string

// probeCacheFor returns what is remembered of the store that a URL names.
func probeCacheFor(u *url.URL) probeCache {
	dir, err := stores.DefaultDir()
	if err != nil {
		return ""
	}
	return probeCacheIn(dir, u)
}

// probeCacheIn is [probeCacheFor] with another state directory.
func probeCacheIn(dir string, u *url.URL) probeCache {
	bare := *u
	bare.User, bare.Fragment = nil, ""
	bare.RawQuery = u.Query().Encode() // parameters in one order
	sum := sha256.Sum256([]byte(bare.String() + "\n" + endpoints()))
	return probeCache(filepath.Join(dir, stores.ProbedDir, hex.EncodeToString(sum[:])))
}

// noteVerdict remembers whether doctor has found a store safe.
func noteVerdict(_ *stores.Access, u *url.URL, safe bool) {
	if known := probeCacheFor(u); safe {
		known.note()
	} else {
		known.forget()
	}
}

// endpoints returns the settings outside the URL that decide which server is used, and whose account: tables of two
// accounts can have the same name.
func endpoints() (all string) {
	for _, name := range []string{
		"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_DYNAMODB",
		"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_CONFIG_FILE",
		"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "AWS_SHARED_CREDENTIALS_FILE", "AWS_ACCESS_KEY_ID", "AWS_ROLE_ARN",
	} {
		all += name + "=" + os.Getenv(name) + "\n"
	}
	return all
}

// is reports whether the store passed its probe a short time ago.
func (k probeCache) is() bool {
	if k == "" {
		return false
	}
	dir, err := safefile.OpenPrivateDir(filepath.Dir(string(k)))
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

// note records that the store passed its probe. If that fails, the next run probes again.
func (k probeCache) note() {
	if k == "" {
		return
	}
	dir, err := safefile.MakePrivateDir(filepath.Dir(string(k)))
	if err != nil {
		return
	}
	defer dir.Close()
	_ = dir.Replace(filepath.Base(string(k)), ".new-", 0o600, nil)
}

// forget makes the next run probe again.
func (k probeCache) forget() {
	if k != "" {
		_ = os.Remove(string(k))
	}
}
