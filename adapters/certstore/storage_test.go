package certstore_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast/adapters/certstore"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/filestore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

func open(t *testing.T, st store.Store) *certstore.Storage {
	t.Helper()
	s, err := certstore.New(st, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// eachStore runs a test on a store in memory and on a directory.
func eachStore(t *testing.T, test func(t *testing.T, st store.Store)) {
	t.Run("memstore", func(t *testing.T) {
		t.Parallel()
		test(t, &memstore.Store{})
	})
	t.Run("filestore", func(t *testing.T) {
		t.Parallel()
		st, err := filestore.Open(t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		test(t, st)
	})
}

// put writes a key for a test.
func put(t *testing.T, s *certstore.Storage, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if err := s.Store(t.Context(), key, []byte("value of "+key)); err != nil {
			t.Fatalf("Store(%.60q): %v", key, err)
		}
	}
}

func wantValue(t *testing.T, s *certstore.Storage, key, want string) {
	t.Helper()
	if got, err := s.Load(t.Context(), key); err != nil || string(got) != want {
		t.Errorf("Load(%.60q): got %.60q, %v, want %.60q", key, got, err, want)
	}
}

// wantAbsent checks that a key exists neither as a value nor as a directory.
func wantAbsent(t *testing.T, s *certstore.Storage, key string) {
	t.Helper()
	ctx := t.Context()
	_, load := s.Load(ctx, key)
	_, stat := s.Stat(ctx, key)
	_, list := s.List(ctx, key, false)
	_, all := s.List(ctx, key, true)
	for what, err := range map[string]error{"Load": load, "Stat": stat, "List": list, "recursive List": all} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of %.60q: got %v, want that it does not exist", what, key, err)
		}
	}
	if s.Exists(ctx, key) {
		t.Errorf("%.60q exists", key)
	}
	if err := s.Delete(ctx, key); err != nil {
		t.Errorf("Delete of %.60q, which does not exist: %v", key, err)
	}
}

func wantList(t *testing.T, s *certstore.Storage, path string, recursive bool, want ...string) {
	t.Helper()
	if got, err := s.List(t.Context(), path, recursive); err != nil || !slices.Equal(got, want) {
		t.Errorf("List(%.60q, %t): got %.200q, %v, want %.200q", path, recursive, got, err, want)
	}
}

// The methods do what certmagic.FileStorage does.
func TestFiles(t *testing.T) {
	eachStore(t, func(t *testing.T, st store.Store) {
		s, other := open(t, st), open(t, st)
		ctx := t.Context()
		wantAbsent(t, s, "a")
		wantList(t, s, "", true)
		before := time.Now().Add(-time.Millisecond)
		put(t, s, "a", "d/k1", "d/k/a/b", "d/k/c", "d-2/x")
		for _, s := range []*certstore.Storage{s, other} {
			wantValue(t, s, "d/k/c", "value of d/k/c")
			wantList(t, s, "", false, "a", "d", "d-2")
			wantList(t, s, "", true, "a", "d", "d-2", "d-2/x", "d/k", "d/k/a", "d/k/a/b", "d/k/c", "d/k1")
			wantList(t, s, "d", false, "d/k", "d/k1")
			wantList(t, s, "d", true, "d/k", "d/k/a", "d/k/a/b", "d/k/c", "d/k1")
			wantList(t, s, "d/k/a", true, "d/k/a/b")
			wantList(t, s, "a", true) // a key without keys below it
			info, err := s.Stat(ctx, "d/k1")
			if err != nil || info.Key != "d/k1" || info.Size != int64(len("value of d/k1")) || !info.IsTerminal ||
				info.Modified.Before(before) || info.Modified.After(time.Now().Add(time.Millisecond)) {
				t.Errorf("Stat: got %+v, %v", info, err)
			}
			for _, dir := range []string{"d", "d/k", "d/k/a", ""} {
				if info, err := s.Stat(ctx, dir); err != nil || info != (certmagic.KeyInfo{Key: dir}) {
					t.Errorf("Stat(%q): got %+v, %v, want a directory", dir, info, err)
				}
				if _, err := s.Load(ctx, dir); err == nil || dir != "" && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("Load(%q): got %v, want an error", dir, err)
				}
				if !s.Exists(ctx, dir) {
					t.Errorf("the directory %q does not exist", dir)
				}
			}
		}
		for _, value := range []string{"", "new"} {
			if err := other.Store(ctx, "a", []byte(value)); err != nil {
				t.Fatal(err)
			}
			wantValue(t, s, "a", value)
		}
		if err := s.Delete(ctx, "d/k"); err != nil {
			t.Fatal(err)
		}
		wantAbsent(t, other, "d/k")
		wantList(t, other, "d", true, "d/k1")
		if err := s.Delete(ctx, "d"); err != nil {
			t.Fatal(err)
		}
		wantAbsent(t, other, "d")
		wantList(t, other, "", true, "a", "d-2", "d-2/x")
		for _, err := range []error{s.Store(ctx, "", nil), s.Delete(ctx, ""), s.Store(ctx, "/", nil), s.Delete(ctx, "../..")} {
			if !errors.Is(err, fs.ErrInvalid) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("a change of the root: got %v", err)
			}
		}
		wantList(t, other, "", true, "a", "d-2", "d-2/x")
	})
}

// Any text is a key. No two keys are one, and listings return each key as it was.
func TestKeys(t *testing.T) {
	long := strings.Repeat("ü", 512)
	keys := []string{
		"A", "a", "*.example.com", "wildcard_.example.com", "ü", "u\u0308", "a b", "a\nb", "a\x00b", "%2F", "a%2Fb", "a:b?*\"<>|\\",
		"certificates/acme-v02.api.letsencrypt.org-directory/" + strings.Repeat("d", 253) + "/" + strings.Repeat("d", 253) + ".crt",
		strings.Repeat("n", 399), strings.Repeat("n", 400), strings.Repeat("n", 401), strings.Repeat("n", 402),
		"1" + long, "12" + long, "123" + long, "dir/" + long, "dir/" + long + "/x", "dir/" + long + "/y/" + long, "dir/" + long + "2",
		strings.Repeat("dddddd/", 150) + "e", strings.Repeat("dddddd/", 150) + "f",
		".hidden/a", "..b/c", strings.Repeat(".", 450) + "/x", "lock/certmagic", "lock", "checkpoint/a", "certmagic/a",
	}
	eachStore(t, func(t *testing.T, st store.Store) {
		s := open(t, st)
		put(t, s, keys...)
		for _, key := range keys {
			wantValue(t, s, key, "value of "+key)
			if info, err := s.Stat(t.Context(), key); err != nil || info.Key != key || !info.IsTerminal {
				t.Errorf("Stat(%.60q): got %.60q, %v", key, info.Key, err)
			}
		}
		var files []string
		all, err := s.List(t.Context(), "", true)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range all {
			if info, err := s.Stat(t.Context(), key); err != nil {
				t.Errorf("Stat(%.60q): %v", key, err)
			} else if info.IsTerminal {
				files = append(files, key)
			}
		}
		if want := slices.Sorted(slices.Values(keys)); !slices.Equal(files, want) {
			t.Errorf("got %d keys, want %d", len(files), len(want))
		}
		dir := "dir/" + long
		wantList(t, s, dir, true, dir+"/x", dir+"/y", dir+"/y/"+long)
		wantList(t, s, dir+"/y", false, dir+"/y/"+long)
		wantList(t, s, "dir", false, dir, dir+"2")
		wantList(t, s, strings.Repeat("dddddd/", 149), false, strings.Repeat("dddddd/", 149)+"dddddd")
		wantList(t, s, ".hidden", false, ".hidden/a")
		wantList(t, s, "..b", false, "..b/c")
		wantAbsent(t, s, dir+"/z")
		for _, same := range []string{"/dir/" + long, "dir//" + long + "/", "dir/./x/../" + long, "../../dir/" + long} {
			wantValue(t, s, same, "value of "+dir)
		}
		if err := s.Delete(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		wantAbsent(t, s, dir)
		wantList(t, s, "dir", false, dir+"2")
		for _, key := range []string{"\xff", "a/\xc3"} {
			if err := s.Store(t.Context(), key, nil); !errors.Is(err, fs.ErrInvalid) || !errors.Is(err, store.ErrKey) {
				t.Errorf("Store(%q): got %v", key, err)
			}
			if s.Exists(t.Context(), key) {
				t.Errorf("%q exists", key)
			}
			if err := s.Lock(t.Context(), key); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("Lock(%q): got %v", key, err)
			}
		}
		for _, name := range keys {
			if err := s.Lock(t.Context(), name); err != nil {
				t.Fatalf("Lock(%.60q): %v", name, err)
			}
			defer func() {
				if err := s.Unlock(t.Context(), name); err != nil {
					t.Errorf("Unlock(%.60q): %v", name, err)
				}
			}()
		}
	})
}

// The locks of the store are neither values of the storage, nor are its values locks.
func TestLocksAreNoValues(t *testing.T) {
	eachStore(t, func(t *testing.T, st store.Store) {
		s := open(t, st)
		put(t, s, "storage_clean")
		if err := s.Lock(t.Context(), "storage_clean"); err != nil {
			t.Fatal(err)
		}
		wantList(t, s, "", true, "storage_clean")
		client, err := lease.New(st, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, err := range client.List(t.Context(), "") {
			if err != nil || name != "certmagic/storage_clean" {
				t.Errorf("got the lock %q, %v", name, err)
			}
		}
		if err := s.Delete(t.Context(), "storage_clean"); err != nil {
			t.Fatal(err)
		}
		if err := s.Unlock(t.Context(), "storage_clean"); err != nil {
			t.Error(err)
		}
	})
}

func TestTooLarge(t *testing.T) {
	s := open(t, &memstore.Store{})
	put(t, s, "a")
	err := s.Store(t.Context(), "a", make([]byte, store.MaxValue))
	if !errors.Is(err, store.ErrTooLarge) || store.OutcomeOf(err) != store.NotApplied || !strings.Contains(err.Error(), "65536 bytes") {
		t.Errorf("got %v", err)
	}
	wantValue(t, s, "a", "value of a")
	if err := s.Store(t.Context(), "a", make([]byte, store.MaxValue-1<<10)); err != nil {
		t.Errorf("a value of 63 KiB: %v", err)
	}
}

// golden is a register as the first release writes it, and as a later release could write it.
const golden = `{"certstore":1,"key":"a/b.key","lock":"issue_cert_a","modified":"2026-11-24T22:00:00.5Z","token":7%s}` + "\nthe value\n{}"

func TestFormat(t *testing.T) {
	var st memstore.Store
	s := open(t, &st)
	ctx := t.Context()
	const register = "certmagic/a/b.key"
	if _, err := st.Put(ctx, register, "", fmt.Appendf(nil, golden, `,"later":{"x":[1]},"last":null`)); err != nil {
		t.Fatal(err)
	}
	wantValue(t, s, "a/b.key", "the value\n{}")
	info, err := s.Stat(ctx, "a/b.key")
	if want := (certmagic.KeyInfo{Key: "a/b.key", Modified: time.Date(2026, 11, 24, 22, 0, 0, 5e8, time.UTC), Size: 12, IsTerminal: true}); err != nil || info != want {
		t.Errorf("got %+v, %v", info, err)
	}
	put(t, s, "a/b.key")
	data, version, err := st.Get(ctx, register)
	if err != nil {
		t.Fatal(err)
	}
	line, value, _ := strings.Cut(string(data), "\n")
	for _, field := range []string{`"later":{"x":[1]}`, `"last":null`, `"lock":"issue_cert_a"`, `"token":7`, `"certstore":1`, `"key":"a/b.key"`} {
		if !strings.Contains(line, field) {
			t.Errorf("after a write, the field %s is missing in %s", field, line)
		}
	}
	if value != "value of a/b.key" || strings.Contains(line, "22:00:00") {
		t.Errorf("got %s", data)
	}

	// What a Storage cannot read, it neither takes for an absent key nor overwrites.
	for _, bad := range []string{
		strings.Replace(fmt.Sprintf(golden, ""), `"certstore":1`, `"certstore":2`, 1), strings.Replace(fmt.Sprintf(golden, ""), "b.key", "c.key", 1),
		"", "{}", "\n", "null\n", "[1]\nx", `{"certstore":"1"}` + "\n", `{"certstore":1,"key":"a/b.key"}`, `{"holdfast":1}` + "\n", "\x00\xff",
	} {
		if version, err = st.Put(ctx, register, version, []byte(bad)); err != nil {
			t.Fatal(err)
		}
		_, load := s.Load(ctx, "a/b.key")
		_, stat := s.Stat(ctx, "a/b.key")
		for _, err := range []error{load, stat, s.Store(ctx, "a/b.key", nil)} {
			if !errors.Is(err, store.ErrCorrupt) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, lease.ErrNewerFormat) != strings.Contains(bad, ":2") {
				t.Errorf("%q: got %v", bad, err)
			}
		}
		if !s.Exists(ctx, "a/b.key") {
			t.Errorf("%q: it does not exist", bad)
		}
		wantList(t, s, "a", true, "a/b.key")
		if after, _, err := st.Get(ctx, register); err != nil || string(after) != bad {
			t.Errorf("%q became %q, %v", bad, after, err)
		}
	}
	if err := s.Delete(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	wantAbsent(t, s, "a")
}

// The cleaning of certmagic removes an expired certificate, and nothing else.
func TestCleanStorage(t *testing.T) {
	s := open(t, &memstore.Store{})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, end := range map[string]time.Time{"old.com": time.Now().Add(-time.Hour), "new.com": time.Now().Add(time.Hour)} {
		cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-2 * time.Hour), NotAfter: end}
		der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		site := "certificates/ca/" + name + "/" + name
		if err := s.Store(t.Context(), site+".crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})); err != nil {
			t.Fatal(err)
		}
		put(t, s, site+".key", site+".json")
	}
	put(t, s, "ocsp/damaged", "acme/ca/users/a/a.key")
	for range 2 { // the second finds that the first has cleaned
		err := certmagic.CleanStorage(t.Context(), s, certmagic.CleanStorageOptions{OCSPStaples: true, ExpiredCerts: true, Interval: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
	}
	const site = "certificates/ca/new.com"
	wantList(t, s, "", true, "acme", "acme/ca", "acme/ca/users", "acme/ca/users/a", "acme/ca/users/a/a.key",
		"certificates", "certificates/ca", site, site+"/new.com.crt", site+"/new.com.json", site+"/new.com.key", "last_clean.json")
}

// FuzzRegister reads and replaces any content of a register.
func FuzzRegister(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(golden, "")))
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"certstore":1,"key":"a/b.key","token":1}` + "\n")) // without a lock
	f.Fuzz(func(t *testing.T, data []byte) {
		var st memstore.Store
		if _, err := st.Put(t.Context(), "certmagic/a/b.key", "", data); err != nil {
			return // it is too large
		}
		s := open(t, &st)
		_, err := s.Load(t.Context(), "a/b.key")
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Fatal(err)
		}
		if wrote := s.Store(t.Context(), "a/b.key", []byte("x")); (err == nil) != (wrote == nil) && !errors.Is(wrote, store.ErrTooLarge) {
			t.Fatalf("Load: %v, but Store: %v", err, wrote)
		}
	})
}

// After a lost reply, the Storage finds out whether its write was applied.
func TestLostReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		schedule := faultstore.MustParse("put * %0.2 lose; put * %0.1 late 1s; put * %0.2 fail; delete * %0.3 lose; delete * %0.2 fail; seed 7")
		var inner memstore.Store
		faulty := faultstore.New(&inner, schedule)
		storages := []*certstore.Storage{open(t, faulty), open(t, faulty), open(t, faulty)}
		var all sync.WaitGroup
		for n, s := range storages {
			all.Go(func() {
				for i := range 50 {
					key := fmt.Sprintf("dir/%d", i%5)
					if err := s.Store(t.Context(), key, fmt.Appendf(nil, "%d of %d", i, n)); err != nil {
						t.Errorf("Store: %v", err)
					}
					if i%5 == n {
						if err := s.Delete(t.Context(), key); err != nil {
							t.Errorf("Delete: %v", err)
						}
					}
				}
			})
		}
		all.Wait()
		if n := len(faulty.Injected().Rules); n < 50 {
			t.Errorf("only %d faults", n)
		}
		// The last writer wins, also if its reply is lost.
		for i := range 50 {
			put(t, storages[0], "own", fmt.Sprint("own", i))
			wantValue(t, storages[1], fmt.Sprint("own", i), fmt.Sprint("value of own", i))
		}
		if err := faulty.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The reply of a write is lost, and another server writes before the first one knows that its write was applied. The
// first server does not write again: the last writer wins.
func TestLostReplyOfAnEarlierWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inner memstore.Store
		faulty := faultstore.New(&inner, faultstore.MustParse("put * #1 lose; get * #2- delay 5s; resolve * delay 5s"))
		mine, theirs := open(t, faulty), open(t, &inner)
		var first sync.WaitGroup
		first.Go(func() { put(t, mine, "key") })
		time.Sleep(time.Second)
		wantValue(t, theirs, "key", "value of key")
		if err := theirs.Store(t.Context(), "key", []byte("theirs")); err != nil {
			t.Fatal(err)
		}
		first.Wait()
		wantValue(t, theirs, "key", "theirs")
	})
}

// Two writers of one key: a reader finds one of the values, whole.
func TestWriters(t *testing.T) {
	eachStore(t, func(t *testing.T, st store.Store) {
		values := []string{strings.Repeat("a", 30<<10), strings.Repeat("b", 40<<10)}
		var all sync.WaitGroup
		for _, value := range values {
			s := open(t, st)
			all.Go(func() {
				for range 20 {
					if err := s.Store(t.Context(), "key", []byte(value)); err != nil {
						t.Error(err)
					}
					got, err := s.Load(t.Context(), "key")
					if err != nil || !slices.Contains(values, string(got)) {
						t.Errorf("got %.20q with %d bytes, %v", got, len(got), err)
					}
				}
			})
		}
		all.Wait()
	})
}

// The store is away at the start, and later. Each call returns an error in time, and all is well afterwards.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inner memstore.Store
		for _, how := range []string{"* * fail", "* * drop", "* * delay 10m"} {
			away := faultstore.MustParse(how)
			faulty := faultstore.New(&inner, away)
			s := open(t, faulty)
			for round := range 2 {
				calls := map[string]func(context.Context) error{
					"Load":    func(ctx context.Context) error { _, err := s.Load(ctx, "a"); return err },
					"Store":   func(ctx context.Context) error { return s.Store(ctx, "a", nil) },
					"Delete":  func(ctx context.Context) error { return s.Delete(ctx, "a") },
					"Stat":    func(ctx context.Context) error { _, err := s.Stat(ctx, "a"); return err },
					"List":    func(ctx context.Context) error { _, err := s.List(ctx, "a", true); return err },
					"Lock":    func(ctx context.Context) error { return s.Lock(ctx, "a") },
					"TryLock": func(ctx context.Context) error { _, err := s.TryLock(ctx, "a"); return err },
				}
				for name, call := range calls {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
					start := time.Now()
					if err := call(ctx); err == nil || errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%s, %s: got %v", how, name, err)
					}
					// Reads end with their context. Writes and locks have bounds of their own.
					if took := time.Since(start); took > 2*time.Minute+10*time.Second {
						t.Errorf("%s, %s took %v", how, name, took)
					}
					cancel()
				}
				start := time.Now()
				if s.Exists(t.Context(), "a") {
					t.Error("a exists")
				}
				if took := time.Since(start); took > 11*time.Second {
					t.Errorf("%s, Exists took %v", how, took)
				}
				faulty.Set(faultstore.Schedule{})
				time.Sleep(11 * time.Minute) // late requests arrive
				put(t, s, "a")
				if err := s.Lock(t.Context(), "a"); err != nil {
					t.Errorf("%s, round %d: the lock is not free: %v", how, round, err)
				} else if err := s.Unlock(t.Context(), "a"); err != nil {
					t.Error(err)
				}
				faulty.Set(away)
			}
			faulty.Set(faultstore.Schedule{})
			if err := s.Delete(t.Context(), "a"); err != nil {
				t.Error(err)
			}
			if err := faulty.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// Exists cannot return an error, so it reads again after a failed read.
func TestExistsAfterFailedReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inner memstore.Store
		put(t, open(t, &inner), "a")
		s := open(t, faultstore.New(&inner, faultstore.MustParse("get * #1-5 fail")))
		if !s.Exists(t.Context(), "a") {
			t.Error("a does not exist after five failed reads")
		}
	})
}

// A context that has ended before the call: nothing is changed, and nothing stays locked.
func TestEndedContext(t *testing.T) {
	eachStore(t, func(t *testing.T, st store.Store) {
		s := open(t, st)
		put(t, s, "a")
		cause := errors.New("the cause")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, load := s.Load(ctx, "a")
		_, stat := s.Stat(ctx, "a")
		_, list := s.List(ctx, "", true)
		_, try := s.TryLock(ctx, "l")
		for name, err := range map[string]error{
			"Load": load, "Stat": stat, "List": list, "Store": s.Store(ctx, "a", []byte("new")), "Delete": s.Delete(ctx, "a"),
			"Lock": s.Lock(ctx, "l"), "TryLock": try,
		} {
			if !errors.Is(err, context.Canceled) && !errors.Is(err, cause) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if s.Exists(ctx, "a") {
			t.Error("Exists reports true without a read")
		}
		wantValue(t, s, "a", "value of a")
		// A context that ends after the call changes nothing.
		live, cancelLater := context.WithCancel(t.Context())
		if err := s.Lock(live, "l"); err != nil {
			t.Fatal(err)
		}
		cancelLater()
		if err := s.RenewLockLease(t.Context(), "l", time.Minute); err != nil {
			t.Error(err)
		}
		if err := s.RenewLockLease(ctx, "l", time.Minute); err == nil {
			t.Error("RenewLockLease: got no error")
		}
		if err := s.Unlock(ctx, "l"); err != nil {
			t.Errorf("Unlock after the end of its context: %v", err)
		}
		if ok, err := open(t, st).TryLock(t.Context(), "l"); !ok || err != nil {
			t.Errorf("the lock is not free: %t, %v", ok, err)
		}
	})
}

func TestOptions(t *testing.T) {
	for _, bad := range []lease.Options{{ManualRenewal: true}, {TTL: time.Nanosecond}, {KeyPrefix: "certmagic"}, {KeyPrefix: "certmagic/locks"}} {
		if _, err := certstore.New(&memstore.Store{}, &bad); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: got %v", bad, err)
		}
	}
	if _, err := certstore.New(struct{ store.Store }{&memstore.Store{}}, nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
	opts := lease.Options{Holder: "me", KeyPrefix: "certmagic-locks"}
	before := opts
	if _, err := certstore.New(&memstore.Store{}, &opts); err != nil || !reflect.DeepEqual(opts, before) {
		t.Errorf("got %v, and the options are %+v", err, opts)
	}
}
