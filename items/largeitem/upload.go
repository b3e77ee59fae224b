package largeitem

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// upload is an object that a call has written, or has tried to write.
type upload struct {
	ref       Reference
	began     sysclock.Reading
	orphanAge time.Duration // of the writes of the store when it began
	replied   sysclock.Reading
	age       time.Duration // of the object at the reply, by the bucket's clock; 0 if unknown
	nothing   bool          // it is certain that nothing was written
	sent      bool          // an item write with this reference was sent
}

// passed returns how long ago the upload began at least by one clock.
func (u *upload) passed() time.Duration {
	now := sysclock.Read()
	d := u.began.Until(now)
	if u.age > 0 {
		d = max(d, u.age+u.replied.Until(now))
	}
	return d
}

// uploads are those of one call.
type uploads struct {
	s       *Store
	schema  Schema
	key     Key
	bodies  map[string]*body
	updated time.Time // for the metadata

	now map[string]*upload // by attribute: what the item write refers to
	old []*upload          // that newer ones have taken the place of

	mu       sync.Mutex
	progress object.Progress
	done     map[string]int64
	total    int64
}

func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// check refuses what cannot be uploaded before anything is sent. It returns the references that the
// item will have, or shorter ones where the size is not known yet.
func (us *uploads) check() (Attributes, error) {
	refs := make(Attributes)
	for attr, b := range us.bodies {
		if err := checkAttr(attr); err != nil {
			return nil, err
		}
		if !us.s.isLarge(attr) {
			return nil, fmt.Errorf("%w: %q is not among the large attributes of this store, %q (Options.Attributes)", ErrInvalid, attr, us.s.o.Attributes)
		}
		c := us.content(b, newID())
		name, err := us.object(c)
		if err != nil {
			return nil, err
		}
		if _, err := b.metadata(us.s.layout.metadata(c, us.updated)); err != nil {
			return nil, err
		}
		refs[attr] = us.s.layout.reference(us.s.base, Reference{Object: name, Size: c.Size, SHA256: c.SHA256})
	}
	return refs, nil
}

// content is what an object is named by. Hashes that are not known yet are zero.
func (us *uploads) content(b *body, id string) Content {
	c := Content{Table: us.schema.Table, Key: us.key, Attr: b.attr, ID: id, Size: max(0, b.size), MD5: make([]byte, md5.Size), SHA256: make([]byte, sha256.Size)}
	if b.sums != nil {
		c.SHA256 = b.sums.sha()
		c.MD5 = b.sums.md5Sum()
	}
	return c
}

func (us *uploads) object(c Content) (string, error) {
	name, err := us.s.layout.name(us.schema, c)
	if err != nil {
		return "", err
	}
	if err := object.CheckKey(us.s.prefix + name); err != nil {
		return "", fmt.Errorf("%w: the object of the large attribute %q of item %v: %w", ErrKey, c.Attr, us.key, err)
	}
	return us.s.prefix + name, nil
}

// run uploads the contents of these attributes, some at a time.
func (us *uploads) run(ctx context.Context, attrs []string) error {
	if len(attrs) == 0 {
		return nil
	}
	m, err := us.s.markOnce(ctx, true)
	if err != nil {
		return err
	}
	for _, attr := range attrs {
		if before := us.now[attr]; before != nil {
			us.old = append(us.old, before)
		}
		us.now[attr] = &upload{nothing: true, orphanAge: m.grace}
	}
	us.count()
	c := workerpool.New(ctx, us.s.o.Parallel, 0)
	defer c.Close()
	slices.Sort(attrs)
	for _, attr := range attrs {
		if !c.WaitRoom(0) {
			break
		}
		u := us.now[attr]
		u.began = sysclock.Read()
		c.Go(0, func(ctx context.Context) error {
			if err := us.put(ctx, us.bodies[attr], u); err != nil {
				return fmt.Errorf("the large attribute %q: %w", attr, err)
			}
			return nil
		})
	}
	return c.Wait()
}

func (us *uploads) put(ctx context.Context, b *body, u *upload) error {
	s := us.s
	if s.layout.hashed() {
		if err := b.hash(ctx, true, spoolMemory, s.o.SpoolDir); err != nil {
			return err
		}
	}
	c := us.content(b, newID())
	name, err := us.object(c)
	if err != nil {
		return err
	}
	metadata, err := b.metadata(s.layout.metadata(c, us.updated))
	if err != nil {
		return err
	}
	r, err := b.open()
	if err != nil {
		return err
	}
	sum := newSums(ctx, r, false)
	sum.want = b.sums
	u.ref.Object = name
	u.nothing = false
	info, err := s.bucket.Put(ctx, name, sum, &object.PutOptions{
		ContentType: b.src.ContentType, Headers: b.src.Headers, StorageClass: b.src.StorageClass, Tags: b.src.Tags, Metadata: metadata, Length: max(0, b.size), Progress: us.progressOf(b.attr),
	})
	u.replied = sysclock.Read()
	switch {
	case err != nil:
		u.nothing = store.OutcomeOf(err) == store.NotApplied
		return err
	case !sum.ended || info.Size != sum.size:
		return fmt.Errorf("the bucket reports %[1]d bytes for %[2]q, but the uploaded body had %[3]d bytes", info.Size, name, sum.size)
	case b.size >= 0 && sum.size != b.size:
		return fmt.Errorf("%w: the body has %d bytes, but must have %d", ErrInvalid, sum.size, b.size)
	}
	if !info.Modified.IsZero() && !info.Now.IsZero() {
		u.age = info.Now.Sub(info.Modified)
	}
	u.ref = Reference{Object: name, Size: sum.size, SHA256: sum.sha(), MD5: c.MD5}
	if b.sums == nil {
		u.ref.MD5 = nil
	}
	u.ref.URI = s.layout.reference(s.base, u.ref)
	return nil
}

// count sets the total of the progress: the sizes of all that is uploaded.
func (us *uploads) count() {
	us.total = 0
	for attr := range us.now {
		size := us.bodies[attr].size
		if size < 0 {
			us.total = -1
			return
		}
		us.total += size
	}
}

// progressOf adds up the progress of the objects.
func (us *uploads) progressOf(attr string) object.Progress {
	if us.progress == nil {
		return nil
	}
	return func(done, _ int64) {
		us.mu.Lock()
		defer us.mu.Unlock()
		us.done[attr] = max(done, us.done[attr])
		var sum int64
		for _, n := range us.done {
			sum += n
		}
		us.progress(sum, us.total)
	}
}

// left is how long an item write may still be sent that refers to the uploads.
func (us *uploads) left(grace time.Duration) time.Duration {
	left := grace / 2
	for _, u := range us.now {
		left = min(left, min(u.orphanAge, grace)/2-u.passed())
	}
	return left
}

// oldest returns the time since the first of the uploads began that the item refers to.
func (us *uploads) oldest() time.Duration {
	var d time.Duration
	for _, u := range us.now {
		d = max(d, u.passed())
	}
	return d
}

// renew makes sure that an item may refer to the uploads. With again, it uploads again what
// is too old. It returns an error where that is not possible.
func (us *uploads) renew(ctx context.Context, again bool) error {
	if len(us.now) == 0 {
		return nil
	}
	var limit time.Duration
	for range renewals {
		m, err := us.s.markOnce(ctx, true)
		if err != nil {
			return err
		}
		var late []string
		for attr, u := range us.now {
			// A longer orphan age that was set since does not apply to this object.
			if limit = min(u.orphanAge, m.grace) / 2; u.passed() < limit {
				continue
			}
			if !again || !us.bodies[attr].again() {
				why := "the store cannot read the body a second time for a new upload; use a Body that can seek, or a longer orphan age"
				if !again {
					why = "the store cannot upload again, because an earlier attempt may have written the reference; read the item, then decide"
				}
				return fmt.Errorf("the upload of the large attribute %q began %v ago, but the item must refer to the upload within %v (half of the orphan age); %s", attr, u.passed().Round(time.Second), limit, why)
			}
			late = append(late, attr)
		}
		if len(late) == 0 {
			return nil
		}
		if err := us.run(ctx, late); err != nil {
			return err
		}
	}
	return fmt.Errorf("each of %[2]d uploads took longer than %[1]v (half of the orphan age); use a longer orphan age", limit, renewals)
}

// renewals is how often a call uploads the same content at most.
const renewals = 3

// inTime reports whether no sweep can have removed one of the uploads yet, also none that does
// not keep to the orphan age of the table.
func (us *uploads) inTime() bool { return us.oldest() < MinOrphanAge/2 }

// stillThere checks that those of the uploads are there which the item now refers to.
func (us *uploads) stillThere(ctx context.Context, item Attributes) error {
	for attr, u := range us.now {
		if item[attr] != u.ref.URI {
			continue // of another writer by now
		}
		_, err := us.s.bucket.Stat(ctx, u.ref.Object)
		switch {
		case isNotFound(err):
			return appliedError{fmt.Errorf("%w: item %v was written, but too late: %v after the start of the upload of the large attribute %q. A sweep or Abort has already removed the object %q; write the attribute again", ErrMissing, us.key, us.oldest().Round(time.Second), attr, u.ref.Object)}
		case err != nil:
			return appliedError{fmt.Errorf("item %v was written %v after the start of the upload of the large attribute %q. The store could not check whether the object still exists: %w", us.key, us.oldest().Round(time.Second), attr, err)}
		}
	}
	return nil
}

// appliedError is what is wrong with a write that was made.
type appliedError struct{ err error }

func (e appliedError) Error() string          { return e.err.Error() }
func (e appliedError) Unwrap() error          { return e.err }
func (e appliedError) Outcome() store.Outcome { return store.Applied }

// isIn reports whether the item has a reference to one of the uploads.
func (us *uploads) isIn(item Attributes) bool {
	for _, u := range us.all() {
		for attr := range us.bodies {
			if u.ref.URI != "" && item[attr] == u.ref.URI {
				return true
			}
		}
	}
	return false
}

// all returns the uploads of this write, the old ones too.
func (us *uploads) all() []*upload {
	return slices.AppendSeq(slices.Clone(us.old), maps.Values(us.now))
}

// same reports whether a reference of the item has the content of a body, so that it need
// not be uploaded. It reads the body if that is likely.
func (us *uploads) same(ctx context.Context, b *body, r Reference) (bool, error) {
	s := us.s
	if b.src.ForceUpload || b.seeker == nil || !s.unique(us.schema, r) || r.Size >= 0 && r.Size != b.size {
		return false, nil
	}
	if err := b.hash(ctx, s.layout.hashed(), spoolMemory, s.o.SpoolDir); err != nil {
		return false, err
	}
	if r.SHA256 != nil {
		return bytes.Equal(r.SHA256, b.sums.sha()), nil
	}
	if r.MD5 == nil || !bytes.Equal(r.MD5, b.sums.md5Sum()) {
		return false, nil
	}
	// An MD5 proves nothing. The hash that does is in the metadata.
	info, err := s.bucket.Stat(ctx, r.Object)
	if isNotFound(err) {
		return false, nil
	}
	return err == nil && info.Size == b.size && info.Metadata[metaSHA256] == hex.EncodeToString(b.sums.sha()), err
}

// removeTimeout is how long the removal of what a failed write has uploaded may take, also
// when the context of the write has ended.
const removeTimeout = 5 * time.Second

// discard removes what was uploaded and what no item refers to nor ever will. With sent set
// also what an item write has named.
func (us *uploads) discard(ctx context.Context, sent bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	us.remove(ctx, us.all(), sent)
}

// remove removes what was uploaded. With sent set also what an item write has named.
func (us *uploads) remove(ctx context.Context, some []*upload, sent bool) {
	for _, u := range some {
		if !u.nothing && (!u.sent || sent) {
			us.s.remove(ctx, us.key, u.ref.Object)
		}
	}
}

// expired reports whether no write can refer to an object any more that an item has referred
// to: it is older than the orphan age, by the bucket's clock. A younger one is left to the sweep,
// and so is one whose age is not known.
func (s *Store) expired(ctx context.Context, key Key, name string) bool {
	m, err := s.markOnce(ctx, false)
	var info object.Info
	if err == nil {
		if s.o.RemoveYoung {
			return true
		}
		info, err = s.bucket.Stat(ctx, name)
	}
	if err != nil {
		s.o.Logger.Warn("the age of an unused object could not be read, so the object is left to the next sweep", "item", key.String(), "object", name, "error", err)
		return false
	}
	info = s.dated(info)
	return !info.Modified.IsZero() && !info.Now.IsZero() && info.Now.Sub(info.Modified) > m.least
}

// remove deletes an object that no item refers to. A failure is left to the sweep.
func (s *Store) remove(ctx context.Context, key Key, name string) bool {
	err := s.bucket.Delete(ctx, name, nil)
	if err != nil {
		s.o.Logger.Warn("an unused object could not be removed, so it is left to the next sweep", "item", key.String(), "object", name, "error", err)
	}
	return err == nil
}

// close removes temporary files.
func (us *uploads) close() {
	for _, b := range us.bodies {
		b.close()
	}
}
