package s3verstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/internal/drivers/versionlog"
	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// listingTries is the number of tries of a listing that is torn.
	listingTries = 5

	// parallel is the number of bodies that are read at the same time.
	parallel = 8
)

var (
	errTorn = errors.New("versions that are still needed are missing from the listing")
	errSlow = fmt.Errorf("%w: the listing of versions took too long", store.ErrUnavailable)
)

// purpose is the reason for a listing.
type purpose int

const (
	forUncommitted purpose = iota
	forRead                // an empty listing must mean that the register is absent
	forResolve             // makes both evaluations
)

// readVersions lists the versions of a register, reads the unknown versions, and evaluates
// the log.
func (s *Store) readVersions(ctx context.Context, r *register, why purpose) (*view, error) {
	return s.readVersionsFrom(ctx, r, why, nil)
}

// readVersionsFrom is readVersions, but uses the listing l for the first try if l is not
// nil.
func (s *Store) readVersionsFrom(ctx context.Context, r *register, why purpose, l *listing) (*view, error) {
	var slow error
	for try := 1; ; try++ {
		v, err := s.readVersionsOnce(ctx, r, why, try, l)
		l = nil
		if errors.Is(err, errSlow) {
			slow = err
		}
		torn := errors.Is(err, errVersionMissing) || errors.Is(err, errTorn) || errors.Is(err, errSlow)
		if torn && try < listingTries && awscall.Pause(ctx, firstPause, try) {
			continue
		}
		switch {
		case torn && slow != nil:
			err = slow // perhaps nothing is missing
		case torn && ctx.Err() == nil:
			err = fmt.Errorf("%w: %s: versions that Holdfast needs are missing; find out whether a lifecycle rule or a person removed them (%w)", store.ErrCorrupt, r.object, err)
		}
		return v, err
	}
}

func (s *Store) readVersionsOnce(ctx context.Context, r *register, why purpose, try int, l *listing) (*view, error) {
	known, ids := r.known() // before the listing, so that the listing must show all of them
	if l == nil {
		var err error
		if l, err = s.list(ctx, r.object); err != nil {
			return nil, err
		}
	}
	g := &listingReader{s: s, r: r, l: l, seenBefore: known, seen: time.Now()}
	if took := l.watch.Elapsed(); l.pages > 1 && took > s.o.PutLifetime {
		// Another client may have removed versions of the later pages during the listing.
		return nil, fmt.Errorf("%w: %v for %d pages of %s, but at most %v is allowed (put_lifetime)", errSlow, took.Round(time.Millisecond), l.pages, r.object, s.o.PutLifetime)
	}
	if l.null != nil {
		if err := s.nullSeen(ctx, r.object, *l.null); err != nil {
			return nil, err
		}
	}
	if !sameOrder(ids, l.ids()) {
		return nil, fmt.Errorf("%w: %s: %s", store.ErrUnsafe, r.object, movedText)
	}
	v, err := g.view(ctx, why == forResolve)
	if err != nil {
		return nil, err
	}
	if v.Torn {
		return nil, errTorn
	}
	if err := g.complete(ctx, v, why, try); err != nil {
		return nil, err
	}
	r.noteRead(v, g)
	return v, nil
}

// listingReader is the reading of one listing.
type listingReader struct {
	s          *Store
	r          *register
	l          *listing
	seenBefore map[string]sighting // by version id
	seen       time.Time           // when the listing was complete
	low        int                 // the versions from here on were read
}

// view reads the versions from the newest down to the snapshots of the evaluations.
func (g *listingReader) view(ctx context.Context, judging bool) (*view, error) {
	g.low = len(g.l.versions)
	if err := g.readToSnapshot(ctx, nil, true); err != nil {
		return nil, err
	}
	var old versionlog.Named
	again := false // if all entries are recent, evaluation 2 is the same as evaluation 1
	if judging {
		for _, v := range g.l.versions {
			if k, ok := g.seenBefore[v.id]; ok && g.old(k) {
				again = true
				old.Add(k.entry.snapshot)
			}
		}
	}
	if again {
		if err := g.readToSnapshot(ctx, old, false); err != nil {
			return nil, err
		}
	}
	v := g.evaluated(again, old)
	if (v.Torn || v.missing) && g.low > 0 {
		// The older versions may contain the missing entry, or a snapshot which shows that
		// the missing entry was superseded.
		if err := g.readTo(ctx, 0); err != nil {
			return nil, err
		}
		v = g.evaluated(again, old)
	}
	return v, nil
}

// evaluated evaluates the log of the versions that were read, and again from the old snapshots.
func (g *listingReader) evaluated(again bool, old versionlog.Named) *view {
	v := &view{older: g.l.versions[:g.low]}
	var entries []versionlog.Entry
	for _, w := range g.l.versions[g.low:] {
		k := g.seenBefore[w.id]
		v.entries = append(v.entries, orderedEntry{k.entry, w, k.first})
		entries = append(entries, k.logged(w.id, g.old(k)))
	}
	v.View = versionlog.Evaluate(entries, g.l.ids()[:g.low])
	if again {
		v.EvaluateOld(old)
	}
	v.missing, v.known = g.missing(v.Most)
	return v
}

// old reports whether a version is not recent: first seen at least D before the listing
// began.
func (g *listingReader) old(k sighting) bool {
	return !k.first.After(g.l.watch.Mono.Add(-g.s.o.SettleDelay))
}

// readToSnapshot reads the versions down to the newest snapshot of n, or all versions if
// none is listed. With all, each entry that was read adds its snapshot to n.
func (g *listingReader) readToSnapshot(ctx context.Context, n versionlog.Named, all bool) error {
	versions := g.l.versions
	for i := len(versions) - 1; i >= 0; i-- {
		if err := g.readTo(ctx, i); err != nil {
			return err
		}
		e := g.seenBefore[versions[i].id].entry
		if all {
			n.Add(e.snapshot)
		}
		if e.write && n.Has(versions[i].id) {
			return nil
		}
	}
	return nil
}

// readTo reads the versions from index i on, and some earlier versions, which are often
// needed next. Errors of these earlier versions do not matter yet.
func (g *listingReader) readTo(ctx context.Context, i int) error {
	for g.low > i {
		// Few at first: the snapshot is usually among the newest.
		from := max(0, g.low-min(parallel, max(2, len(g.l.versions)-g.low)))
		if err := g.fetch(ctx, g.l.versions[from:g.low], max(0, i-from)); err != nil {
			return err
		}
		for ; g.low > from; g.low-- {
			k, ok := g.seenBefore[g.l.versions[g.low-1].id]
			if !ok {
				break
			}
			if err := g.s.checkEntry(g.r, k.entry); err != nil && g.low <= i {
				break
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// fetch reads the unknown versions. It ignores errors of the first versions, up to index
// spare.
func (g *listingReader) fetch(ctx context.Context, versions []version, spare int) error {
	var unknown []int
	for i, v := range versions {
		if _, ok := g.seenBefore[v.id]; !ok {
			unknown = append(unknown, i)
		}
	}
	entries := make([]*entry, len(versions))
	errs := workerpool.Each(len(unknown), len(unknown), func(n int) (err error) {
		i := unknown[n]
		entries[i], err = g.s.entry(ctx, g.r.object, versions[i])
		return err
	})
	var gone error
	for n, i := range unknown {
		switch {
		case errs[n] == nil:
			g.seenBefore[versions[i].id] = g.r.noteEntry(versions[i].id, entries[i], g.seen)
		case i < spare:
		case errors.Is(errs[n], errVersionMissing):
			gone = errs[n]
		default:
			return errs[n]
		}
	}
	return gone
}

// entry reads the entry in a version.
func (s *Store) entry(ctx context.Context, object string, v version) (*entry, error) {
	body, err := s.fetch(ctx, object, v)
	if err != nil {
		return nil, err
	}
	e, err := decode(body)
	if err != nil {
		return nil, s.foreign(ctx, object, v, err)
	}
	return e, nil
}

// checkEntry refuses an entry of another key. It also refuses an entry whose writer has a
// put_lifetime that is too long for the settle delay of this store.
func (s *Store) checkEntry(r *register, e *entry) error {
	switch {
	case e.key != s.prefix+r.key:
		return fmt.Errorf("%w: the object %s has an entry of another key, %.80q; find out which program copied the object", store.ErrCorrupt, r.object, e.key)
	case !s.o.UnsafeTimes && MinSettleDelay(e.life, s.o.MaxClockDrift) > s.o.SettleDelay:
		return fmt.Errorf("%w: another client of %s has a put_lifetime of %v, but this client has a settle_delay of %v, which is too short for that put_lifetime. Give all clients the same values", store.ErrMisconfigured, r.object, e.life, s.o.SettleDelay)
	}
	return nil
}

// missing reports whether a version that was seen before is not listed, although no listed
// snapshot shows that it was superseded. most is the highest number of the listed
// snapshots. known is the highest number of the snapshots that were named before.
func (g *listingReader) missing(most uint64) (missing bool, known uint64) {
	listed := map[string]bool{}
	for _, w := range g.l.versions {
		listed[w.id] = true
	}
	for id, k := range g.seenBefore {
		known = max(known, k.entry.snapshot.Number)
		missing = missing || !listed[id] && k.number > most
	}
	return missing, known
}

// complete returns an error if versions that were seen before are missing although no
// snapshot supersedes them. While a client removes versions of an object, a server may
// list only some of its versions, or none.
func (g *listingReader) complete(ctx context.Context, v *view, why purpose, try int) error {
	if len(g.l.versions) > 0 {
		// After some tries, this is no error: another client removed rejected entries.
		if v.missing && (v.Most < v.known || try < 3) {
			return errTorn
		}
		return nil
	}
	if g.l.null != nil || !v.missing && why != forRead {
		return nil
	}
	_, err := g.s.versions.Metadata(ctx, g.r.object, "")
	switch {
	case err == nil, errors.Is(err, s3bucket.ErrDeleteMarker) && try < listingTries:
		return errTorn // a delete marker may have versions below it, or none
	case errors.Is(err, store.ErrNotFound):
		return nil // nothing was written, or a person removed all versions
	}
	return err
}
