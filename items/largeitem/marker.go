package largeitem

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// marker is the body of the object that says to which table the objects below a prefix belong.
type marker struct {
	ID   string `json:"table"` // [Schema].ID
	Name string `json:"name"`

	// Grace is the orphan age of the table in milliseconds: the shortest of a sweep, and the
	// longest of a writer. 0, as in markers of earlier versions, means [DefaultOrphanAge].
	Grace int64 `json:"grace_ms,omitempty"`

	// Longer is the earlier orphan age, if it was longer: writers may still use it.
	Longer int64 `json:"longer_grace_ms,omitempty"`

	version  object.Version
	modified time.Time     // by the bucket's clock; zero if that is not known
	age      time.Duration // by the bucket's clock; zero if that is not known
}

const maxMarker = 64 << 10

func validOrphanAge(d time.Duration) bool { return d >= MinOrphanAge && d <= MaxOrphanAge }

// grace is the longest orphan age that a writer may have.
func (m *marker) grace() time.Duration {
	if m.Grace == 0 {
		return DefaultOrphanAge
	}
	return time.Duration(m.Grace) * time.Millisecond
}

// least is the shortest orphan age that a sweep may have. A writer that began with an earlier,
// longer orphan age reads the marker again when half of that has passed. What it has prepared
// by then can be written during another half, and take effect during a third one.
func (m *marker) least() time.Duration {
	if longer := time.Duration(m.Longer) * time.Millisecond; m.age <= longer/2*3 {
		return max(longer, m.grace())
	}
	return m.grace()
}

// changed returns the marker that is to follow m.
func (m *marker) changed(schema Schema, grace time.Duration) marker {
	next := marker{ID: schema.id(), Name: schema.Name, Grace: grace.Milliseconds()}
	if least := m.least(); least > grace {
		next.Longer = least.Milliseconds()
	}
	return next
}

// orphanAges are what a store knows from its marker.
type orphanAges struct {
	grace time.Duration // for the writes of this store; 0 if nothing is known yet
	least time.Duration // for removals
	asked sysclock.Reading
}

func (s *Store) markerKey(schema Schema) string { return s.prefix + s.layout.marker(schema) }

func (s Schema) id() string {
	return cmp.Or(s.ID, s.Name)
}

// readMarker reports whether there is a marker. One of another table is an error.
func (s *Store) readMarker(ctx context.Context, schema Schema) (m marker, found bool, err error) {
	key := s.markerKey(schema)
	text, info, err := object.ReadAll(ctx, s.bucket, key, maxMarker, nil)
	if isNotFound(err) {
		return m, false, nil
	}
	if err != nil && !errors.Is(err, store.ErrTooLarge) {
		return m, false, store.MarkNotApplied(err)
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err == nil && (!validOrphanAge(m.grace()) || m.Grace > MaxOrphanAge.Milliseconds() || m.Longer < 0 || m.Longer > MaxOrphanAge.Milliseconds()) {
		err = errors.New("the orphan age in it is out of bounds")
	}
	if err != nil {
		return marker{}, true, fmt.Errorf("%w: the object %q (the marker of the table) cannot be decoded: %w", store.ErrMisconfigured, key, err)
	}
	m.version = info.Version
	if info = s.dated(info); !info.Now.IsZero() && !info.Modified.IsZero() {
		m.modified, m.age = info.Modified, info.Now.Sub(info.Modified)
	}
	if m.ID != schema.id() {
		return m, true, &OtherTableError{Object: key, Table: m.Name, ID: m.ID, Store: schema.Name, StoreID: schema.id()}
	}
	return m, true, nil
}

// checkMarker makes sure that the names of objects belong to this table. Where the bucket
// does not say so, the error matches [store.ErrMisconfigured].
func (s *Store) checkMarker(ctx context.Context, schema Schema) (marker, error) {
	m, found, err := s.readMarker(ctx, schema)
	if err == nil && !found {
		err = fmt.Errorf("%w: the object %q (the marker of the table %s) does not exist; no program has written to the prefix yet, or the object was lost", store.ErrMisconfigured, s.markerKey(schema), schema.Name)
	}
	return m, err
}

// dated returns an answer of the bucket with the time of the answer. A bucket on this machine
// need not return the time: it has no other clock than this machine's.
func (s *Store) dated(info object.Info) object.Info {
	if info.Now.IsZero() && object.TraitsOf(s.bucket).Local {
		info.Now = time.Now().Round(0)
	}
	return info
}

// markOnce returns what the marker says. It reads the marker again when half of the orphan age
// has passed since the last read. With makes, it creates a marker where there is none.
func (s *Store) markOnce(ctx context.Context, makes bool) (m orphanAges, err error) {
	select {
	case m = <-s.marked:
	case <-ctx.Done():
		return m, store.CheckContext(ctx)
	}
	defer func() { s.marked <- m }()
	if m.grace > 0 && m.asked.Elapsed() < m.grace/2 {
		return m, nil // it need not be read again
	}
	m, err = s.mark(ctx, makes)
	return m, err
}

// ClaimPrefix makes sure that the objects below the prefix belong to the table of the store. Each
// Store does the same before its first upload. If the prefix belongs to no table, ClaimPrefix
// claims the prefix for this table. If the prefix belongs to another table, the error is an
// [OtherTableError]; with [Options].AdoptPrefix, ClaimPrefix claims the prefix instead. If
// [Options].OrphanAge is longer than the orphan age of the table, the error is an [OrphanAgeError].
func (s *Store) ClaimPrefix(ctx context.Context) error {
	_, err := s.mark(ctx, true)
	return err
}

func (s *Store) mark(ctx context.Context, makes bool) (orphanAges, error) {
	schema, err := s.table.Schema(ctx)
	if err != nil {
		return orphanAges{}, store.MarkNotApplied(err)
	}
	asked := sysclock.Read()
	var m marker
	if makes {
		m, err = s.makeMarker(ctx, schema)
	} else {
		m, err = s.checkMarker(ctx, schema)
	}
	if err == nil && s.o.OrphanAge > m.grace() {
		err = &OrphanAgeError{Object: s.markerKey(schema), Table: m.grace(), Given: s.o.OrphanAge}
	}
	if err != nil {
		return orphanAges{}, err
	}
	return orphanAges{cmp.Or(s.o.OrphanAge, m.grace()), m.least(), asked}, nil
}

// makeMarker returns the marker of this table, and makes it where it is missing, or is to be
// adopted.
func (s *Store) makeMarker(ctx context.Context, schema Schema) (marker, error) {
	old, found, err := s.readMarker(ctx, schema)
	if err == nil && found || err != nil && !(found && s.o.AdoptPrefix) {
		return old, err
	}
	grace := cmp.Or(s.o.OrphanAge, old.grace())
	m := marker{ID: schema.id(), Name: schema.Name, Grace: grace.Milliseconds()}
	if found {
		m = old.changed(schema, grace)
	}
	err = s.putMarker(ctx, schema, m, &object.PutOptions{IfAbsent: !found})
	if err == nil {
		return m, nil
	}
	// Another program can have been faster, and a reply can be lost.
	if now, ok, checkErr := s.readMarker(ctx, schema); ok || checkErr != nil {
		return now, store.MarkNotApplied(checkErr)
	}
	return m, store.MarkNotApplied(err)
}

// putMarker writes the marker, without the condition where the bucket has none.
func (s *Store) putMarker(ctx context.Context, schema Schema, m marker, o *object.PutOptions) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	o.ContentType = "application/json"
	_, err = s.bucket.Put(ctx, s.markerKey(schema), bytes.NewReader(text), o)
	if errors.Is(err, errors.ErrUnsupported) {
		o.IfAbsent, o.IfMatch = false, ""
		_, err = s.bucket.Put(ctx, s.markerKey(schema), bytes.NewReader(text), o)
	}
	return err
}

// OrphanAge returns the orphan age of the table; see [Store.ChangeOrphanAge]. If no program has
// written to the table yet, the error matches [store.ErrMisconfigured].
func (s *Store) OrphanAge(ctx context.Context) (time.Duration, error) {
	schema, err := s.table.Schema(ctx)
	if err != nil {
		return 0, store.MarkNotApplied(err)
	}
	m, err := s.checkMarker(ctx, schema)
	if err != nil {
		return 0, err
	}
	return m.grace(), nil
}

// ChangeOrphanAge changes the orphan age of the table: the time for which sweeps keep an object
// without a reference. No writer may have a longer [Options].OrphanAge. ChangeOrphanAge may be
// called at any time.
//
// A longer orphan age applies immediately, and a sweep in progress ends with an [OrphanAgeError]. A
// shorter orphan age applies later. Each writer reads the marker again after half of its orphan
// age, and then uses the new orphan age. Sweeps use the new orphan age after one and a half times
// the old orphan age, by the bucket's clock. Until then, writes that began with the old orphan age
// can be in progress.
//
// On a bucket without conditional writes, only one program at a time may call ChangeOrphanAge.
// Otherwise a program can overwrite a longer orphan age that another program has just written.
//
// If no program has written to the table yet, the error matches [store.ErrMisconfigured]. If
// another program has changed the orphan age meanwhile, the error matches [store.ErrConflict]. If
// the new orphan age is not between [MinOrphanAge] and [MaxOrphanAge], the error matches
// [ErrInvalid].
func (s *Store) ChangeOrphanAge(ctx context.Context, grace time.Duration) error {
	if grace = grace.Truncate(time.Millisecond); !validOrphanAge(grace) {
		return fmt.Errorf("%w: the orphan age %v is not allowed; use %v to %v", ErrInvalid, grace, MinOrphanAge, MaxOrphanAge)
	}
	schema, err := s.table.Schema(ctx)
	if err != nil {
		return store.MarkNotApplied(err)
	}
	old, err := s.checkMarker(ctx, schema)
	if err != nil || old.grace() == grace {
		return err
	}
	m := old.changed(schema, grace)
	if err = s.putMarker(ctx, schema, m, &object.PutOptions{IfMatch: old.version}); err == nil {
		return nil
	}
	// The marker may be written in spite of an error: a proxy can repeat a request, and a
	// reply can be lost.
	if now, found, checkErr := s.readMarker(ctx, schema); checkErr == nil && found && now.Grace == m.Grace && now.Longer == m.Longer {
		return nil
	}
	return err
}
