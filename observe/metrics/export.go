package metrics

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/metrics/promtext"
)

// Collect returns the present values, for other systems than Prometheus. If two clients have the same labels, it adds
// their values, as [Handler] does.
func Collect(all ...*Metrics) (set promtext.Set) {
	for _, m := range all {
		m.collect(&set)
	}
	return set
}

// Observation is one observation of a histogram of the table in package promtext.
type Observation struct {
	Name   string
	Labels [][2]string // names and values
	Took   time.Duration
}

// Observe is OnEvent. It also returns the observations of histograms that the event causes. Call it
// in place of OnEvent, if another system than Prometheus needs them.
func (m *Metrics) Observe(e lease.Event) (o Observation, ok bool) {
	m.mu.Lock()
	held := slices.Clone(m.held[grant{e.Name, e.Session, e.Token}])
	m.mu.Unlock()
	m.OnEvent(e)
	switch e.Kind {
	case lease.EventAcquired:
		o.Name, o.Took = promtext.AcquireDuration, e.Took
	case lease.EventRenewed:
		o.Name, o.Took = promtext.RenewalDuration, e.Took
	case lease.EventLost, lease.EventReleased:
		if len(held) == 0 || held[0].since.IsZero() {
			return o, false
		}
		o.Name, o.Took = promtext.HoldDuration, e.Time.Sub(held[0].since)
	default:
		return o, false
	}
	o.Labels = promtext.Pairs(m.store)
	if e.Name != "" {
		value := m.label(e.Name)
		m.mu.Lock()
		defer m.mu.Unlock()
		o.Labels = append(o.Labels, promtext.Pairs(m.bounded(value).text)...)
	}
	o.Took = max(o.Took, 0)
	return o, true
}
