package dashboard

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// The default and the largest values of [Options].
const (
	DefaultRequestsPerMinute      = 600
	DefaultLocalRequestsPerMinute = 6000
	DefaultInterval               = 2 * time.Second
	DefaultMaxPages               = 200

	maxRequestsPerMinute = 60_000
	maxInterval          = time.Hour
	maxPages             = 10_000
)

// Options are the options of a [Page]. Nil and the zero value mean all defaults.
type Options struct {
	// Prefix selects the locks that the page shows: the lock with that name, and all locks below it.
	// Default: all locks.
	Prefix string

	// KeyPrefix is lease.Options.KeyPrefix of the programs that use the locks. Default "lock".
	KeyPrefix string

	// MaxClockDrift is lease.Tuning.MaxClockDrift of these programs. Default 0.01.
	MaxClockDrift float64

	// CheckpointPrefix is checkpoint.Options.KeyPrefix of the programs that save checkpoints.
	// Default "checkpoint".
	CheckpointPrefix string

	// RequestsPerMinute bounds the requests to the store, for all pages together, from 1 to 60,000.
	// A listing counts as the number of reads that cost as much, if the store states its cost (see
	// [store.ListCost]), and otherwise as one request for each 100 names. Default 600, or 6,000 on a
	// store that is reached without a network.
	RequestsPerMinute int

	// Interval is the shortest time between two listings of the store, at most 1 h. Default 2 s.
	Interval time.Duration

	// MaxPages bounds the number of open pages that are updated, at most 10,000. A further page
	// shows its state without updates. Default 200.
	MaxPages int

	// StoreURL is the argument of --store in the command lines that the page shows. It must contain
	// no secret. Default: the name in the traits of the store.
	StoreURL string

	// Logs are the commit logs that the page shows.
	Logs []Log

	// Doctor examines the store, and returns a report for people. The page calls it once, in the
	// background, within five minutes. Default: the page shows the command line of the examination.
	Doctor func(ctx context.Context) (string, error)

	// Panels are further tables, for example the reports of sweeps of large items.
	Panels []Panel

	// Metrics is the handler of the path metrics. Default: there is no such path.
	Metrics http.Handler
}

// Log is a commit log with the checkpoints of the programs that read it.
type Log struct {
	Name      string
	Log       *object.Log
	Followers []string // keys of checkpoints, whose sequence is the number of the last entry that was read
}

// Panel is a table of texts. Read is called about every ten seconds while a page shows the panel, and
// must return within ten seconds.
type Panel struct {
	Title string
	Read  func(ctx context.Context) (PanelTable, error)
}

// PanelTable is the content of a [Panel].
type PanelTable struct {
	Note string // a sentence above the table
	Head []string
	Rows [][]string // at most 1,000 are shown
}

// Page is the handler of the page. Any number of goroutines may use it.
type Page struct {
	o       Options
	st      store.Store
	traits  store.Traits
	r       *reader
	renders renderCache
	pages   chan struct{} // has an element for each open page
	mux     *http.ServeMux
}

// New returns a page that shows the locks of a store. It sends no request. If an option is not valid,
// the error matches [store.ErrInvalid].
func New(st store.Store, o *Options) (*Page, error) {
	p := &Page{st: st, traits: store.TraitsOf(st), o: *cmp.Or(o, &Options{})}
	rate := DefaultRequestsPerMinute
	if p.traits.Local {
		rate = DefaultLocalRequestsPerMinute
	}
	p.o.RequestsPerMinute = cmp.Or(p.o.RequestsPerMinute, rate)
	p.o.Interval = cmp.Or(p.o.Interval, DefaultInterval)
	p.o.MaxPages = cmp.Or(p.o.MaxPages, DefaultMaxPages)
	p.o.MaxClockDrift = cmp.Or(p.o.MaxClockDrift, lease.DefaultMaxClockDrift)
	p.o.KeyPrefix = cmp.Or(p.o.KeyPrefix, "lock")
	p.o.CheckpointPrefix = cmp.Or(p.o.CheckpointPrefix, "checkpoint")
	p.o.StoreURL = cmp.Or(p.o.StoreURL, p.traits.Name)
	p.o.Prefix = strings.TrimSuffix(p.o.Prefix, "/")
	switch {
	case p.o.RequestsPerMinute < 1 || p.o.RequestsPerMinute > maxRequestsPerMinute:
		return nil, fmt.Errorf("%w: RequestsPerMinute must be from 1 to %d, not %d", store.ErrInvalid, maxRequestsPerMinute, p.o.RequestsPerMinute)
	case p.o.Interval < time.Millisecond || p.o.Interval > maxInterval:
		return nil, fmt.Errorf("%w: Interval must be from 1 ms to %v, not %v", store.ErrInvalid, maxInterval, p.o.Interval)
	case p.o.MaxPages < 1 || p.o.MaxPages > maxPages:
		return nil, fmt.Errorf("%w: MaxPages must be from 1 to %d, not %d", store.ErrInvalid, maxPages, p.o.MaxPages)
	}
	for _, prefix := range []string{p.o.Prefix, p.o.KeyPrefix, p.o.CheckpointPrefix} {
		if _, err := store.Below(prefix); err != nil {
			return nil, err
		}
	}
	locks, err := lease.New(st, &lease.Options{KeyPrefix: p.o.KeyPrefix, TTL: max(30*time.Second, p.traits.MinTTL), NoPresence: true, Tuning: lease.Tuning{MaxClockDrift: p.o.MaxClockDrift}})
	if err != nil {
		return nil, err
	}
	checkpoints, err := checkpoint.New(st, &checkpoint.Options{KeyPrefix: p.o.CheckpointPrefix})
	if err != nil {
		return nil, err
	}
	p.r = newReader(p, locks, checkpoints)
	p.pages = make(chan struct{}, p.o.MaxPages)
	p.routes()
	go p.r.run()
	return p, nil
}

// Close ends all open pages, and waits until no request to the store is in progress. The page then
// answers with status 503.
func (p *Page) Close() error {
	p.r.cancel()
	<-p.r.done
	return nil
}

//go:embed web
var web embed.FS

func (p *Page) routes() {
	p.mux = http.NewServeMux()
	for _, kind := range kinds {
		path := "/" + kind
		if kind == kindLocks {
			path = "/{$}"
		}
		p.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { p.servePage(w, r, kind) })
	}
	p.mux.HandleFunc("GET /events", p.serveEvents)
	p.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	for name, kind := range map[string]string{"app.js": "text/javascript", "app.css": "text/css", "icon.svg": "image/svg+xml"} {
		content, err := web.ReadFile("web/" + name)
		if err != nil {
			panic(err) // it is embedded
		}
		p.mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind+"; charset=utf-8")
			w.Header().Set("Cache-Control", "no-cache")
			_, _ = w.Write(content)
		})
	}
	if p.o.Metrics != nil {
		p.mux.Handle("GET /metrics", p.o.Metrics)
	}
}

// securityPolicy forbids everything but the files of the page itself.
const securityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP serves the page, its script, its style sheet and its events. The paths are /, /lock,
// /checkpoints, /logs, /reports, /store, /events, /healthz and, with Options.Metrics, /metrics. All
// links are relative, so that the handler works below any path that ends with a slash.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", securityPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if p.r.ctx.Err() != nil {
		http.Error(w, "the page is closed", http.StatusServiceUnavailable)
		return
	}
	p.mux.ServeHTTP(w, r)
}
