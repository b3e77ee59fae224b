package metrics

import (
	"cmp"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/observe/metrics/promtext"
	"github.com/holdfast-go/holdfast/store"
)

// DefaultMaxLabels is the default of [Options.MaxLabels].
const DefaultMaxLabels = 100

// Other is the label of the locks for which [Options.MaxLabels] leaves no value.
const Other = "other"

// maxLabel is the longest value of a label, in bytes.
const maxLabel = 256

// Options configures [New]. The zero value of each field means its default.
type Options struct {
	// Store is the label store of all metrics, for people. Default: none.
	Store string

	// Label returns the label of the lock with that name. It must return soon, and must be safe for
	// use by several goroutines. A value of more than 256 bytes counts as [Other]. Default
	// [ByPrefix].
	Label func(name string) string

	// MaxLabels is how many values the label lock has at most. All further values become
	// [Other]. Default [DefaultMaxLabels].
	MaxLabels int
}

// ByPrefix is the default of [Options.Label]: all locks below a slash have one label. The label of
// "jobs/nightly" is "jobs/*", and the label of "nightly" is "*".
func ByPrefix(name string) string { return name[:strings.LastIndexByte(name, '/')+1] + "*" }

// ByName gives each lock its name as its label. Use it if the program has few locks.
func ByName(name string) string { return name }

// Metrics counts what one client of leases and its store do. Any number of goroutines may use it.
type Metrics struct {
	label     func(string) string
	maxLabels int
	store     string // the label, as text

	requests map[store.Kind]*requests // never changed

	mu   sync.Mutex // never held during I/O, or while a function of the caller runs
	set  promtext.Set
	seen []func() (Seen, bool)
	locks
}

// New returns Metrics without values. Nil options mean all defaults.
func New(o *Options) *Metrics {
	o = cmp.Or(o, &Options{})
	m := &Metrics{label: o.Label, maxLabels: o.MaxLabels, store: promtext.Labels("store", o.Store), requests: map[store.Kind]*requests{}}
	if m.label == nil {
		m.label = ByPrefix
	}
	if m.maxLabels <= 0 {
		m.maxLabels = DefaultMaxLabels
	}
	for _, kind := range store.Kinds() {
		m.requests[kind] = &requests{}
	}
	m.locks.init()
	m.set.Add(promtext.EventsDropped, "", 0)
	m.set.Add(promtext.Unresponsive, "", 0)
	return m
}

// Seen is what a reader of a store knows of the locks of all clients.
type Seen struct {
	Held       int           // locks that clients hold
	Waiting    int           // clients in the queues of locks
	Unreadable int           // records that cannot be read
	Shortest   time.Duration // until the first lease ends without a renewal; math.MaxInt64 if that is not known
	Age        time.Duration // since the last successful read
}

// AddSeen makes m also write what read returns, unless ok is false. Each scrape calls read, which
// should return what is known and send no request.
func (m *Metrics) AddSeen(read func() (seen Seen, ok bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = append(m.seen, read)
}

// collect adds the present values to a set.
func (m *Metrics) collect(into *promtext.Set) {
	var now promtext.Set
	m.mu.Lock()
	m.gauges(&now, time.Now())
	into.AddAll(&m.set, m.store)
	readers := m.seen[:len(m.seen):len(m.seen)]
	m.mu.Unlock()
	for kind, r := range m.requests {
		r.collect(&now, kind)
	}
	for _, read := range readers {
		seen, ok := read()
		if !ok {
			continue
		}
		now.Add(promtext.SeenHeld, "", float64(seen.Held))
		now.Add(promtext.SeenWaiting, "", float64(seen.Waiting))
		now.Add(promtext.SeenUnreadable, "", float64(seen.Unreadable))
		now.PutLeast(promtext.SeenAge, "", seen.Age.Seconds())
		if seen.Held > 0 && seen.Shortest < math.MaxInt64 {
			now.PutLeast(promtext.SeenShortestLease, "", max(seen.Shortest, 0).Seconds())
		}
	}
	into.AddAll(&now, m.store)
}

// WriteTo writes the present values in the text format of Prometheus. It implements [io.WriterTo].
// A slow writer delays nothing else.
func (m *Metrics) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(text(m))
	return int64(n), err
}

// text returns the present values of all. No mutex is held when it returns.
func text(all ...*Metrics) []byte {
	set := Collect(all...)
	return set.AppendText(nil)
}

// ServeHTTP answers a scrape of Prometheus. The metrics contain labels of locks, and no names of
// holders and no secrets. ServeHTTP does not authenticate the caller.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { Handler(m).ServeHTTP(w, r) }

// scrapeTimeout is how long a scraper may take to read an answer.
const scrapeTimeout = 10 * time.Second

// Handler returns a handler that serves the metrics of several clients together. If two of them have
// the same labels, it adds their values.
func Handler(all ...*Metrics) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "metrics can only be read", http.StatusMethodNotAllowed)
			return
		}
		answer := text(all...)
		// A scraper that does not read must not keep the answer in memory. Not every
		// ResponseWriter can have a deadline.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(scrapeTimeout))
		h := w.Header()
		h.Set("Content-Type", promtext.ContentType)
		h.Set("Content-Length", strconv.Itoa(len(answer)))
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(answer) // if it fails, the scraper has closed the connection
	})
}
