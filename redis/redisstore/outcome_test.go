package redisstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/redis/redisstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

func TestMain(m *testing.M) {
	logging.Disable() // the client reports each lost connection
	os.Exit(m.Run())
}

// server answers commands by a function; an empty answer closes the connection. It returns its address.
func server(t *testing.T, answer func(args []string) string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := bufio.NewReader(c); ; {
					args, err := command(in)
					if err != nil {
						return
					}
					text := settings(args)
					if text == "" {
						text = answer(args)
					}
					if _, err := io.WriteString(c, text); err != nil || text == "" {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func command(in *bufio.Reader) (args []string, err error) {
	line, err := in.ReadString('\n')
	n, _ := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "*")))
	for range n {
		if line, err = in.ReadString('\n'); err != nil {
			return nil, err
		}
		size, _ := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "$")))
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		args = append(args, string(text[:size]))
	}
	return args, err
}

// settings answers the commands before the first write like a server with safe settings.
func settings(args []string) string {
	switch strings.ToUpper(args[0]) {
	case "HELLO", "CLIENT":
		return "-ERR unknown command\r\n"
	case "INFO":
		text := "role:master\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\n"
		return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	case "CONFIG":
		value := map[string]string{"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}[args[2]]
		if value == "" {
			value = "no"
		}
		return fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(args[2]), args[2], len(value), value)
	}
	return ""
}

// TestOutcomes: what each answer to a write proves. Only replies that the server or the script sends before
// the write prove that nothing was written.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]struct {
		outcome  store.Outcome
		sentinel error
	}{
		"*1\r\n:1\r\n":                                {store.Applied, nil},
		"*2\r\n:0\r\n$-1\r\n":                         {store.NotApplied, nil}, // refused, although nothing is there
		"*2\r\n:0\r\n$5\r\nother\r\n":                 {store.NotApplied, store.ErrCorrupt},
		"-BUSY Redis is busy running a script\r\n":    {store.NotApplied, store.ErrUnavailable},
		"-OOM command not allowed\r\n":                {store.NotApplied, store.ErrUnavailable},
		"-MISCONF Errors writing to the AOF\r\n":      {store.NotApplied, store.ErrUnavailable},
		"-READONLY You can't write\r\n":               {store.NotApplied, store.ErrUnavailable},
		"-LOADING Redis is loading\r\n":               {store.NotApplied, store.ErrUnavailable},
		"-CLUSTERDOWN The cluster is down\r\n":        {store.NotApplied, store.ErrUnavailable},
		"-TRYAGAIN Multiple keys request\r\n":         {store.NotApplied, store.ErrUnavailable},
		"-MOVED 1 127.0.0.1:1\r\n":                    {store.NotApplied, store.ErrMisconfigured},
		"-NOAUTH Authentication required.\r\n":        {store.NotApplied, store.ErrCredentials},
		"-WRONGPASS invalid\r\n":                      {store.NotApplied, store.ErrCredentials},
		"-NOPERM this user has no permissions\r\n":    {store.NotApplied, store.ErrDenied},
		"-WRONGTYPE Operation against a key\r\n":      {store.NotApplied, store.ErrCorrupt},
		"-ERR unknown command 'EVALSHA'\r\n":          {store.NotApplied, store.ErrMisconfigured},
		"-ERR Connection timed out\r\n":               {store.Unknown, store.ErrUnavailable}, // of a proxy
		"-upstream failure\r\n":                       {store.Unknown, store.ErrUnavailable},
		"-ERR Error running script: no one knows\r\n": {store.Unknown, store.ErrUnavailable},
		"":              {store.Unknown, store.ErrUnavailable},
		"*1\r\n:7\r\n":  {store.Unknown, store.ErrUnavailable},
		"*0\r\n":        {store.Unknown, store.ErrUnavailable},
		"+OK\r\n":       {store.Unknown, store.ErrUnavailable},
		"$-1\r\n":       {store.Unknown, store.ErrUnavailable},
		"SSH-2.0-x\r\n": {store.Unknown, store.ErrMisconfigured},
	} {
		t.Run(fmt.Sprintf("%.20q", answer), func(t *testing.T) {
			t.Parallel()
			var evals atomic.Int64
			address := server(t, func(args []string) string {
				if args[0] == "EVALSHA" || args[0] == "EVAL" {
					evals.Add(1)
				}
				return answer
			})
			s, err := redisstore.Open("redis://"+address, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			_, err = s.Put(t.Context(), "k", "", []byte("v"))
			if got := store.OutcomeOf(err); got != want.outcome || want.sentinel != nil && !errors.Is(err, want.sentinel) {
				t.Errorf("%v (%v), want %v, %v", err, got, want.outcome, want.sentinel)
			}
			if n := evals.Load(); n < 1 || n > engine.DefaultTries {
				t.Errorf("the write was sent %d times", n)
			}
		})
	}
}

// TestClusterSendsOnce: the client of a cluster does not send a write again whose reply was lost. By default it
// does, even if its retries are off.
func TestClusterSendsOnce(t *testing.T) {
	t.Parallel()
	var evals atomic.Int64
	var address string
	address = server(t, func(args []string) string {
		switch strings.ToLower(args[0]) {
		case "cluster":
			_, port, _ := net.SplitHostPort(address)
			return "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:" + port + "\r\n$1\r\nx\r\n"
		case "evalsha":
			evals.Add(1)
			return ""
		}
		return "-ERR unknown command\r\n"
	})
	s, err := redisstore.Open("redis://"+address+"?cluster=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Put(t.Context(), "k", "", nil); store.OutcomeOf(err) != store.Unknown {
		t.Errorf("%v", err)
	}
	if n := evals.Load(); n != engine.DefaultTries {
		t.Errorf("the write was sent %d times", n)
	}

	plain := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}, MaxRetries: -1, DisableRoutingPolicies: true}) // the control
	defer plain.Close()
	evals.Store(0)
	if err := plain.EvalSha(t.Context(), "hash", []string{"k"}).Err(); err == nil || evals.Load() < 2 {
		t.Errorf("the control: %v, sent %d times", err, evals.Load())
	}
}

// TestMovedSlot: while the servers of a cluster do not agree which of them has a slot, a write was certainly not
// applied, and the set-up is not wrong: the client repeats it.
func TestMovedSlot(t *testing.T) {
	t.Parallel()
	var address string
	address = server(t, func(args []string) string {
		_, port, _ := net.SplitHostPort(address)
		if strings.EqualFold(args[0], "cluster") {
			return "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:" + port + "\r\n$1\r\nx\r\n"
		}
		return "-MOVED 7629 127.0.0.1:" + port + "\r\n"
	})
	s, err := redisstore.Open("redis://"+address+"?cluster=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Put(t.Context(), "k", "", nil); !errors.Is(err, store.ErrUnavailable) || store.Permanent(err) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("%v (%v)", err, store.OutcomeOf(err))
	}
}

// TestEchoedPassword: an error does not repeat a password that the server repeats, and a closed store says so.
func TestEchoedPassword(t *testing.T) {
	const secret = "correct-horse-battery"
	t.Setenv("REDIS_PASSWORD", secret)
	address := server(t, func(args []string) string {
		return "-ERR unknown command '" + args[0] + "', with args beginning with: '" + strings.Join(args[1:], "' '") + "' '" + secret + "'\r\n"
	})
	s, err := redisstore.Open("redis://"+address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Get(t.Context(), "k"); err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "unknown command") {
		t.Errorf("%v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Put(t.Context(), "k", "", nil); !errors.Is(err, store.ErrClosed) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("after Close: %v", err)
	}
}

// TestNoScript: a server that does not know the script gets the script itself.
func TestNoScript(t *testing.T) {
	t.Parallel()
	var sent []string
	address := server(t, func(args []string) string {
		sent = append(sent, args[0])
		if args[0] == "EVALSHA" {
			return "-NOSCRIPT No matching script. Please use EVAL.\r\n"
		}
		return "*1\r\n:1\r\n"
	})
	s, err := redisstore.Open("redis://"+address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Put(t.Context(), "k", "", []byte("v")); err != nil || strings.Join(sent, " ") != "EVALSHA EVAL" {
		t.Errorf("%v, after %q", err, sent)
	}
}

// TestEndlessListing: a server that never ends a listing, or returns keys outside of the prefix.
func TestEndlessListing(t *testing.T) {
	t.Parallel()
	page := "*2\r\n$1\r\n7\r\n*1000\r\n" + strings.Repeat("$60\r\nholdfast:"+strings.Repeat("x", 51)+"\r\n", 1000)
	address := server(t, func(args []string) string {
		switch args[0] {
		case "scan":
			return page
		case "strlen":
			return ":9\r\n"
		}
		return "-ERR unknown command\r\n"
	})
	s, err := redisstore.Open("redis://"+address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n := 0
	for _, err = range s.List(t.Context(), "") {
		n++
	}
	if !errors.Is(err, store.ErrCorrupt) || n != 2 {
		t.Errorf("%d keys, %v", n, err)
	}
	if _, _, err := s.Get(t.Context(), "k"); !errors.Is(err, store.ErrMisconfigured) {
		t.Errorf("a server without GETRANGE: %v", err)
	}
}

// TestCauseOfContext: if the context of a write ends before the answer, the outcome is unknown. This is so for
// each cause, also for one that says of something else that it was not applied.
func TestCauseOfContext(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{store.ErrConflict, store.ErrDenied, engine.ErrBusy, nil} {
		ctx, cancel := context.WithCancelCause(t.Context())
		address := server(t, func([]string) string {
			cancel(cause)
			<-t.Context().Done()
			return ""
		})
		s, err := redisstore.Open("redis://"+address, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Put(ctx, "k", "", nil); store.OutcomeOf(err) != store.Unknown {
			t.Errorf("the cause %v: %v (%v)", cause, err, store.OutcomeOf(err))
		}
	}
}
