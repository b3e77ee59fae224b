package dashboard

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// The kinds of pages, which are their paths.
const (
	kindLocks       = "locks"
	kindLock        = "lock"
	kindCheckpoints = "checkpoints"
	kindLogs        = "logs"
	kindPanels      = "reports"
	kindStore       = "store"
)

var kinds = []string{kindLocks, kindLock, kindCheckpoints, kindLogs, kindPanels, kindStore}

// templates are parsed when they are first needed: the start of each command would wait for them.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"iso":     func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") },
		"clock":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"clockms": func(ms int64) string { return "until " + time.UnixMilli(ms).UTC().Format("15:04:05 UTC") },
		"ttl":     func(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() },
		"bar":     func(end, ttl int64, of string) any { return bar{end, ttl, of} },
	}).ParseFS(web, "web/page.html"))
})

type bar struct {
	End, TTL int64
	Of       string
}

func execute(name string, data any) template.HTML {
	var b bytes.Buffer
	if err := templates().ExecuteTemplate(&b, name, data); err != nil {
		return template.HTML("<p>" + template.HTMLEscapeString(err.Error()) + "</p>")
	}
	return template.HTML(b.String()) // the result of a template
}

type row struct {
	ID   string
	HTML template.HTML
}

// rendered is the changeable content of one page: parts by the id of their element, and rows.
type rendered struct {
	names []string // of the locks or checkpoints that it shows
	parts map[string]template.HTML
	rows  []row
	list  bool
	query query // with the page that exists
	ready bool  // whether the reader had read all of it
}

// renderCache has the contents of the present round: pages with the same query share them.
type renderCache struct {
	mu    sync.Mutex
	round <-chan struct{} // reader.changed of the round
	pages map[query]*rendered
}

// mostRenders bounds the contents that are kept.
const mostRenders = 64

// render returns the content of a page. It reports whether the reader had read everything that the page shows.
func (p *Page) render(q query) (page *rendered, ready bool) {
	c := &p.renders
	c.mu.Lock()
	defer c.mu.Unlock()
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if c.round != p.r.changed || len(c.pages) >= mostRenders {
		c.round, c.pages = p.r.changed, map[query]*rendered{}
	}
	if page = c.pages[q]; page == nil {
		page = p.renderNow(q, time.Now())
		page.ready = p.r.ready(q, page.names)
		c.pages[q] = page
	}
	return page, page.ready && p.r.ready(q, page.names) // without open pages, a round can last for hours
}

func (p *Page) renderNow(q query, now time.Time) *rendered {
	page := &rendered{parts: map[string]template.HTML{}, query: q}
	var problems []string
	switch q.kind {
	case kindLocks:
		problems = renderTable(p, page, &p.r.locks, "lock", func(name string, e *entry[lock]) (found, bool) {
			return p.findLock(&page.query, now, name, e)
		}, func(name string, e *entry[lock]) row {
			v := p.viewOf(name, e, now)
			return row{v.ID, execute("lockrow", v)}
		})
	case kindCheckpoints:
		problems = renderTable(p, page, &p.r.marks, "checkpoint", func(name string, e *entry[mark]) (found, bool) {
			return findMark(&page.query, name, e)
		}, func(name string, e *entry[mark]) row {
			v := markViewOf(name, e)
			return row{v.ID, execute("markrow", v)}
		})
	case kindLock:
		page.names = []string{q.name}
		page.parts["body"] = execute("lock", p.lockPage(q.name, now))
	case kindLogs:
		page.parts["body"] = execute("logs", p.logViews())
	case kindPanels:
		page.parts["body"] = execute("panels", p.panelViews())
	case kindStore:
		page.parts["body"] = execute("store", p.storeView())
	}
	if h := p.r.health; len(problems) == 0 && h.failed.After(h.answered) {
		problems = append(problems, h.problem)
	}
	page.parts["banner"] = execute("banner", problems)
	return page
}

// renderTable renders the rows of a table that find returns. It returns what is wrong with all keys of the table.
func renderTable[T any](p *Page, page *rendered, t *table[T], what string, find func(string, *entry[T]) (found, bool), rowOf func(string, *entry[T]) row) (problems []string) {
	var matching []found
	all := 0
	for name, e := range t.entries {
		if e.absent {
			continue
		}
		all++
		if f, ok := find(name, e); ok {
			matching = append(matching, f)
		}
	}
	shown, pages := orderOf(matching, &page.query)
	for _, f := range shown {
		page.names = append(page.names, f.name)
		page.rows = append(page.rows, rowOf(f.name, t.entries[f.name]))
	}
	page.list = true
	page.parts["counts"] = execute("counts", p.countsOf(t.complete, all, len(matching), what, page.query))
	page.parts["pager"] = execute("pager", pagerOf(page.query, pages))
	return tableProblems(t, what)
}

// tableProblems says what is wrong with all keys of a table.
func tableProblems[T any](t *table[T], what string) (problems []string) {
	if t.problem != "" {
		text := "The names cannot be listed: " + t.problem + "."
		if t.complete {
			text += " The page shows the state of " + t.listed.UTC().Format("15:04:05 UTC") + "."
		}
		problems = append(problems, text)
	}
	if t.bad > 0 {
		problems = append(problems, fmt.Sprintf("The names of %s cannot be read.", count(t.bad, what)))
	}
	if t.tooMany > 0 {
		problems = append(problems, fmt.Sprintf("The page shows the first %d: %d more are not shown. Serve a prefix.", mostEntries, t.tooMany))
	}
	return problems
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func (p *Page) countsOf(complete bool, all, matching int, what string, q query) string {
	where := ""
	if p.o.Prefix != "" {
		where = fmt.Sprintf(" at or below %q", visible(p.o.Prefix))
	}
	switch {
	case !complete && all == 0:
		return "The store is being read."
	case all == 0:
		return "There are no " + what + "s" + where + "."
	case q.text == "" && q.state == "":
		return count(all, what) + where + "."
	}
	return fmt.Sprintf("%d of %s%s match the filter.", matching, count(all, what), where)
}

type pager struct {
	Page, Pages    int
	Previous, Next string
}

func pagerOf(q query, pages int) pager {
	v := pager{Page: q.page, Pages: pages}
	if q.page > 1 {
		v.Previous = q.link(func(q *query) { q.page-- })
	}
	if q.page < pages {
		v.Next = q.link(func(q *query) { q.page++ })
	}
	return v
}

type markView struct {
	ID, Name, Position, Event, Rate, Who, Problem string
	Written                                       time.Time
	Token, Epoch                                  uint64
}

func markViewOf(name string, e *entry[mark]) markView {
	m := &e.value
	v := markView{ID: identity(name), Name: visible(name), Position: "–", Event: visible(m.event), Rate: "–", Who: cmp.Or(visible(m.who), "–"), Problem: visible(e.problem), Written: timeOf(m.written), Token: m.token, Epoch: m.epoch}
	if e.read > 0 {
		v.Position = "none"
	}
	if m.exists {
		v.Position = strconv.FormatUint(m.sequence, 10)
		if m.rate >= 0 && !math.IsInf(m.rate, 0) {
			v.Rate = strconv.FormatFloat(m.rate, 'f', 1, 64) + "/s"
		}
	}
	return v
}

// commandLine is a line to copy.
type commandLine struct{ ID, What, Hidden, Line string }

type lockPage struct {
	Lock      *view
	Commands  []commandLine
	NoHistory string
	History   []historyView
}

type historyView struct {
	lease.HistoryEntry
	Class string
}

func (p *Page) lockPage(name string, now time.Time) (v lockPage) {
	e := p.r.locks.entries[name]
	var l view
	switch {
	case e != nil && !e.absent:
		l = p.viewOf(name, e, now)
	case e == nil && p.r.locks.selects(name) && store.CheckKey(name) == nil:
		l = p.viewOf(name, &entry[lock]{}, now)
	case e != nil:
		l = view{State: "free", Text: "no record", Explained: "No holder has ever taken the lock, or a sweep has removed its record."}
	default:
		l = view{State: "unreadable", Text: "not shown", Explained: "The name is not the name of a lock that this page shows."}
		return lockPage{Lock: &l, NoHistory: "There is no history."}
	}
	v.Lock = &l
	add := func(what, hidden string, words ...string) {
		v.Commands = append(v.Commands, commandLine{fmt.Sprintf("c%d", len(v.Commands)), what, hidden, p.command(words...)})
	}
	arg := nameArgument(name)
	add("Show the lock:", "shows the lock", "show", arg)
	switch l.State {
	case string(unreadable):
		add("Repair the lock, if no holder of the lock lives:", "repairs the lock", "break", "--unreadable", "--now", arg)
	case "held", "expired", "shared":
		add("Ask the holder to release the lock:", "asks the holder", "ask", "--reason", "'...'", arg)
		add("End the grant without the consent of the holder:", "breaks the lock", "break", "--token", strconv.FormatUint(l.Token, 10), arg)
	case "broken":
		add("Let other clients take the lock at once, if the holder has stopped:", "breaks the lock at once", "break", "--token", strconv.FormatUint(l.Token, 10), "--now", arg)
	}
	h := p.r.histories[name]
	switch {
	case h == nil:
		v.NoHistory = "The history is being read."
	case h.problem != "":
		v.NoHistory = "The history cannot be read completely: " + h.problem
	case len(h.entries) == 0:
		v.NoHistory = "There is no history of this lock. Clients write one with --history, HOLDFAST_HISTORY=1, or lease.Options.History."
	}
	if h != nil {
		for _, e := range slices.Backward(h.entries) {
			e.Holder, e.By, e.Reason = visible(e.Holder), visible(e.By), visible(e.Reason)
			class := cmp.Or(historyClasses[e.Kind], "other")
			e.Kind = lease.HistoryKind(visible(string(e.Kind))) // a later version can add kinds
			v.History = append(v.History, historyView{e, class})
		}
	}
	return v
}

// historyClasses are the classes of the styles of entries.
var historyClasses = map[lease.HistoryKind]string{
	lease.HistoryGranted: "granted", lease.HistoryReleased: "released", lease.HistoryEntered: "entered", lease.HistoryLeft: "left",
	lease.HistoryYieldRequested: "asked", lease.HistoryYieldRefused: "asked",
	lease.HistoryTakenOver: "bad", lease.HistoryLost: "bad", lease.HistoryBroken: "bad",
}

type logView struct {
	Name, Problem string
	Empty         bool
	Entries       []logEntry
	Followers     []follower
}

func (p *Page) logViews() (views []logView) {
	for i, s := range p.r.logs {
		views = append(views, logView{visible(p.o.Logs[i].Name), s.problem, !s.read.IsZero() && s.problem == "" && s.latest.Number == 0, s.entries, s.followers})
	}
	return views
}

type cell struct{ Label, Text string }

type panelView struct {
	Title, Problem string
	Table          PanelTable
	Cells          [][]cell
}

func (p *Page) panelViews() (views []panelView) {
	for i, s := range p.r.panels {
		v := panelView{Title: visible(p.o.Panels[i].Title), Problem: s.problem, Table: s.table}
		for _, texts := range s.table.Rows {
			cells := make([]cell, len(texts))
			for i, text := range texts {
				cells[i].Text = text
				if i < len(s.table.Head) {
					cells[i].Label = s.table.Head[i]
				}
			}
			v.Cells = append(v.Cells, cells)
		}
		views = append(views, v)
	}
	return views
}

type storeView struct {
	Name, Problem, Latency, Abilities, Report, DoctorProblem string
	Answered, Failed, Examined                               time.Time
	Rate                                                     int
	Tags, Running                                            bool
	Commands                                                 []commandLine
}

func (p *Page) storeView() storeView {
	h, d := p.r.health, p.r.doctor
	_, tags := store.As[store.TagLister](p.st)
	v := storeView{
		Name: cmp.Or(visible(p.traits.Name), "(without a name)"), Problem: h.problem, Abilities: cmp.Or(strings.Join(store.Abilities(p.st), ", "), "none"),
		Report: d.text, DoctorProblem: d.problem, Answered: h.answered.Truncate(detailEvery), Failed: h.failed, Examined: d.at, Rate: p.o.RequestsPerMinute, Tags: tags, Running: d.running,
		Commands: []commandLine{{"c0", "Examine the store. The examination writes test data below .holdfast/doctor/, and removes it:", "examines the store", p.command("doctor")}},
	}
	if h.latency > 0 {
		v.Latency = roundLatency(h.latency).String()
	}
	return v
}

// roundLatency rounds coarsely, so that the page does not change with each request.
func roundLatency(d time.Duration) time.Duration {
	for _, step := range []time.Duration{time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond} {
		if d < 10*step {
			return max(step, d.Round(step))
		}
	}
	return d.Round(time.Second)
}

type navEntry struct {
	Link, Text string
	Current    bool
}

type column struct{ Text, Link, Order string }

type option struct {
	stateFilter
	Selected bool
}

type pageView struct {
	Title, Heading, Store, Below, Events string
	Now                                  int64
	Live, List                           bool
	Nav                                  []navEntry
	Banner, Body, Counts, Pager          template.HTML
	Rows                                 []row
	Action, Query, Sort                  string
	States                               []option
	Columns                              []column
}

var columnsOf = map[string][]column{
	kindLocks:       {{"Name", "name", ""}, {"State", "state", ""}, {"Holder", "holder", ""}, {"Since", "since", ""}, {"Token", "token", ""}, {"Deadline", "deadline", ""}, {"Waiters", "waiting", ""}},
	kindCheckpoints: {{"Key", "name", ""}, {"Position", "position", ""}, {"Age", "age", ""}, {"Rate", "", ""}, {"Who", "", ""}, {"Token", "token", ""}, {"Epoch", "", ""}},
}

var headings = map[string]string{kindLocks: "Locks", kindCheckpoints: "Checkpoints", kindLogs: "Commit logs", kindPanels: "Reports of large items", kindStore: "Store"}

// firstWait is for how long the first page waits for the first listing.
const firstWait = 1500 * time.Millisecond

// servePage writes a whole page. It is also the page of a browser that runs no script.
func (p *Page) servePage(w http.ResponseWriter, r *http.Request, kind string) {
	q := parseQuery(kind, r.URL.Query())
	p.r.want(kind)
	page := p.awaitFirst(r, q)
	heading := headings[kind]
	if kind == kindLock {
		heading = visible(q.name)
	}
	v := pageView{
		Heading: heading, Title: heading + " – Holdfast", Store: visible(p.traits.Name), Below: visible(p.o.Prefix), Now: time.Now().UnixMilli(), Live: len(p.pages) < cap(p.pages),
		List: page.list, Banner: page.parts["banner"], Body: page.parts["body"], Counts: page.parts["counts"], Pager: page.parts["pager"], Rows: page.rows,
		Query: q.text, Action: (query{kind: kind}).link(func(*query) {}),
	}
	if v.Live {
		v.Events = page.query.link(func(q *query) { q.kind = "events" })
		sep := "?"
		if strings.Contains(v.Events, "?") {
			sep = "&"
		}
		v.Events += sep + "kind=" + kind
	}
	for _, n := range []struct {
		text string
		query
	}{
		{"Locks", query{kind: kindLocks}}, {"Leaders", query{kind: kindLocks, state: "leaders"}}, {"Semaphores", query{kind: kindLocks, state: "semaphores"}},
		{"Checkpoints", query{kind: kindCheckpoints}}, {"Commit logs", query{kind: kindLogs}}, {"Large items", query{kind: kindPanels}}, {"Store", query{kind: kindStore}},
	} {
		special := q.state == "leaders" || q.state == "semaphores"
		current := n.kind == kind && (n.state == q.state || n.state == "" && !special)
		v.Nav = append(v.Nav, navEntry{n.link(func(*query) {}), n.text, current})
	}
	if q.sort != "" {
		v.Sort = q.sort
		if q.down {
			v.Sort = "-" + q.sort
		}
	}
	if kind == kindLocks {
		for _, f := range stateFilters {
			v.States = append(v.States, option{f, f.Value == q.state})
		}
	}
	for _, c := range columnsOf[kind] {
		key := c.Link
		c.Link = ""
		if key != "" {
			sorted := key == q.sort || key == "name" && q.sort == ""
			c.Link = q.link(func(q *query) { q.sort, q.down, q.page = key, sorted && !q.down, 1 })
			if sorted {
				c.Order = "ascending"
				if q.down {
					c.Order = "descending"
				}
			}
		}
		v.Columns = append(v.Columns, c)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(execute("page", v)))
}

// namesOf returns the name that a page shows whatever the reader knows.
func (p *Page) namesOf(q query) []string {
	if q.kind == kindLock {
		return []string{q.name}
	}
	return nil
}

// awaitFirst renders a page. If the reader has nothing to show yet, it waits a moment.
func (p *Page) awaitFirst(r *http.Request, q query) *rendered {
	deadline := time.After(firstWait)
	watched := p.namesOf(q)
	p.r.watch(q.kind, watched, 1)
	defer func() { p.r.watch(q.kind, watched, -1) }()
	for {
		changed := p.r.nextChange()
		page, ready := p.render(q)
		watched = p.r.rewatch(q.kind, watched, page.names)
		if ready {
			return page
		}
		select {
		case <-changed:
			continue
		case <-deadline:
		case <-r.Context().Done():
		case <-p.r.ctx.Done():
		}
		return page
	}
}

// ready reports whether the reader has read what a page shows, not long ago. The reader is locked.
func (r *reader) ready(q query, names []string) bool {
	const recent = 2 * lingering
	switch q.kind {
	case kindLocks:
		return (time.Since(r.locks.listed) < recent || r.locks.problem != "") && known(&r.locks, names) && r.knownSessions(names)
	case kindCheckpoints:
		return (time.Since(r.marks.listed) < recent || r.marks.problem != "") && known(&r.marks, names)
	case kindLock:
		e := r.locks.entries[q.name]
		return e != nil && (time.Since(time.UnixMilli(e.read)) < recent || e.problem != "") && r.knownSessions(names) && r.histories[q.name] != nil
	case kindLogs:
		return !slices.ContainsFunc(r.logs, func(s logState) bool { return s.read.IsZero() })
	case kindPanels:
		return !slices.ContainsFunc(r.panels, func(s panelState) bool { return s.read.IsZero() })
	}
	return !r.health.answered.IsZero() || !r.health.failed.IsZero()
}

// known reports whether all keys with these names were read, or cannot be read.
func known[T any](t *table[T], names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		e := t.entries[name]
		return e != nil && e.read == 0 && e.problem == ""
	})
}

// knownSessions reports whether the sessions of these locks were read.
func (r *reader) knownSessions(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		e := r.locks.entries[name]
		return e != nil && slices.ContainsFunc(e.value.sessions(), func(id string) bool { return r.sessions[id] == nil })
	})
}
