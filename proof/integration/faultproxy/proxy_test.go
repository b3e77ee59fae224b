package faultproxy_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/proof/integration/faultproxy"
)

// upstream counts what reaches it and answers with the number of the request.
type upstream struct {
	mu   sync.Mutex
	seen []string // "METHOD URI BODY"
	host string
	head http.Header
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	u.seen = append(u.seen, r.Method+" "+r.RequestURI+" "+string(body))
	u.host, u.head = r.Host, r.Header
	n := len(u.seen)
	u.mu.Unlock()
	w.Header().Set("X-Number", strconv.Itoa(n))
	w.WriteHeader(http.StatusAccepted)
	io.WriteString(w, "answer "+strconv.Itoa(n))
}

func (u *upstream) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.seen)
}

// await waits until n requests have reached the server.
func (u *upstream) await(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); u.count() < n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d requests reached the server, want %d", u.count(), n)
		}
	}
}

func setUp(t *testing.T) (*upstream, *faultproxy.Proxy) {
	u := &upstream{}
	server := httptest.NewServer(u)
	t.Cleanup(server.Close)
	return u, faultproxy.New(t, server.URL)
}

// put sends a PUT and returns the answer's body, or the error.
func put(ctx context.Context, url string) (string, int, error) {
	req, err := http.NewRequestWithContext(ctx, "PUT", url, strings.NewReader("body"))
	if err != nil {
		return "", 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return string(body), res.StatusCode, err
}

// What no rule picks arrives byte for byte, and so does its answer.
func TestPassesOn(t *testing.T) {
	u, p := setUp(t)
	req, _ := http.NewRequest("PUT", p.URL+"/a%2Fb/%7Ec%20d?x=%2B&y", bytes.NewReader([]byte("body")))
	req.Host = "signed.example:81"
	req.Header.Set("Authorization", "AWS4 ...")
	req.Header.Set("If-Match", `"etag"`)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != 202 || string(body) != "answer 1" || res.Header.Get("X-Number") != "1" {
		t.Errorf("got %d %q %v", res.StatusCode, body, res.Header)
	}
	if want := "PUT /a%2Fb/%7Ec%20d?x=%2B&y body"; u.seen[0] != want {
		t.Errorf("the server saw %q, want %q", u.seen[0], want)
	}
	if u.host != "signed.example:81" || u.head.Get("Authorization") != "AWS4 ..." || u.head.Get("If-Match") != `"etag"` {
		t.Errorf("the server saw the host %q and the headers %v", u.host, u.head)
	}
	c := p.Calls()[0]
	if c.N != 1 || c.Status != 202 || len(c.Upstream) != 1 || c.Fault != "" || string(c.Body) != "body" {
		t.Errorf("recorded %+v", c)
	}
}

// Each fault: what the client sees, and how often the server sees the request.
func TestFaults(t *testing.T) {
	const refused = "injected"
	for _, tt := range []struct {
		fault    faultproxy.Fault
		want     string // in the body; empty: the client gets an error
		status   int
		applied  int // before the client has its answer
		eventual int // in the end
	}{
		{faultproxy.Lose(), "", 0, 1, 1},
		{faultproxy.Drop(), "", 0, 0, 0},
		{faultproxy.LoseByReset(), "", 0, 1, 1},
		{faultproxy.Delay(20 * time.Millisecond), "answer 1", 202, 1, 1},
		{faultproxy.DelayReply(20 * time.Millisecond), "answer 1", 202, 1, 1},
		{faultproxy.Repeat(), "answer 2", 202, 2, 2},
		{faultproxy.Echo(50 * time.Millisecond), "answer 1", 202, 1, 2},
		{faultproxy.Late(50 * time.Millisecond), "", 0, 0, 1},
		{faultproxy.Truncate(), "", 0, 1, 1},
		{faultproxy.Refuse(409), refused, 409, 0, 0},
		{faultproxy.Refuse(503), refused, 503, 0, 0},
		{faultproxy.RefuseAfter(500), refused, 500, 1, 1},
	} {
		t.Run(tt.fault.String(), func(t *testing.T) {
			u, p := setUp(t)
			p.Inject(&faultproxy.Rule{Times: 1, Do: tt.fault})
			body, status, err := put(t.Context(), p.URL+"/x")
			applied := u.count()
			switch {
			case tt.want == "" && err == nil:
				t.Errorf("got %d %q, want an error", status, body)
			case tt.want != "" && (err != nil || status != tt.status || !strings.Contains(body, tt.want)):
				t.Errorf("got %d %q %v, want %d %q", status, body, err, tt.status, tt.want)
			}
			if applied < tt.applied || applied > tt.eventual {
				t.Errorf("the server saw the request %d times at the answer, want %d", applied, tt.applied)
			}
			u.await(t, tt.eventual)
			if c := p.Calls()[0]; c.Fault != tt.fault.String() {
				t.Errorf("recorded the fault %q", c.Fault)
			}
			if _, _, err := put(t.Context(), p.URL+"/x"); err != nil {
				t.Errorf("the next request: %v", err)
			}
			if got := u.count(); got != tt.eventual+1 {
				t.Errorf("the server saw %d requests, want %d", got, tt.eventual+1)
			}
		})
	}
}

// A reset looks like one to the client.
func TestResetIsOne(t *testing.T) {
	_, p := setUp(t)
	p.Inject(&faultproxy.Rule{Do: faultproxy.LoseByReset()})
	if _, _, err := put(t.Context(), p.URL); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a connection reset", err)
	}
}

// Hang answers no client. HangLate applies a request after its client has left.
func TestHanging(t *testing.T) {
	for _, tt := range []struct {
		fault    faultproxy.Fault
		eventual int
	}{{faultproxy.Hang(), 0}, {faultproxy.HangLate(20 * time.Millisecond), 1}} {
		u, p := setUp(t)
		p.Inject(&faultproxy.Rule{Do: tt.fault})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, _, err := put(ctx, p.URL)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v: got %v, want the client's own deadline", tt.fault, err)
		}
		u.await(t, tt.eventual)
		p.Close()
		if got := u.count(); got != tt.eventual {
			t.Errorf("%v: the server saw %d requests, want %d", tt.fault, got, tt.eventual)
		}
	}
}

// Closing ends what hangs and drops what is late.
func TestCloseWaitsForNobody(t *testing.T) {
	u, p := setUp(t)
	p.Inject(&faultproxy.Rule{When: faultproxy.Path("/hang"), Do: faultproxy.Hang()},
		&faultproxy.Rule{Do: faultproxy.Late(time.Hour)})
	done := make(chan error, 1)
	go func() {
		_, _, err := put(t.Context(), p.URL+"/hang")
		done <- err
	}()
	_, _, _ = put(t.Context(), p.URL+"/late")
	for p.Count(nil) < 2 {
		time.Sleep(time.Millisecond)
	}
	p.Close()
	if err := <-done; err == nil {
		t.Error("the hanging request got an answer")
	}
	if got := u.count(); got != 0 {
		t.Errorf("the server saw %d requests, want none", got)
	}
}

// Rules pick by what a request is and by its number; the first that acts decides,
// and all count.
func TestRules(t *testing.T) {
	u, p := setUp(t)
	p.Inject(
		&faultproxy.Rule{When: faultproxy.Path("/a"), Skip: 1, Times: 2, Do: faultproxy.Refuse(409)},
		&faultproxy.Rule{When: faultproxy.All(faultproxy.Method("PUT"), faultproxy.Not(faultproxy.Header("If-Match"))), Skip: 3, Times: 1, Do: faultproxy.Refuse(500)},
	)
	var got []int
	for range 6 {
		_, status, err := put(t.Context(), p.URL+"/a")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, status)
	}
	if want := []int{202, 409, 409, 500, 202, 202}; !slices.Equal(got, want) {
		t.Errorf("statuses %v, want %v", got, want)
	}
	if u.count() != 3 {
		t.Errorf("the server saw %d requests, want 3", u.count())
	}
	p.Heal()
	p.Reset()
	if _, status, _ := put(t.Context(), p.URL+"/a"); status != 202 || p.Count(nil) != 1 || p.Calls()[0].N != 7 {
		t.Errorf("after Heal and Reset: status %d, calls %v", status, p.Calls())
	}
}

// Equal seeds choose alike, and different ones do not.
func TestRandomReplays(t *testing.T) {
	run := func(seed uint64) (statuses []int) {
		_, p := setUp(t)
		p.Inject(faultproxy.Random(seed, 0.5, nil, faultproxy.Refuse(409), faultproxy.Refuse(500), faultproxy.Refuse(503)))
		for range 40 {
			_, status, err := put(t.Context(), p.URL)
			if err != nil {
				t.Fatal(err)
			}
			statuses = append(statuses, status)
		}
		return statuses
	}
	a, b, c := run(1), run(1), run(2)
	if !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Errorf("seed 1: %v\nseed 1: %v\nseed 2: %v", a, b, c)
	}
}

// DynamoDB's errors have its form.
func TestRefusesAsDynamoDB(t *testing.T) {
	_, p := setUp(t)
	p.Inject(&faultproxy.Rule{When: faultproxy.Target("PutItem"), Do: faultproxy.Refuse(503)})
	req, _ := http.NewRequest("POST", p.URL, strings.NewReader("{}"))
	req.Header.Set("X-Amz-Target", "DynamoDB_20120810.PutItem")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != 400 || !strings.Contains(string(body), "ProvisionedThroughputExceededException") {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
}
