package dashboard

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lease"
)

// identity returns the id of the element of a name: names contain any characters.
func identity(name string) string {
	sum := sha256.Sum256([]byte(name)) // two names must not share an element
	return "r" + hex.EncodeToString(sum[:16])
}

// linkTo returns the relative link to the page of a lock.
func linkTo(name string) string { return kindLock + "?" + url.Values{"name": {name}}.Encode() }

// perPage is how many rows a page shows.
const perPage = 50

// query is what a page asks for: the text of its URL.
type query struct {
	kind  string // of the page
	name  string // of one lock
	text  string // part of the name, of the holder or of a reason
	state string
	sort  string
	down  bool
	page  int
}

// The longest texts of a query.
const maxQuery = 600

func parseQuery(kind string, v url.Values) query {
	q := query{kind: kind, name: v.Get("name"), text: v.Get("q"), state: v.Get("state"), sort: v.Get("sort")}
	q.sort, q.down = strings.CutPrefix(q.sort, "-")
	if !slices.Contains(sortKeys[kind], q.sort) {
		q.sort, q.down = "", false
	}
	if !slices.ContainsFunc(stateFilters, func(f stateFilter) bool { return f.Value == q.state }) {
		q.state = ""
	}
	if len(q.text) > maxQuery {
		q.text = strings.ToValidUTF8(q.text[:maxQuery], "")
	}
	q.page, _ = strconv.Atoi(v.Get("page"))
	q.page = min(max(1, q.page), mostEntries)
	return q
}

// with returns the link to the same page with some changes.
func (q query) link(change func(*query)) string {
	change(&q)
	v := url.Values{}
	set := func(key, value string) {
		if value != "" {
			v.Set(key, value)
		}
	}
	set("name", q.name)
	set("q", q.text)
	set("state", q.state)
	if q.sort != "" {
		down := ""
		if q.down {
			down = "-"
		}
		set("sort", down+q.sort)
	}
	if q.page > 1 {
		set("page", strconv.Itoa(q.page))
	}
	path := q.kind
	if q.kind == kindLocks {
		path = "."
	}
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

var sortKeys = map[string][]string{
	kindLocks:       {"name", "state", "holder", "since", "token", "deadline", "waiting"},
	kindCheckpoints: {"name", "position", "age", "token"},
}

type stateFilter struct{ Value, Text string }

var stateFilters = []stateFilter{
	{"", "all states"}, {"used", "not free"}, {"held", "held"}, {"shared", "shared"}, {"free", "free"}, {"broken", "broken"}, {"expired", "expired or dead"},
	{"unreadable", "unreadable"}, {"waiting", "with waiters"}, {"asked", "asked to yield"}, {"leaders", "leaders (with a value)"}, {"semaphores", "semaphores"},
}

// found is one row of the result of a query: where its values for the order are.
type found struct {
	name string
	text string
	n    int64
}

// orderOf sorts rows, and returns those of the page.
func orderOf(rows []found, q *query) (shown []found, pages int) {
	slices.SortFunc(rows, func(a, b found) int {
		c := cmp.Or(strings.Compare(a.text, b.text), cmp.Compare(a.n, b.n))
		if q.down {
			c = -c
		}
		return cmp.Or(c, strings.Compare(a.name, b.name))
	})
	pages = max(1, (len(rows)+perPage-1)/perPage)
	q.page = min(q.page, pages)
	return rows[(q.page-1)*perPage : min(len(rows), q.page*perPage)], pages
}

// matches reports whether a text has the words of the query, whatever their case.
func matches(q query, texts ...string) bool {
	for word := range strings.FieldsSeq(strings.ToLower(q.text)) {
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), word) }) {
			return false
		}
	}
	return true
}

// findLock returns the place of a lock in the order of a query. It returns false if the query does not match the lock.
// The reader is locked.
func (p *Page) findLock(q *query, now time.Time, name string, e *entry[lock]) (f found, ok bool) {
	l := &e.value
	m := l.more()
	if !p.inState(q.state, e, now) || !matches(*q, name, l.holder) {
		return f, false
	}
	f.name = name
	switch q.sort {
	case "name":
		f.text = name
	case "state":
		f.text = string(l.state)
	case "holder":
		f.text = l.holder
	case "since":
		f.n = l.granted
		if l.state != lease.Held {
			f.n = l.renewed
		}
	case "token":
		f.n = int64(l.token)
	case "deadline":
		f.n = 1 << 62
		if l.state == lease.Held && l.renewed > 0 && m.session == "" {
			f.n = deadline(l.renewed, l.ttl, l.changed)
		}
	case "waiting":
		f.n = int64(len(m.queue))
	}
	return f, true
}

func (p *Page) inState(state string, e *entry[lock], now time.Time) bool {
	l := &e.value
	m := l.more()
	switch state {
	case "":
		return true
	case "used":
		return l.state != lease.Free
	case "expired":
		return p.viewOf("", e, now).State == "expired"
	case "waiting":
		return len(m.queue) > 0
	case "asked":
		return m.ask != nil && l.state != lease.Free
	case "leaders":
		return m.data != nil || len(m.queue) > 0 && m.queue[0].Mode == lease.ModeCandidate
	case "semaphores":
		return m.slots > 0
	}
	return string(l.state) == state
}

// findMark does the same as [Page.findLock], for a checkpoint.
func findMark(q *query, name string, e *entry[mark]) (f found, ok bool) {
	m := &e.value
	if !matches(*q, name, m.who, m.event) {
		return f, false
	}
	f.name = name
	switch q.sort {
	case "name":
		f.text = name
	case "position":
		f.n = int64(min(m.sequence, 1<<62))
	case "age":
		f.n = -m.written
	case "token":
		f.n = int64(m.token)
	}
	return f, true
}
