package allstores

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor/awsdoctor"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/indexbucket"
	"github.com/holdfast-go/holdfast/store"
)

// openS3 opens s3://BUCKET/PREFIX; see [s3bucket.Config] for its parameters.
func openS3(ctx context.Context, a *stores.Access, u *url.URL, _ bool) (stores.Opened, error) {
	known := probeCacheFor(u)
	return opened(s3store.Open(ctx, u.String(), &s3store.Options{Trusted: known.is(), OnVerified: known.note, Logger: a.Log()}))
}

// initS3 tests a bucket, and creates the DynamoDB table of reservations that its URL names.
func initS3(ctx context.Context, a *stores.Access, raw string) (map[string]any, error) {
	at, err := parseBucket(a, raw)
	if err != nil {
		return nil, err
	}
	r, err := at.untried(ctx, a)
	if err != nil {
		return nil, err
	}
	var table *reservationTable
	if r != nil {
		raw, table = at.Store(), r.table
		if err := r.Close(); err != nil {
			return nil, err
		}
	}
	if err := checkForeignLocks(ctx, raw); err != nil {
		return nil, err
	}
	result, err := a.Usable(ctx, raw, false)
	if err == nil && table != nil {
		result["reservations"] = table.String()
		result["reservations_made"], err = table.make(ctx, a)
	}
	return result, err
}

// checkForeignLocks refuses a bucket where locks of another program are, or another kind of store.
func checkForeignLocks(ctx context.Context, raw string) error {
	st, err := s3store.Open(ctx, raw, nil)
	if err != nil {
		return err
	}
	found, err := st.ForeignLocks(ctx)
	if errors.Is(err, store.ErrDenied) {
		return nil // locks need no listing
	}
	if err != nil {
		return err
	}
	if len(found.Legacy) > 0 {
		return fmt.Errorf("%w: another program has locks below this prefix, and its locks and Holdfast's locks do not exclude each other: %s", store.ErrUnsafe, strings.Join(found.Legacy, ", "))
	}
	if len(found.Shared) > 0 {
		return fmt.Errorf("%w: %s", store.ErrUnsafe, found.SharedText)
	}
	return nil
}

// s3Target ignores the conditions that the URL demands: doctor is to find out what the
// bucket can do.
func s3Target(ctx context.Context, a *stores.Access, u *url.URL) (_ *doctor.Target, leave func(), err error) {
	at, err := parseBucket(a, u.String())
	if err != nil {
		return nil, nil, err
	}
	r, err := at.untried(ctx, a)
	if err != nil {
		return nil, nil, err
	}
	closeTable := func() {
		if r != nil {
			r.Close()
		}
	}
	defer func() {
		if err != nil {
			closeTable()
		}
	}()
	config, err := s3bucket.ParseURL(at.Store())
	if err != nil {
		return nil, nil, err
	}
	client, err := config.Client(ctx)
	if err != nil {
		return nil, nil, err
	}
	target := awsdoctor.S3(client, config.Bucket, config.Prefix, config.Options(nil))
	if r != nil {
		target.Reserver, target.Reservations = r.Reserver, r.Name
		if t := r.table; t != nil {
			t.good.forget() // the next writer tests the table again
			awsdoctor.ReservingIn(target, t.Table, t.onAWS)
		}
	}
	return target, closeTable, nil
}

// openS3Bucket opens s3://BUCKET/KEY; see [s3bucket.Config] for its parameters. Further
// ones choose reservations (see [reservations]), and
//
//	unique_bodies=true   every body that is written has something unique, so that a fence
//	                       can be kept: see [object.Options]
//	index=self, index=URL  objects lie under names of their own, and an index in the same
//	                       bucket, or in another store, says which: see package indexbucket
func openS3Bucket(ctx context.Context, a *stores.Access, u *stores.ObjectURL) (_ stores.Bucket, err error) {
	at := &bucketURL{ObjectURL: u}
	opts := &object.Options{Logger: a.Log()}
	p, err := at.Parameters(paramDistinct, paramIndex)
	if err != nil {
		return stores.Bucket{}, err
	}
	opts.DistinctBodies = p[paramDistinct] == "true"
	if !slices.Contains([]string{"", "true", "false"}, p[paramDistinct]) {
		return stores.Bucket{}, exit.Usagef("the parameter unique_bodies of the URL %s must be true or false", at)
	}
	opened := stores.Bucket{Closer: io.NopCloser(nil), URL: "s3://" + at.Bucket.Host, ETags: true}
	r, err := at.reservations(ctx, a)
	if err != nil {
		return stores.Bucket{}, err
	}
	if r != nil {
		opened.Reservations, opts.Reserver, opened.Closer = &r.Reservations, r, r
	}
	remembered := abilitiesOf{at.Bucket, at.noConditionalPut}
	b, _, err := s3bucket.Open(ctx, at.Bucket.String(), &s3bucket.Options{AssumeAbilities: remembered.known(), Logger: a.Log()})
	if err == nil && p[paramIndex] != "" {
		err = at.openIndex(ctx, a, &opened, b, p[paramIndex])
	} else if err == nil {
		opened.Client, err = object.New(remembering{b, remembered, new(sync.Map)}, opts)
	}
	if err != nil {
		return stores.Bucket{}, errors.Join(err, opened.Close())
	}
	return opened, nil
}

const (
	paramIndex    = "index"
	paramDistinct = "unique_bodies"
)

// openIndex turns the opened bucket into one whose objects are named by an index.
func (at *bucketURL) openIndex(ctx context.Context, a *stores.Access, opened *stores.Bucket, bodies object.Bucket, index string) error {
	if opened.Reservations != nil {
		return exit.Usagef("the URL %s names an index and reservations; an index needs no reservations: remove one of the two", at)
	}
	if at.noConditionalPut {
		return exit.Usagef("the URL %s names an index, and an index needs conditional writes: remove %s=disabled", at, paramConditionalPut)
	}
	if index == "self" {
		u := *at.Bucket
		u.Path = "/.holdfast/index"
		index = u.String()
	}
	st, err := openNamed(ctx, a, paramIndex, index)
	if err != nil {
		return err
	}
	opened.Closer, opened.Index = st, st.URL
	if opened.BodiesPrefix, err = bodiesOf(ctx, st.Store, at); err != nil {
		return err
	}
	below, err := store.Prefix(st.Store, "bucket/"+at.Bucket.Host)
	if err != nil {
		return err
	}
	opened.Bodies = bodies
	b, err := indexbucket.New(below, bodies, &indexbucket.Options{Prefix: opened.BodiesPrefix})
	if err != nil {
		return err
	}
	opened.ETags = false
	opened.Client, err = object.New(b, &object.Options{Logger: a.Log()})
	return err
}

// bodiesOf returns the prefix of the bodies of an index. No other index has the same
// prefix: the first write puts its random part into a register of the index.
func bodiesOf(ctx context.Context, index store.Store, at *bucketURL) (string, error) {
	key := "bodies/" + at.Bucket.Host
	value, _, err := index.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) && at.Makes {
		if _, err = index.Put(ctx, key, "", []byte(rand.Text())); err == nil || errors.Is(err, store.ErrConflict) || store.InDoubt(err) {
			value, _, err = index.Get(ctx, key)
		}
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", exit.With(exit.NotFound, fmt.Errorf("the index of %s does not exist yet: the first put creates it", at))
	case err != nil:
		return "", err
	case len(value) != 26 || strings.Trim(string(value), "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "":
		return "", fmt.Errorf("%w: the register %s of the index does not name the prefix of its bodies", store.ErrCorrupt, key)
	}
	return ".holdfast/bodies/" + string(value) + "/", nil
}

// abilitiesOf is what the command remembers of a bucket: the abilities that its server was
// found to have, and those that are impossible there in any way. See [known].
type abilitiesOf struct {
	bucket *url.URL

	noConditionalPut bool // the user says so, whatever was found
}

func (o abilitiesOf) one(a object.Ability, has string) probeCache {
	u := *o.bucket
	q := u.Query()
	q.Set(has, string(a))
	u.RawQuery = q.Encode()
	return probeCacheFor(&u)
}

func (o abilitiesOf) has(a object.Ability) probeCache { return o.one(a, "server") }

func (o abilitiesOf) lacks(a object.Ability) probeCache { return o.one(a, "lacks") }

// known returns the abilities that the server was found to have.
func (o abilitiesOf) known() []object.Ability {
	return slices.DeleteFunc(object.Abilities(), func(a object.Ability) bool { return !o.has(a).is() })
}

// noteS3 makes the next run test again what the server of a bucket can do. It never notes that a bucket is
// safe: before the first write, a run must search for registers of s3+versioned:// with the same prefix.
// They can be there since doctor has run.
func noteS3(a *stores.Access, u *url.URL, _ bool) {
	noteVerdict(a, u, false)
	at, err := parseBucket(a, u.String())
	if err != nil {
		return
	}
	p, err := at.Parameters(append([]string{paramIndex, paramDistinct}, ReservationParameters...)...)
	if err == nil {
		_, err = at.settingOf(p)
	}
	if err != nil {
		return
	}
	known := abilitiesOf{bucket: at.Bucket}
	for _, ability := range object.Abilities() {
		known.has(ability).forget()
		known.lacks(ability).forget()
	}
}

// bucketURL is the URL of an object in a bucket, or of a bucket.
type bucketURL struct {
	*stores.ObjectURL
	noConditionalPut bool // its parameters say that conditional puts are off
}

func parseBucket(a *stores.Access, raw string) (*bucketURL, error) {
	at, err := a.ParseObject(raw, false)
	return &bucketURL{ObjectURL: at}, err
}

// remembering is a bucket that remembers the abilities that were found.
type remembering struct {
	*s3bucket.Bucket
	abilitiesOf
	lacking *sync.Map // what this run has found out, by ability: an error
}

// Unwrap implements [object.As].
func (r remembering) Unwrap() object.Bucket { return r.Bucket }

// Verify implements [object.Verifier].
func (r remembering) Verify(ctx context.Context, abilities ...object.Ability) error {
	for _, a := range abilities {
		if r.noConditionalPut && slices.Contains([]object.Ability{object.PutIfAbsent, object.PutIfMatch, object.PartsIfAbsent, object.PartsIfMatch}, a) {
			return &object.UnsupportedError{Ability: a, Found: "the URL says conditional_put=disabled"}
		}
		if found, ok := r.lacking.Load(a); ok {
			return found.(error)
		}
		if r.lacks(a).is() {
			return &object.UnsupportedError{Ability: a, Found: "this is the result of an earlier test; to test again, call holdfast doctor"}
		}
		err := r.Bucket.Verify(ctx, a)
		switch {
		case object.TraitsOf(r.Bucket).Trusted:
		case err == nil:
			for _, found := range r.Bucket.KnownAbilities() {
				if !r.has(found).is() {
					r.has(found).note()
				}
			}
		case errors.Is(err, errors.ErrUnsupported):
			r.lacks(a).note()
			r.lacking.Store(a, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
