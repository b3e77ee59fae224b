package belief

import "github.com/holdfast-go/holdfast/internal/lockrec"

// LastRun returns the run of the grant as the grant knows it.
func (g *Grant) LastRun() lockrec.Run {
	g.mu.Lock()
	defer g.mu.Unlock()
	rec := lockrec.Freed(g.known().Rec, g.cell.Space.Clock.Wall())
	if _, lost := g.ended.(*LostError); !lost {
		g.endRun(&rec)
	}
	if rec.Run == nil {
		return lockrec.Run{}
	}
	return *rec.Run
}

// endRun puts the end of the grant's run into the record that frees the lock. The caller holds g.mu.
func (g *Grant) endRun(free *lockrec.Record) {
	if run, end := free.Run, g.ending; run != nil && run.Grant == g.ID() && end != nil {
		ended := *run
		ended.Ended, ended.Outcome, ended.Error = end.Ended, end.Outcome, end.Error
		free.Run = &ended
	}
	if g.rerunAllowed && free.Run != nil && free.Run.Grant == g.ID() {
		if g.Periodic {
			free.Run = g.Before
		} else { // taken up with a ticket
			free.Run = lockrec.AllowRerun(free)
		}
	}
}

// AllowRerun makes the release of the grant take its run back, and let the next grant follow at once.
func (g *Grant) AllowRerun() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acts()
	g.rerunAllowed = true
}

// SetRunResult sets the end of the run that the release of the grant writes.
func (g *Grant) SetRunResult(end *lockrec.Run) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acts()
	g.ending = end
}
