package dashboard

import (
	"encoding/json"
	"hash/maphash"
	"html/template"
	"net/http"
	"slices"
	"time"
)

// update is one server-sent event: the parts of the page that have changed.
type update struct {
	Now   int64                    `json:"now"` // the server's clock, Unix milliseconds
	Set   map[string]template.HTML `json:"set,omitempty"`
	Rows  map[string]template.HTML `json:"rows,omitempty"`
	Order []string                 `json:"order"` // null: as before
}

const (
	writeTimeout = 10 * time.Second // of one event: a browser that does not read is disconnected
	quiet        = 15 * time.Second // after which an update is sent even if nothing has changed
)

// sent is what a page shows, as far as it is known.
type sent struct {
	seed  maphash.Seed
	parts map[string]uint64
	rows  map[string]uint64
	order []string
}

// diff returns what a page has to change; the first update has everything.
func (s *sent) diff(page *rendered) (u update, any bool) {
	u = update{Now: time.Now().UnixMilli(), Set: map[string]template.HTML{}, Rows: map[string]template.HTML{}}
	first := s.parts == nil
	if first {
		s.parts = map[string]uint64{}
	}
	for id, html := range page.parts {
		if h := maphash.String(s.seed, string(html)); h != s.parts[id] {
			s.parts[id] = h
			u.Set[id] = html
		}
	}
	if page.list {
		rows, order := map[string]uint64{}, []string{}
		for _, r := range page.rows {
			h := maphash.String(s.seed, string(r.HTML))
			if s.rows[r.ID] != h {
				u.Rows[r.ID] = r.HTML
			}
			rows[r.ID] = h
			order = append(order, r.ID)
		}
		if first || !slices.Equal(order, s.order) {
			u.Order = order
		}
		s.rows, s.order = rows, order
	}
	return u, first || len(u.Set)+len(u.Rows) > 0 || u.Order != nil
}

// serveEvents sends the updates of one page until the browser leaves it.
func (p *Page) serveEvents(w http.ResponseWriter, r *http.Request) {
	kind := r.URL.Query().Get("kind")
	if !slices.Contains(kinds, kind) {
		http.Error(w, "unknown kind of page", http.StatusBadRequest)
		return
	}
	select {
	case p.pages <- struct{}{}:
		defer func() { <-p.pages }()
	default:
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	q := parseQuery(kind, r.URL.Query())
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // else the read timeout of the server would end the updates
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy must not wait for more
	said := sent{seed: maphash.MakeSeed()}
	watched := p.namesOf(q)
	p.r.watch(kind, watched, 1)
	defer func() { p.r.watch(kind, watched, -1) }()
	last := time.Time{}
	for {
		p.r.want(kind)
		changed := p.r.nextChange()
		page, _ := p.render(q)
		watched = p.r.rewatch(kind, watched, page.names)
		if u, any := said.diff(page); any || time.Since(last) >= quiet {
			text, err := json.Marshal(u)
			if err != nil {
				return
			}
			_ = out.SetWriteDeadline(time.Now().Add(writeTimeout)) // not all servers have deadlines
			if _, err := w.Write(slices.Concat([]byte("event: update\ndata: "), text, []byte("\n\n"))); err != nil || out.Flush() != nil {
				return
			}
			last = time.Now()
		}
		select {
		case <-changed:
		case <-time.After(quiet):
		case <-r.Context().Done():
			return
		case <-p.r.ctx.Done():
			return
		}
	}
}
