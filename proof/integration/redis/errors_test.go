package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/redis/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// refused reports whether an error is one line that matches a sentinel, proves that nothing was written, and
// says what to do.
func refused(err, sentinel error, advice string) bool {
	return errors.Is(err, sentinel) && store.OutcomeOf(err) == store.NotApplied && strings.Contains(err.Error(), advice) && !strings.Contains(err.Error(), "\n")
}

// put creates a register at a URL.
func put(t *testing.T, url string) error {
	t.Helper()
	_, err := open(t, url).Put(t.Context(), servers.Unique("key"), "", []byte("v"))
	return err
}

// do sends commands that must succeed.
func do(t *testing.T, server *servers.Redis, commands ...string) {
	t.Helper()
	c := server.Client(t)
	for _, command := range commands {
		var args []any
		for _, arg := range strings.Fields(command) {
			args = append(args, arg)
		}
		if err := c.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
	}
}

// TestSettings: a setting that can lose a lock is refused before the first write, and the URL can accept it
// by name.
func TestSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		risk    redisstore.Risk
		setting string
	}{
		{redisstore.NoLog, "appendonly no"},
		{redisstore.LateSync, "appendfsync everysec"},
		{redisstore.LateSync, "appendfsync no"},
		{redisstore.NoSyncOnRewrite, "no-appendfsync-on-rewrite yes"},
		{redisstore.Eviction, "maxmemory-policy allkeys-lru"},
	} {
		t.Run(c.setting, func(t *testing.T) {
			t.Parallel()
			server := servers.NewRedis(t)
			url := "redis://" + server.Address()
			if err := put(t, url); err != nil {
				t.Fatalf("with the settings of the tests: %v", err)
			}
			do(t, server, "CONFIG SET "+c.setting)
			if err := put(t, url); !refused(err, store.ErrUnsafe, "unsafe="+string(c.risk)) {
				t.Errorf("refused with %v (%v)", err, store.OutcomeOf(err))
			}
			for _, risk := range redisstore.Risks {
				if err := put(t, url+"?unsafe="+string(risk)); (err == nil) != (risk == c.risk) {
					t.Errorf("unsafe=%s: %v", risk, err)
				}
			}
		})
	}
	t.Run("volatile", func(t *testing.T) {
		t.Parallel()
		server := servers.NewRedis(t)
		do(t, server, "CONFIG SET maxmemory-policy volatile-lru") // registers have no time to live
		if err := put(t, "redis://"+server.Address()); err != nil {
			t.Error(err)
		}
	})
}

// TestRights: the rights that the documents list suffice. Without one of them, the error says
// where they are listed. A user who may not read the settings must accept what cannot be known.
func TestRights(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t)
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("a-long-password\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rights := "+getrange +exists +set +evalsha +eval +publish +subscribe +ping +scan +strlen +info +config|get"
	user := func(name, rights string) string {
		do(t, server, "ACL SETUSER "+name+" reset on >a-long-password ~holdfast:* &holdfast:* "+rights)
		return "redis://" + server.Address() + "/0/rights?user=" + name + "&password_file=" + file
	}
	url := user("all", rights)
	if err := put(t, url); err != nil {
		t.Fatal(err)
	}
	st, ctx := open(t, url), t.Context()
	var keys []string
	for key, err := range st.List(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	if len(keys) != 1 {
		t.Errorf("listed %q", keys)
	}
	if took := woken(t, st, open(t, url), ""); took > 2*time.Second {
		t.Errorf("a wake-up took %v", took)
	}
	for _, right := range strings.Fields("+getrange +exists +set +evalsha +eval +info") {
		do(t, server, "SCRIPT FLUSH")
		url := user("without", strings.ReplaceAll(" "+rights+" ", " "+right+" ", " "))
		if err := put(t, url); !refused(err, store.ErrDenied, "") || strings.Contains(err.Error(), "a-long-password") {
			t.Errorf("without %s: %v (%v)", right, err, store.OutcomeOf(err))
		}
	}
	url = user("unknown", strings.ReplaceAll(rights, "+config|get", ""))
	if err := put(t, url); !refused(err, store.ErrUnsafe, "+config|get") {
		t.Errorf("a user who may not read the settings: %v", err)
	}
	if err := put(t, url+"&unsafe=appendfsync,no-appendfsync-on-rewrite"); err != nil {
		t.Errorf("a user who accepts what cannot be known: %v", err)
	}
	if err := put(t, user("silent", strings.ReplaceAll(rights, "+publish", ""))); err != nil {
		t.Errorf("a user who may not publish: %v", err)
	}
}

// TestBadServers: one line says what is wrong, nothing is written, and no password is shown.
func TestBadServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte("the-right-password"), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(dir, "wrong")
	if err := os.WriteFile(wrong, []byte("the-wrong-password"), 0o600); err != nil {
		t.Fatal(err)
	}
	locked := servers.NewRedis(t, "--requirepass", "the-right-password").Address()
	plainServer := servers.NewRedis(t)
	plain := plainServer.Address()
	replicaServer := servers.NewRedis(t)
	replica := replicaServer.Address()
	do(t, replicaServer, "REPLICAOF "+strings.ReplaceAll(plain, ":", " "))
	ca, key := servers.Certificate(t)
	other, _ := servers.Certificate(t)
	secure := servers.NewRedisTLS(t, ca, key).Address()
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)

	if err := put(t, "redis://"+locked+"?password_file="+secret); err != nil {
		t.Errorf("the right password: %v", err)
	}
	if err := put(t, "rediss://"+secure+"?cacert="+ca); err != nil {
		t.Errorf("the right certificate: %v", err)
	}
	for _, c := range []struct {
		name, url, advice string
		sentinel          error
	}{
		{"no password", "redis://" + locked, "REDIS_PASSWORD", store.ErrCredentials},
		{"wrong password", "redis://" + locked + "?password_file=" + wrong, "REDIS_PASSWORD", store.ErrCredentials},
		{"unknown user", "redis://" + locked + "?user=nobody&password_file=" + wrong, "parameter user", store.ErrCredentials},
		{"unknown authority", "rediss://" + secure, "cacert", store.ErrMisconfigured},
		{"another authority", "rediss://" + secure + "?cacert=" + other, "cacert", store.ErrMisconfigured},
		{"TLS to a server without it", "rediss://" + plain + "?timeout=300ms", "write redis://", store.ErrUnavailable},
		{"no TLS to a server that wants it", "redis://" + secure, "rediss://", store.ErrUnavailable},
		{"another kind of server", "redis://" + web.Listener.Addr().String(), "not Redis", store.ErrMisconfigured},
		{"a replica", "redis://" + replica, "primary server", store.ErrMisconfigured},
		{"no cluster", "redis://" + plain + "?cluster=true", "remove cluster=true", store.ErrMisconfigured},
		{"no such database", "redis://" + plain + "/77", "databases", store.ErrMisconfigured},
	} {
		err := put(t, c.url)
		if !refused(err, c.sentinel, c.advice) || strings.Contains(err.Error(), "-password") {
			t.Errorf("%s: %v (%v)", c.name, err, store.OutcomeOf(err))
		}
	}
}

// TestRefusedWrites: the server refuses writes after the first one, and each refusal proves that nothing was
// written.
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "dump.rdb"), 0o700); err != nil { // so that no snapshot can be saved
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, advice string
		args         []string
		refuse       func(*servers.Redis)
	}{
		{"MISCONF", "cannot write to its disk", []string{"--dir", dir, "--save", "3600 1"}, func(s *servers.Redis) {
			do(t, s, "BGSAVE")
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				if text, _ := s.Client(t).Info(t.Context(), "persistence").Result(); strings.Contains(text, "rdb_last_bgsave_status:err") {
					return
				}
			}
			t.Error("the snapshot did not fail")
		}},
		{"OOM", "memory of the server is full", nil, func(s *servers.Redis) { do(t, s, "CONFIG SET maxmemory 1") }},
		{"READONLY", "primary server", nil, func(s *servers.Redis) { do(t, s, "REPLICAOF 127.0.0.1 1") }},
		{"NOREPLICAS", "min-replicas-to-write", nil, func(s *servers.Redis) { do(t, s, "CONFIG SET min-replicas-to-write 1") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := servers.NewRedis(t, c.args...)
			st, ctx := open(t, "redis://"+server.Address()), t.Context()
			v, err := st.Put(ctx, "k", "", []byte("v"))
			if err != nil {
				t.Fatal(err)
			}
			c.refuse(server)
			if _, err := st.Put(ctx, "k", v, []byte("w")); !refused(err, store.ErrUnavailable, c.advice) || !strings.Contains(err.Error(), c.name) {
				t.Errorf("%v (%v)", err, store.OutcomeOf(err))
			}
			if value, _, err := st.Get(ctx, "k"); err != nil || string(value) != "v" {
				t.Errorf("the register has %q, %v", value, err)
			}
		})
	}
}

// TestForeignKeys: what other programs have written under a key is reported and not written over. It is
// never read whole.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t)
	st, ctx, raw := open(t, "redis://"+server.Address()+"/0/foreign"), t.Context(), server.Client(t)
	if _, err := st.Put(ctx, "good", "", []byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	good, err := raw.Get(ctx, "holdfast:foreign/good").Result()
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{
		"text": "not a register", "empty": "", "huge": strings.Repeat("x", 50_000_000),
		"spaces": strings.Replace(good, ":1,", ": 1,", 1), "cut": good[:len(good)/2], "version": strings.Replace(good, ":1,", ":2,", 1),
	}
	for key, text := range texts {
		if err := raw.Set(ctx, "holdfast:foreign/"+key, text, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := raw.RPush(ctx, "holdfast:foreign/list", "x").Err(); err != nil {
		t.Fatal(err)
	}
	all := []string{"list"}
	for key := range texts {
		all = append(all, key)
	}
	for _, key := range all {
		if _, _, err := st.Get(ctx, key); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %.300v", key, err)
		}
		if _, err := st.Put(ctx, key, "", []byte("v")); !refused(err, store.ErrCorrupt, "") {
			t.Errorf("%s was written over, or its error is no proof: %.300v", key, err)
		}
	}
	var keys []string
	for key, err := range st.List(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	if all = append(all, "good"); !slices.Equal(keys, slices.Sorted(slices.Values(all))) {
		t.Errorf("listed %q", keys)
	}
}

// TestListPatterns: a prefix with the characters of a pattern lists its own keys alone.
func TestListPatterns(t *testing.T) {
	t.Parallel()
	st, ctx := open(t, "redis://"+servers.NewRedis(t).Address()), t.Context()
	prefixes := []string{"a*", "a?", "[ab]", `a\`, `a\*`, "ab", "a", "{a}", "a]", "^a", "a-b"}
	for _, p := range prefixes {
		if _, err := st.Put(ctx, p+"/key", "", nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range prefixes {
		var keys []string
		for key, err := range st.List(ctx, p) {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, key)
		}
		if !slices.Equal(keys, []string{p + "/key"}) {
			t.Errorf("%q: listed %q", p, keys)
		}
	}
}

// TestRestartDuringListing: after a restart, a server has its keys in another order, and the cursor of a listing means
// another place. The listing fails.
func TestRestartDuringListing(t *testing.T) {
	t.Parallel()
	server, ctx := servers.NewRedis(t), t.Context()
	proxy := servers.NewTCPProxy(t, server.Address, func() (before, after bool) { return false, false })
	st, keys := open(t, "redis://"+proxy.Address), server.Client(t).Pipeline()
	for i := range 5000 {
		keys.Set(ctx, fmt.Sprint("holdfast:k", i), "", 0)
	}
	if _, err := keys.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	for _, restart := range []bool{false, true} {
		n, failed := 0, error(nil)
		for _, failed = range st.List(ctx, "") {
			if n++; n == 10 && restart {
				server.Kill()
				if err := server.Start(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		if restart && !errors.Is(failed, store.ErrUnavailable) || !restart && (failed != nil || n != 5000) {
			t.Errorf("with a restart %v: %d of 5000 keys, %v", restart, n, failed)
		}
	}
}

// TestScriptFlush: the server forgets the script between two writes, and restarts without it.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t)
	st, ctx := open(t, "redis://"+server.Address()), t.Context()
	var v store.Version
	for range 3 {
		var err error
		if v, err = st.Put(ctx, "k", v, []byte("v")); err != nil {
			t.Fatal(err)
		}
		do(t, server, "SCRIPT FLUSH")
	}
	if left, err := server.Client(t).TTL(ctx, "holdfast:k").Result(); err != nil || left != -1 {
		t.Errorf("the key has a time to live: %v, %v", left, err)
	}
}

// TestDangerousSettings are the controls: a server that can lose a lock does lose it, and a server with the
// demanded settings does not.
func TestDangerousSettings(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, c := range []struct {
		name, parameters string
		args             []string
		kept             bool
	}{
		{"log", "", nil, true},
		{"no log", "?unsafe=appendonly", []string{"--appendonly", "no"}, false},
	} {
		server := servers.NewRedis(t, c.args...)
		v, err := open(t, "redis://"+server.Address()+c.parameters).Put(ctx, "lock", "", []byte("held"))
		if err != nil {
			t.Fatal(err)
		}
		server.Kill()
		if err := server.Start(ctx); err != nil {
			t.Fatal(err)
		}
		_, got, err := open(t, "redis://"+server.Address()).Get(ctx, "lock")
		if kept := err == nil && got == v; kept != c.kept || !kept && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: after kill -9: %v, %v", c.name, got, err)
		}
	}
	for _, c := range []struct {
		policy, parameters string
		kept               bool
	}{
		{"noeviction", "", true},
		{"volatile-lru", "", true},
		{"allkeys-lru", "?unsafe=maxmemory-policy", false},
	} {
		server := servers.NewRedis(t, "--maxmemory", "4mb", "--maxmemory-policy", c.policy)
		st := open(t, "redis://"+server.Address()+c.parameters)
		if _, err := st.Put(ctx, "lock", "", []byte("held")); err != nil {
			t.Fatal(err)
		}
		raw := server.Client(t)
		for range 100 { // 20 MB; from 4 MB on, some policies refuse it
			_, _ = raw.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for range 200 {
					pipe.Set(ctx, servers.Unique("other"), strings.Repeat("x", 1000), 0)
				}
				return nil
			})
		}
		if _, _, err := st.Get(ctx, "lock"); (err == nil) != c.kept {
			t.Errorf("%s: the lock is %v", c.policy, err)
		}
	}
}

// woken returns how long one handle waits until it hears of a write of another. The keys of the writer begin
// with below.
func woken(t *testing.T, waiter, writer *redisstore.Store, below string) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	key := servers.Unique("woken")
	heard := make(chan time.Time, 1)
	go func() {
		if err := waiter.Watch(ctx, key, ""); err != nil {
			t.Error(err)
		}
		heard <- time.Now()
	}()
	time.Sleep(500 * time.Millisecond)
	wrote := time.Now()
	if _, err := writer.Put(ctx, below+key, "", []byte("v")); err != nil {
		t.Fatal(err)
	}
	return (<-heard).Sub(wrote)
}

// TestWakes: waiters hear of writes at once, on one connection. After a lost connection they hear again. The
// connection ends with the last waiter.
func TestWakes(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t)
	url, raw, ctx := "redis://"+server.Address()+"/0/wakes", server.Client(t), t.Context()
	waiter, writer := open(t, url), open(t, url)
	listeners := func() int {
		text, err := raw.Do(ctx, "CLIENT", "LIST", "TYPE", "pubsub").Text()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(text, "\n")
	}
	short, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	for range 20 {
		go func() {
			_ = waiter.Watch(short, "other", "")
			done <- struct{}{}
		}()
	}
	if took := woken(t, waiter, writer, ""); took > time.Second {
		t.Errorf("a wake-up took %v", took)
	}
	if took := woken(t, waiter, open(t, "redis://"+server.Address()), "wakes/"); took > time.Second {
		t.Errorf("a wake-up by a store with another prefix took %v", took)
	}
	if n := listeners(); n != 1 {
		t.Errorf("%d connections of listeners", n)
	}
	do(t, server, "CLIENT KILL TYPE pubsub")
	time.Sleep(2 * time.Second)
	if took := woken(t, waiter, writer, ""); took > time.Second {
		t.Errorf("after a lost connection a wake-up took %v", took)
	}
	cancel()
	for range 20 {
		<-done
	}
	for end := time.Now().Add(5 * time.Second); listeners() != 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the connection of the listener did not end")
		}
	}
}

// TestHungServer: a call returns soon after its context has ended, although the server does not answer.
func TestHungServer(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t)
	st := open(t, "redis://"+server.Address())
	v, err := st.Put(t.Context(), "k", "", []byte("v"))
	if err != nil {
		t.Fatal(err)
	}
	do(t, server, "CLIENT PAUSE 4000 ALL")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	began := time.Now()
	_, err = st.Put(ctx, "k", v, []byte("w"))
	if took := time.Since(began); took > 2*time.Second || err == nil || store.OutcomeOf(err) != store.Unknown {
		t.Errorf("after %v: %v (%v)", took, err, store.OutcomeOf(err))
	}
}
