package object

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// # The protocol of a rename
//
// No store moves an object in one step. Of several renames of one state of an object to
// different destinations at most one succeeds, because one small object, the intent, decides.
// Its key is a hash of the source: of its key, version, write id and time. Its body names
// the destination and has a nonce, so no two bodies are equal, and a condition on its version
// identifies a state, on S3 as well. For that reason the intent is an object of its own:
// metadata in the source itself would not change its ETag, and the conditions of two renames
// would both hold.
//
//  1. Stat the source.
//  2. Create the intent: "begun". If there is one already, see below.
//  3. Copy, conditional on the state of the source and on the conditions of the caller. The
//     copy names the intent in its metadata. If a copy with the same intent exists already,
//     the call uses that. If there certainly is none, the call removes the intent that it
//     has created, and ends.
//  4. Replace the intent by "copied", if it still is that of this call. This step decides, and
//     no later step changes the decision.
//  5. Delete the source, if it still is in the state that was copied.
//  6. Delete the intent.
//
// A call that finds an intent
//
//   - "copied": does steps 5 and 6 for the other call. It has lost, or succeeds if it has the
//     same destination.
//   - "begun", of the same destination: an earlier call was stopped, or is slow. This call
//     replaces the intent by its own, and continues with step 3.
//   - "begun", of another destination: this call has lost, unless the intent is older than a
//     copy of this size should take ([intentAge]). Then it reads that destination. If the copy
//     exists, it does steps 4 to 6 for the other call, and has lost. Otherwise it displaces
//     the other call: it replaces the intent by its own, and continues with step 3.
//
// To displace a rename is safe at any time: it cannot do step 4 any more. The age only keeps
// renames from disturbing each other. The copy of a displaced rename may exist, or appear
// until the source is deleted, or even later. So the new intent names the destination that
// was displaced. After step 5 the call removes the copy there, and step 6 keeps such an
// intent. From it a displaced rename that wakes up late, or is called again, learns that it
// has lost. A call removes a copy only once the intent says "copied": until then a call with
// the destination of that copy can still win.
//
// A call that finds no source succeeds if the destination is the copy of a rename, and the
// intent of that rename does not exist, or names that destination, or is "begun" and has not
// displaced it: step 2 of another call can come late, after step 6.
//
// What goes wrong between two steps:
//
//   - The call stops after 2, 3, 4 or 5. A call with the same destination finishes at once. A
//     call with another destination finishes at once if the stop was after 4, and otherwise
//     after a while.
//   - The reply of 2 is lost: the next try takes the intent over. The reply of 3 is lost: the
//     outcome is unknown, and the next call finds out. The reply of 4 is lost: the id of the
//     write shows the outcome; otherwise it is unknown, and the next call finds out. A lost
//     reply of 5 or 6 changes nothing, since the rename has won already.
//   - Another program writes to the source: before 3, that is a conflict; between 3 and 5, the
//     new state stays.

const (
	// intentPrefix starts the keys of intents.
	intentPrefix = ".holdfast/rename/"

	// intentAge is how old the intent of a rename must be before a rename to another
	// destination displaces it. There is one more second for each MiB of the object.
	intentAge = time.Minute

	// maxIntent is the largest intent that is read, in bytes.
	maxIntent = 1 << 20
)

// renameIntent is the body of the object that decides about the renames of one state of a
// source.
type renameIntent struct {
	Source      string // for people
	Destination string
	Nonce       string
	Copied      bool     `json:",omitempty"` // the rename to Destination has won
	Displaced   []string `json:",omitempty"` // other destinations, where a copy may be
}

// intentName returns the name of the intent for a state. The time distinguishes an object that
// another program has created again with the same bytes from the first one.
func intentName(from Info) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d", from.Key, from.Version, from.WriteInfo.ID, from.Modified.Unix()))
	return base32.StdEncoding.EncodeToString(sum[:])[:idSize]
}

// RenameResult is the result of [Client.Rename].
type RenameResult struct {
	// Info is the object at the destination.
	Info Info

	// Resumed says that an earlier rename to the same destination had already made the copy.
	Resumed bool

	// SourceMissing says that the source was already deleted. Not every store reports that.
	SourceMissing bool
}

// Rename moves an object: it copies the object, then deletes the source. It is not atomic. Between
// the two steps both objects exist, and a crash leaves both. To finish a rename, call Rename again
// with the same destination. If several renames move one object to different destinations, at most
// one succeeds. The others get a conflict that names the destination of the winner
// ([ConflictError].RenamedTo). A reader may see the copy before Rename has returned nil. Until
// then, Rename may remove the copy again.
//
// During a rename, there is a small object below .holdfast/rename/: the intent. Until the rename
// has copied the object, other renames of the object are refused: for at most a minute, plus a
// second for each MiB.
//
// On a store that gives equal bodies equal versions, Rename does not notice a later write of the
// same bytes to the source. If another program writes the same bytes between the copy
// and the delete, Rename deletes the result of that write. The bytes are at the destination, but
// the metadata of that write is lost.
//
// The copy has two conditions: the state of the source, and the condition that the options set for
// the destination. The condition of the delete is that the source is still in the copied state. If
// the store does not honour the condition of the delete, the delete runs under a reservation
// ([Options].Reserver). Without a Reserver, Rename returns an [UnsupportedError] before it changes
// anything. The fence in the options applies to the source and the destination.
//
//   - nil: the object is at the destination, and the source is deleted.
//   - [store.ErrConflict]: not applied, because a condition did not hold or another rename was
//     faster.
//   - [store.ErrNotFound]: not applied, because there is no source, and no rename has copied it to
//     the destination.
//   - unknown: the copy or the delete may have been applied, or may still be applied. If the error
//     is a [RenameError], the copy exists, and the source may still exist.
//
// Rename sends six requests: stat, put of the intent, copy, second put of the intent, delete of the
// source, and delete of the intent.
func (c *Client) Rename(ctx context.Context, source, destination string, opts *WriteOptions) (RenameResult, error) {
	return traced(ctx, c, "rename", source, func(ctx context.Context) (RenameResult, error) {
		return c.rename(ctx, source, destination, options(opts))
	})
}

func (c *Client) rename(ctx context.Context, source, destination string, o WriteOptions) (RenameResult, error) {
	for try := 1; ; try++ {
		from, err := c.source(ctx, source, destination, o)
		var changed *ConflictError
		if errors.Is(err, store.ErrNotFound) || errors.As(err, &changed) && changed.HasCurrent && changed.Version == "" {
			return c.renamed(ctx, source, destination, o, err)
		}
		if err != nil {
			return RenameResult{}, store.MarkNotApplied(err)
		}
		r := &renaming{c: c, from: from, name: intentName(from), o: o, intent: renameIntent{Source: source, Destination: destination}}
		done, err := r.run(ctx)
		if !r.again {
			return done, err
		}
		if try >= c.o.tries || !sleep(ctx, c.o.pause, try) {
			return RenameResult{}, err
		}
	}
}

// renaming is one rename of the state from.
type renaming struct {
	c       *Client
	intents *Client // of intents, whose versions are unique
	from    Info
	name    string // of the intent
	o       WriteOptions

	intent  renameIntent
	held    Info // the current state of the intent
	created bool // by this call
	again   bool // begin again: the intent has changed
}

// prepare checks that the rename can be what it should be.
func (r *renaming) prepare(ctx context.Context) (err error) {
	// The source must be deletable before anything is copied.
	if r.o.Fence == nil {
		if _, err := r.c.wayOfDelete(ctx, condition{ifMatch: r.from.Version}, true); err != nil {
			return err
		}
	}
	if r.c.fencing && !r.o.Force {
		if err := r.from.WriteInfo.allows(r.from.Key, r.o.Fence); err != nil {
			return err
		}
	}
	if r.intents, err = r.c.intents(ctx); err != nil {
		return err
	}
	for _, on := range []condition{{ifAbsent: true}, {ifMatch: "v"}} {
		if _, err := r.intents.wayOfPut(ctx, on, true); err != nil {
			return err
		}
	}
	return nil
}

// intents returns the client that writes intents. It uses no Reserver where the store has the
// conditions, since no other program writes intents.
func (c *Client) intents(ctx context.Context) (*Client, error) {
	m := *c
	m.fencing = true // no two intents are equal
	lacks, err := c.unsupported(ctx, PutIfAbsent, PutIfMatch)
	if lacks == nil {
		m.o.Reserver = nil
	}
	return &m, err
}

func (r *renaming) run(ctx context.Context) (RenameResult, error) {
	if err := r.prepare(ctx); err != nil {
		return RenameResult{}, store.MarkNotApplied(err)
	}
	switch err := r.write(ctx, WriteOptions{IfAbsent: true}); {
	case err == nil:
		r.created = true
	case store.OutcomeOf(err) != store.NotApplied:
		// No copy follows an intent whose outcome is unknown. Another try takes it over.
		r.again = !store.Permanent(err)
		return RenameResult{}, store.MarkNotApplied(err)
	case !errors.Is(err, store.ErrConflict):
		return RenameResult{}, err
	default:
		done, over, err := r.meet(ctx)
		if over || err != nil {
			return done, err
		}
	}
	done, err := r.copy(ctx)
	if err != nil {
		if r.created && store.OutcomeOf(err) == store.NotApplied {
			r.withdraw(ctx)
		}
		return RenameResult{}, err
	}
	r.intent.Copied = true
	switch err := r.write(ctx, WriteOptions{Base: &r.held}); {
	case err == nil:
	case store.OutcomeOf(err) == store.NotApplied && errors.Is(err, store.ErrConflict):
		return r.overtaken(ctx, done)
	default:
		return done, r.half(err)
	}
	return r.finish(ctx, done)
}

// write writes the intent. If another call has replaced it since, that is a conflict.
func (r *renaming) write(ctx context.Context, o WriteOptions) error {
	r.intent.Nonce = newID()
	body, err := json.Marshal(r.intent)
	if err != nil {
		return store.MarkNotApplied(err)
	}
	o.ContentType = "application/json"
	held, err := r.intents.put(ctx, intentPrefix+r.name, bytes.NewReader(body), o)
	if err == nil && held.Version == "" {
		return &ConflictError{Key: intentPrefix + r.name}
	}
	if err == nil {
		r.held = held
	}
	return err
}

// readIntent reads the intent of this name.
func (c *Client) readIntent(ctx context.Context, name string) (renameIntent, Info, error) {
	key := intentPrefix + name
	body, info, err := ReadAll(ctx, c.bucket, key, maxIntent, nil)
	if err != nil {
		return renameIntent{}, Info{}, bare(err)
	}
	var m renameIntent
	if err := json.Unmarshal(body, &m); err != nil || m.Destination == "" {
		return renameIntent{}, Info{}, fmt.Errorf("%w: the object %q is not a rename intent; if no rename is in progress, remove that object", store.ErrCorrupt, key)
	}
	return m, withWriteInfo(info), nil
}

// half returns the error of a rename that has copied and did not finish.
func (r *renaming) half(err error) error {
	return &RenameError{Source: r.from.Key, Destination: r.intent.Destination, Err: err}
}

// faster returns the error of a rename that has lost to one to this destination.
func (r *renaming) faster(destination string) error {
	return &ConflictError{Key: r.from.Key, RenamedTo: destination}
}

// meet handles the intent that another call has written. It reports whether this call is
// over; otherwise the intent is now that of this call.
func (r *renaming) meet(ctx context.Context) (done RenameResult, over bool, err error) {
	own := r.intent.Destination
	met, held, err := r.c.readIntent(ctx, r.name)
	if errors.Is(err, store.ErrNotFound) {
		r.again = true // the other call is done, or has copied nothing
		return done, true, store.MarkNotApplied(fmt.Errorf("%w: the store refuses to create %q, although it does not exist", store.ErrUnavailable, intentPrefix+r.name))
	}
	if err != nil {
		return done, true, store.MarkNotApplied(err)
	}
	other := met.Destination
	if other != own && !met.Copied && age(held) < intentAge+time.Duration(r.from.Size>>20)*time.Second {
		return done, true, r.faster(other)
	}
	var now state
	if other != own || met.Copied {
		if now, err = r.c.current(ctx, other); err != nil {
			return done, true, store.MarkNotApplied(err)
		}
	}
	r.intent, r.held = met, held
	if !met.Copied {
		if other != own && now.copiedBy(r.name) {
			r.intent.Copied = true
		} else if other != own {
			r.intent.Destination = own
			r.intent.Displaced = append(slices.DeleteFunc(met.Displaced, func(d string) bool { return d == own }), other)
		}
		if err := r.write(ctx, WriteOptions{Base: &held}); err != nil {
			if r.again = store.OutcomeOf(err) == store.NotApplied && errors.Is(err, store.ErrConflict); r.again {
				return done, true, r.faster(other)
			}
			r.again = store.OutcomeOf(err) == store.Unknown && !store.Permanent(err)
			return done, true, store.MarkNotApplied(err)
		}
	}
	if !r.intent.Copied {
		return done, false, nil
	}
	done, err = r.finish(ctx, RenameResult{Info: now.info, Resumed: true})
	if other != own || err == nil && !now.copiedBy(r.name) { // the copy was changed or removed since
		return RenameResult{}, true, r.faster(other)
	}
	return done, true, err
}

// age returns how old a state is, by the store's clock if that is known.
func age(info Info) time.Duration {
	if info.Now.IsZero() {
		return time.Since(info.Modified)
	}
	return info.Now.Sub(info.Modified)
}

// copiedBy reports whether this is a copy that a rename with this intent has made.
func (s state) copiedBy(name string) bool {
	from := s.info.WriteInfo.From
	return !s.absent && !s.info.WriteInfo.Deleted && from != nil && from.RenameID == name
}

// copy makes the copy, unless an earlier call with the same destination has made it.
func (r *renaming) copy(ctx context.Context) (RenameResult, error) {
	o := r.o
	o.rename = r.name
	info, err := r.c.copy(ctx, r.from, r.intent.Destination, o)
	if errors.Is(err, store.ErrConflict) && store.OutcomeOf(err) == store.NotApplied {
		if now, lookErr := r.c.current(ctx, r.intent.Destination); lookErr == nil && now.copiedBy(r.name) {
			return RenameResult{Info: now.info, Resumed: true}, nil
		}
	}
	return RenameResult{Info: info}, err
}

// discard removes the copy that a rename with this intent has made.
func (c *Client) discard(ctx context.Context, name, key string) error {
	now, err := c.current(ctx, key)
	if err != nil || !now.copiedBy(name) {
		return err
	}
	return c.delete(ctx, key, WriteOptions{Base: &now.info, Fence: now.info.WriteInfo.Fence, orAbsent: true})
}

// withdraw removes the intent of a rename that has copied nothing, also if the context has
// ended. A later rename displaces an intent that stays.
func (r *renaming) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer cancel()
	if err := r.c.delete(ctx, r.held.Key, WriteOptions{Base: &r.held, orAbsent: true}); err != nil {
		r.c.o.Logger.Debug("the intent of a rename that has copied nothing was not removed", "key", r.held.Key, "error", err)
	}
}

// overtaken handles a rename that has copied, and whose intent another call has changed.
func (r *renaming) overtaken(ctx context.Context, done RenameResult) (RenameResult, error) {
	own := r.intent.Destination
	met, held, err := r.c.readIntent(ctx, r.name)
	for try := 1; err == nil && met.Destination == own && !met.Copied && try <= r.c.o.tries; try++ {
		// Another call with the same destination, which finds this copy.
		r.intent = met
		r.intent.Copied = true
		if err := r.write(ctx, WriteOptions{Base: &held}); err == nil {
			return r.finish(ctx, done)
		} else if store.OutcomeOf(err) != store.NotApplied || !errors.Is(err, store.ErrConflict) {
			return done, r.half(err)
		}
		met, held, err = r.c.readIntent(ctx, r.name)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		// Only a call with the same destination can have removed it, having done the rest.
		now, err := r.c.current(ctx, own)
		if err != nil || !now.copiedBy(r.name) {
			return done, r.half(errors.Join(errors.New("neither the rename intent nor the copy exists any more"), err))
		}
		done.SourceMissing = true
		return done, nil
	case err != nil:
		return done, r.half(err)
	case met.Destination == own && met.Copied:
		r.intent, r.held = met, held
		return r.finish(ctx, done)
	case !met.Copied:
		return done, r.half(fmt.Errorf("another rename of this object, to %q, has replaced this rename and has not finished", met.Destination))
	}
	if err := r.c.discard(ctx, r.name, own); err != nil {
		return done, r.half(fmt.Errorf("another rename of this object, to %q, has replaced this rename; removing the copy: %w", met.Destination, err))
	}
	if !r.o.IfAbsent {
		return RenameResult{}, store.MarkUnknown(fmt.Errorf("another rename has moved this object to %q; before that, this rename had overwritten the object at %q", met.Destination, own))
	}
	return RenameResult{}, r.faster(met.Destination)
}

// finish deletes the source and the intent of a rename that has won.
func (r *renaming) finish(ctx context.Context, done RenameResult) (RenameResult, error) {
	source := r.from.Key
	err := r.c.delete(ctx, source, WriteOptions{Base: &r.from, Fence: r.o.Fence, Force: r.o.Force, orAbsent: true})
	if err != nil {
		now, lookErr := r.c.current(ctx, source)
		switch {
		case lookErr != nil, !now.absent && !now.info.WriteInfo.Deleted && now.version() == r.from.Version && now.info.WriteInfo.ID == r.from.WriteInfo.ID:
			return done, r.half(err)
		case now.absent || now.info.WriteInfo.Deleted:
			done.SourceMissing, err = true, nil
		default:
			err = r.half(err) // another state, which stays
		}
	}
	r.c.clean(ctx, r.name, r.intent)
	return done, err
}

// clean removes what displaced renames have copied, and the intent, unless displaced renames
// may need it.
func (c *Client) clean(ctx context.Context, name string, m renameIntent) {
	for _, key := range m.Displaced {
		if err := c.discard(ctx, name, key); err != nil {
			c.o.Logger.Debug("the copy of a displaced rename was not removed", "key", key, "error", err)
		}
	}
	if len(m.Displaced) > 0 {
		return
	}
	// Without a condition: no call changes an intent that says "copied".
	if err := c.bucket.Delete(ctx, intentPrefix+name, nil); err != nil {
		c.o.Logger.Debug("the intent of a rename that is done was not removed", "key", intentPrefix+name, "error", err)
	}
}

// renamed answers for a rename whose source does not exist: an earlier one to this destination
// may have won.
func (c *Client) renamed(ctx context.Context, source, destination string, o WriteOptions, absent error) (RenameResult, error) {
	now, err := c.current(ctx, destination)
	if err != nil {
		return RenameResult{}, store.MarkNotApplied(err)
	}
	from := now.info.WriteInfo.From
	if now.absent || now.info.WriteInfo.Deleted || from == nil || from.RenameID == "" || from.Key != folded(source) ||
		o.SourceIfMatch != "" && from.Version != Version(folded(string(o.SourceIfMatch))) {
		return RenameResult{}, store.MarkNotApplied(absent)
	}
	m, _, err := c.readIntent(ctx, from.RenameID)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return RenameResult{}, store.MarkNotApplied(err)
	case m.Destination == destination:
		c.clean(ctx, from.RenameID, m)
	case !m.Copied && !slices.Contains(m.Displaced, destination):
		// This rename was done, and its intent removed, before a late request of another
		// rename created this intent.
	default:
		if m.Copied {
			if err := c.discard(ctx, from.RenameID, destination); err != nil {
				c.o.Logger.Debug("the copy of a displaced rename was not removed", "key", destination, "error", err)
			}
		}
		return RenameResult{}, store.MarkNotApplied(absent)
	}
	return RenameResult{Info: now.info, Resumed: true, SourceMissing: true}, nil
}

// RenameError says that a rename has copied the object, and that the source may still exist. The
// outcome is Unknown. To finish the rename, call Rename again.
type RenameError struct {
	Source, Destination string
	Err                 error // error of the delete
}

func (e *RenameError) Error() string {
	return fmt.Sprintf("the object was copied to %q, but %q was not deleted: %v", e.Destination, e.Source, e.Err)
}

// Unwrap returns Err, or nil if Err is a conflict, because an unknown outcome must not match a
// conflict.
func (e *RenameError) Unwrap() error {
	if errors.Is(e.Err, store.ErrConflict) {
		return nil
	}
	return e.Err
}

// Outcome returns Unknown.
func (e *RenameError) Outcome() store.Outcome { return store.Unknown }
