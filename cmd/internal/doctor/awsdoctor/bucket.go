// Package awsdoctor examines stores of AWS: buckets of S3, tables of DynamoDB, and the reservations of
// writers in such a table. Each function returns a target for package doctor.
package awsdoctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/compat/s3verstore"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// bucket is the examination of a bucket on S3.
type bucket struct {
	client *s3.Client
	name   string
	prefix string // ends with a slash unless it is empty

	b      *s3bucket.Bucket // as programs use it
	native *s3bucket.Bucket // sends every condition without changing it
	st     *s3store.Store
	e      *doctor.Examination
	lacks  bool // a condition that leases need is not honoured

	// other are registers of the other kind of store that lie below the prefix, and
	// otherErr says why that is not known.
	other    []string
	otherErr error
}

// S3 returns the target of a bucket on S3. All registers are below the prefix. The options must not set a
// scratch prefix.
func S3(client *s3.Client, name, prefix string, opts *s3bucket.Options) *doctor.Target {
	p := &bucket{client: client, name: name, prefix: doctor.Folder(prefix)}
	return &doctor.Target{
		Kind: "s3", Name: strings.TrimSuffix("s3://"+name+"/"+p.prefix, "/"),
		Begin: func(ctx context.Context, e *doctor.Examination) error { return p.begin(ctx, e, opts) },
		Steps: func(*doctor.Examination) []doctor.Step { return p.steps() },
		Clean: func(ctx context.Context, _ *doctor.Examination) []string { return p.clean(ctx) },
		Killed: func(ctx context.Context, before time.Time, dryRun bool) (int, error) {
			b, err := s3bucket.New(client, name, opts)
			if err != nil {
				return 0, err
			}
			return sweepBucket(b, client, p.prefix)(ctx, before, dryRun)
		},
		Right: func(op string) string {
			return map[string]string{
				"get": "s3:GetObject (and s3:ListBucket: without this right, S3 answers 403 for a missing object)", "stat": "s3:GetObject",
				"put": "s3:PutObject", "copy": "s3:GetObject and s3:PutObject", "delete": "s3:DeleteObject", "list": "s3:ListBucket",
			}[op]
		},
	}
}

func (p *bucket) begin(ctx context.Context, e *doctor.Examination, opts *s3bucket.Options) error {
	p.e = e
	o := *cmp.Or(opts, &s3bucket.Options{})
	o.ProbePrefix = p.below("objects/tried")
	var err error
	if p.b, err = s3bucket.New(p.client, p.name, &o); err != nil {
		return err
	}
	p.native = p.b.WithAbilities(object.Abilities()...)
	p.st, err = doctor.UseNew(e, func() (*s3store.Store, error) {
		// Trusted: what the registers do is to be seen, whatever the conditions of
		// the bucket are worth.
		return s3store.New(p.b, p.prefix, &s3store.Options{Trusted: true})
	})
	if err != nil {
		return err
	}
	return e.Look(ctx)
}

// below is the key of an object of ours.
func (p *bucket) below(name string) string {
	return p.prefix + p.e.Dir + "/" + name
}

func (p *bucket) steps() []doctor.Step {
	steps := []doctor.Step{doctor.Single("rights", "rights", true, p.rights)}
	for _, a := range abilities {
		steps = append(steps, doctor.Single(string(a.ability), a.what, a.needed, func(ctx context.Context, c doctor.Check) []doctor.Check { return p.ability(ctx, c, a) }))
	}
	return append(steps,
		doctor.Single("objects", "conditional writes of objects", false, p.objects),
		doctor.Single("deleted-object", "create-if-absent where an object was deleted", false, p.deleted),
		doctor.Step{ID: "equal-bodies", What: "equal bodies", Needed: true, Run: p.equalBodies},
		doctor.Single("list-objects", "listing objects that were just written", false, p.list),
		doctor.Step{ID: "clock", What: "the store's clock", Needed: true, Run: p.clock},
		doctor.Step{ID: "legacy", What: oldLocks.what, Needed: false, Run: p.foreignLocks}, // before the advice of the next
		doctor.Step{ID: "settings", What: "settings of the bucket", Needed: false, Run: p.settings},
	)
}

// rights tries each kind of request once, to find missing rights.
func (p *bucket) rights(ctx context.Context, c doctor.Check) []doctor.Check {
	var r doctor.Rights
	key := p.below("objects/rights")
	_, put := p.put(ctx, key, "Holdfast tests its rights with this object. You can delete it.\n", nil)
	r.Tried("s3:PutObject", "programs can take no lock: grant this right on the prefix", true, put)
	var absent error
	if put == nil {
		_, _, err := object.ReadAll(ctx, p.native, key, 1<<10, nil)
		r.Tried("s3:GetObject", "programs can read no lock: grant this right on the prefix", true, err)
		if err == nil {
			_, _, absent = object.ReadAll(ctx, p.native, key+"-not", 1<<10, nil)
			r.Tried("s3:ListBucket", "without this right, S3 answers 403 for a missing object, so programs can take no new lock: grant this right on the bucket", true, absent)
		}
		r.Tried("s3:DeleteObject", "leases do not need this right, but object rm and object mv need it; doctor could not remove its test objects", false, p.native.Delete(ctx, key, nil))
	}
	if !errors.Is(absent, store.ErrDenied) {
		var err error
		for _, err = range p.native.List(ctx, p.below("objects/"), nil) {
			break
		}
		r.Tried("s3:ListBucket", "ls, watch and sweep do not work: grant this right on the bucket", false, err)
	}
	switch {
	case len(r.Missing) > 0:
		return r.Missing
	case put != nil:
		return p.e.Failed(c, put)
	}
	return c.OK("reading, writing, listing and deleting are allowed")
}

// strategies are the rungs of the ladder, the best first, for people.
var strategies = []struct {
	rung object.Strategy
	text string
}{
	{object.StrategyCondition, "the store's own condition"},
	{object.StrategyMultipart, "the completion of an upload in parts"},
	{object.StrategyDownloadUpload, "reading the source, and a conditional put"},
	{object.StrategyReservation, "a reservation"},
	{object.StrategyNone, "not possible"},
}

// objects reports how each kind of conditional write of an object is made safe. Other
// checks report a condition that the store lacks.
func (p *bucket) objects(ctx context.Context, c doctor.Check) []doctor.Check {
	client, err := object.New(p.b, &object.Options{Reserver: p.e.Target.Reserver})
	if err != nil {
		return p.e.Failed(c, err)
	}
	steps, err := client.Strategies(ctx)
	if err != nil {
		return p.e.Failed(c, err)
	}
	var found []string
	none := false
	for _, r := range strategies {
		var by []string
		for _, s := range steps {
			if s.Strategy == r.rung {
				by = append(by, string(s.Ability))
			}
		}
		if len(by) > 0 {
			text := r.text
			if r.rung == object.StrategyReservation {
				text += " in " + p.e.Target.Reservations
			}
			found = append(found, strings.Join(by, ", ")+": "+text)
			none = none || r.rung == object.StrategyNone
		}
	}
	means := "fences do not work here, because equal bodies have equal versions: add index=self to the URL of the object (or unique_bodies=true, if no two bodies are equal)"
	if none {
		means = "for the missing conditions, add reserve=URL (such as dynamodb://TABLE) or index=URL to the URL of the object; " + means
	}
	return c.As(doctor.OK, strings.Join(found, "; "), means)
}

// ability is a condition that a server may keep.
type ability struct {
	ability object.Ability
	what    string
	needed  bool
	without string // what Holdfast does
}

var abilities = [...]ability{
	{object.PutIfAbsent, "PUT if absent (If-None-Match)", true, "two programs could hold one lock at the same time; Holdfast refuses leases here"},
	{object.PutIfMatch, "PUT if unchanged (If-Match)", true, "two programs could hold one lock at the same time; Holdfast refuses leases here"},
	{object.DeleteIfMatch, "DELETE if unchanged", false, "Holdfast refuses object rm --if-match; leases do not need this condition"},
	{object.DeleteOrAbsent, "DELETE if unchanged, or absent", false, "Holdfast refuses object mv; leases do not need this condition"},
	{object.CopySource, "COPY if the source is unchanged", false, "Holdfast refuses object mv and conditional object cp; leases do not need this condition"},
	{object.CopyIfAbsent, "COPY if the destination is absent", false, ""},
	{object.CopyIfMatch, "COPY if the destination is unchanged", false, ""},
	{object.PartsIfAbsent, "upload in parts if absent", false, "Holdfast refuses conditions for large objects; leases do not need this condition"},
	{object.PartsIfMatch, "upload in parts if unchanged", false, "Holdfast refuses conditions for large objects; leases do not need this condition"},
}

// ability tries a condition where it holds and where it does not. Then it checks that the
// object has the right content.
func (p *bucket) ability(ctx context.Context, c doctor.Check, a ability) []doctor.Check {
	var err error
	switch {
	case a.ability != object.PartsIfAbsent && a.ability != object.PartsIfMatch:
		var found map[object.Ability]error
		if found, err = object.Probe(ctx, p.native, p.below("objects/tried"), a.ability); err == nil {
			err = found[a.ability]
		}
	case p.b.OnAWS():
		return c.As(doctor.NotTested, "not tested here, because Amazon S3 documents it", "")
	default:
		err = p.b.Verify(ctx, a.ability) // it knows how to upload little in parts
	}
	var lacking *object.UnsupportedError
	switch {
	case err == nil:
		return c.OK("the server obeys the condition; a refused request changed nothing")
	case !errors.As(err, &lacking):
		return p.e.Failed(c, err)
	}
	found := cmp.Or(lacking.Found, "not supported")
	switch {
	case a.needed:
		p.lacks = true
		return c.Unsafe(found, a.without)
	case a.without == "":
		return c.Warn(found, p.copyInstead(ctx, a.ability))
	}
	return c.Warn(found, a.without)
}

// copyInstead says how Holdfast copies if the server ignores a condition of copies.
func (p *bucket) copyInstead(ctx context.Context, a object.Ability) string {
	if p.b.Verify(ctx, a) == nil {
		return "Holdfast copies by an upload in parts instead, because the server obeys the condition there"
	}
	return "Holdfast refuses conditional copies; leases do not need them"
}

func (p *bucket) put(ctx context.Context, key, body string, opts *object.PutOptions) (object.Version, error) {
	var info object.Info
	err := p.e.NoteObject(key, func() (err error) {
		info, err = p.native.Put(ctx, key, strings.NewReader(body), opts)
		return err
	})
	return info.Version, err
}

func (p *bucket) deleted(ctx context.Context, c doctor.Check) []doctor.Check {
	key := p.below("objects/deleted")
	_, err := p.put(ctx, key, "1", nil)
	if err == nil {
		err = p.native.Delete(ctx, key, nil)
	}
	if err == nil {
		_, err = p.put(ctx, key, "2", &object.PutOptions{IfAbsent: true})
	}
	switch {
	case errors.Is(err, store.ErrConflict):
		return c.Warn("the server refused to create the object: it treats a delete marker as an object", "if a user deletes the object of a lock, programs cannot take the lock until a user removes the marker; Holdfast never deletes objects of locks")
	case errors.Is(err, errors.ErrUnsupported):
		return c.As(doctor.NotTested, "the server does not support conditions", "")
	case err != nil:
		return p.e.Failed(c, err)
	}
	return c.OK("it succeeds")
}

// equalBodies: equal bodies may have equal ETags, different ones may not.
func (p *bucket) equalBodies(ctx context.Context) []doctor.Check {
	c := doctor.Finding("equal-bodies", "ETags of equal and of different bodies", true)
	var tags [3]object.Version
	for i, body := range []string{"one", "two", "one"} {
		var err error
		if tags[i], err = p.put(ctx, p.below("objects/equal"), body, nil); err != nil {
			return p.e.Failed(c, err)
		}
	}
	switch {
	case tags[0] == tags[1] || tags[0] == "":
		return c.Unsafe("different bodies have the same ETag", "a program could not distinguish an old state from the present state; Holdfast refuses leases here")
	case tags[0] == tags[2]:
		return c.As(doctor.OK, "equal bodies have equal ETags", "this is no problem: every record of Holdfast contains a random value, so no two records are equal")
	}
	return c.OK("every write has a different ETag")
}

func (p *bucket) list(ctx context.Context, c doctor.Check) []doctor.Check {
	dir := p.below("objects/listed/")
	for i := range 3 {
		if _, err := p.put(ctx, fmt.Sprintf("%s%d", dir, i), "x", nil); err != nil {
			return p.e.Failed(c, err)
		}
	}
	n := 0
	for _, err := range p.native.List(ctx, dir, nil) {
		if err != nil {
			return p.e.Failed(c, err)
		}
		n++
	}
	if n != 3 {
		return c.Warn(fmt.Sprintf("a listing shows %d of 3 new objects", n), "listings are late, so ls, sweep and item sweep can miss new objects; leases use no listings")
	}
	return c.OK("complete")
}

// clock compares the store's clock with ours, and with the times that the store writes on
// objects. Waiters use both to judge whether a holder died long ago.
func (p *bucket) clock(ctx context.Context) []doctor.Check {
	c := doctor.Finding("clock", "the store's clock (Date, Last-Modified)", true)
	key := p.below("objects/clock")
	written := time.Now()
	if _, err := p.put(ctx, key, "tick", nil); err != nil {
		return p.e.Failed(c, err)
	}
	began := time.Now()
	r, err := p.native.Get(ctx, key, nil)
	if err != nil {
		return p.e.Failed(c, err)
	}
	_, _ = io.Copy(io.Discard, r) // the content is of no interest
	r.Close()
	took := time.Since(began)
	const ttl = "a waiter must watch the lock of a dead holder for the TTL before it takes the lock"
	if r.Info.Now.IsZero() || r.Info.Modified.IsZero() {
		return c.Warn("replies have no Date header, or come from a cache", ttl)
	}
	// Both have whole seconds: the store's is on average half a second later.
	apart := r.Info.Now.Add(time.Second / 2).Sub(began.Add(took / 2))
	lag := r.Info.Now.Sub(r.Info.Modified)
	wrong := lag - time.Since(written) // at least by so much
	found := fmt.Sprintf("%s; Last-Modified has whole seconds, and is %v behind Date", offset(apart, took), lag)
	if r.Info.Modified.Nanosecond() != 0 {
		found = strings.Replace(found, "has whole seconds", "has fractions", 1)
	}
	switch {
	case wrong > s3store.DefaultMaxClockSkew:
		return c.Unsafe(found, "the wrong times make living holders look dead: other clients would take their locks")
	case apart.Abs() > s3store.DefaultMaxClockSkew:
		return c.Warn(found, "check the clock of this machine: above a difference of "+s3store.DefaultMaxClockSkew.String()+", Holdfast does not use the ages of records, and "+ttl)
	case wrong > 2*time.Second || lag < -time.Second:
		return c.Warn(found, "this is no problem: Holdfast subtracts "+s3store.DefaultMaxClockSkew.String()+" from every age")
	}
	return c.OK("%s", found)
}

// offset describes how far a clock is from ours. The longer the answer took, the less it
// says.
func offset(apart, took time.Duration) string {
	switch {
	case apart.Abs() < 1500*time.Millisecond+took/2:
		return "within a second of this machine's clock"
	case apart > 0:
		return fmt.Sprintf("%v ahead of this machine's clock", apart.Round(time.Second))
	}
	return fmt.Sprintf("%v behind this machine's clock", -apart.Round(time.Second))
}

// oldLocks says what locks of programs are that take the oldest version for the owner.
var oldLocks = struct{ what, means string }{
	"locks of other programs that use object versions",
	"locks of such programs can have two owners: end these programs and remove all versions of their objects, or use another prefix",
}

// oldAtRoot says what such locks are that do not lie below the prefix.
const oldAtRoot = "Holdfast refuses locks with these names; locks with other names are safe"

// otherKind is what the other kind of store is that has the same prefix.
const otherKind = "stores of Holdfast of another kind"

// foreignLocks looks for what Holdfast's locks do not exclude: locks of another program, and
// another kind of store with the same prefix.
func (p *bucket) foreignLocks(ctx context.Context) []doctor.Check {
	c, kind := doctor.Finding("legacy", oldLocks.what, false), doctor.Finding("kinds", otherKind, false)
	found, err := p.st.ForeignLocks(ctx)
	if err != nil {
		p.otherErr = err
		return append(p.e.Failed(c, err), p.e.Failed(kind, err)...)
	}
	p.other = found.Other
	var checks []doctor.Check
	switch {
	case len(found.Legacy) > 0:
		checks = c.Unsafe(strings.Join(found.Legacy, ", "), "those locks and Holdfast's locks do not exclude each other; "+oldLocks.means)
	case len(found.LegacyAtRoot) > 0:
		checks = c.Warn(strings.Join(found.LegacyAtRoot, ", "), oldAtRoot)
	default:
		checks = c.OK("none found")
	}
	checks = append(checks, amongLocks(found.Objects)...)
	switch {
	case len(found.Shared) > 0:
		return append(checks, kind.Unsafe(doctor.Some(found.Shared), found.SharedText)...)
	case len(found.Other) > 0:
		return append(checks, kind.OK("none with this prefix; %s is below it", found.Other[0])...)
	}
	return append(checks, kind.OK("none found")...)
}

// amongLocks is the check for objects of other programs among the locks.
func amongLocks(objects []string) []doctor.Check {
	c := doctor.Finding("objects-among-locks", "objects of other programs among the locks", false)
	if len(objects) == 0 {
		return c.OK("none found")
	}
	return c.Warn(doctor.Some(objects), "a program that writes objects here can overwrite a lock: move these objects to another prefix")
}

// settings checks the bucket's settings. If the bucket keeps every version, renewals pile
// up.
func (p *bucket) settings(ctx context.Context) []doctor.Check {
	c := doctor.Finding("versioning", "versioning", false)
	s, err := p.b.Settings(ctx)
	if err != nil {
		return p.e.Failed(c, err)
	}
	var checks []doctor.Check
	unknown := func(c doctor.Check, name, right string) bool {
		err := s.Unreadable[name]
		if err == nil {
			return false
		}
		c.Result, c.Found = doctor.NotTested, err.Error()
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			c.Found = "the server does not support this request"
		case errors.Is(err, store.ErrDenied):
			c.Found, c.Means = doctor.Reason(err), "needs the right "+right
		}
		checks = append(checks, c)
		return true
	}
	if !unknown(c, "versioning", "s3:GetBucketVersioning") {
		if p.lacks && s.Versioning == string(types.BucketVersioningStatusEnabled) {
			c.Advice = []doctor.Advice{{
				What: "this store uses the versions of the bucket instead of conditions; each write takes some seconds",
				Text: strings.Replace(p.e.Target.Name, "s3://", s3verstore.Scheme+"://", 1),
			}}
		}
		checks = append(checks, p.versioning(c, s)...)
	}
	c = doctor.Finding("object-lock", "Object Lock", false)
	if !unknown(c, "object lock", "s3:GetBucketObjectLockConfiguration") {
		switch {
		case s.DefaultRetention > 0:
			checks = append(checks, c.Warn(fmt.Sprintf("the bucket keeps every version for %d days", s.DefaultRetention/(24*time.Hour)),
				"every renewal of a lock is a version, and the bucket keeps this version for that time; use another bucket for locks")...)
		case s.ObjectLock:
			checks = append(checks, c.OK("on, without a default retention")...)
		default:
			checks = append(checks, c.OK("off")...)
		}
	}
	if s.Versioning != "" {
		c = doctor.Finding("lifecycle", "lifecycle rule for old versions", false)
		if !unknown(c, "lifecycle", "s3:GetLifecycleConfiguration") && s.ExpiresVersions {
			checks = append(checks, c.OK("the bucket has such a rule")...)
		}
	}
	for _, rule := range s.Rules {
		if rule.Expires && (strings.HasPrefix(rule.Prefix, p.prefix) || strings.HasPrefix(p.prefix, rule.Prefix)) {
			c = doctor.Finding("lifecycle-current", "lifecycle rules that delete current objects", false)
			return append(checks, c.Warn(fmt.Sprintf("%q (%s)", rule.ID, rule.Action), "the rule deletes checkpoints, and locks that were not held for a long time: exclude the prefix from the rule")...)
		}
	}
	return checks
}

func (p *bucket) versioning(c doctor.Check, s s3bucket.Settings) []doctor.Check {
	switch {
	case s.Versioning == "":
		return c.OK("off")
	case p.lacks && s.Versioning == string(types.BucketVersioningStatusEnabled):
		// The advised store would keep its registers in versions: do not advise removing
		// them.
		if s.ExpiresVersions {
			return c.Warn(s.Versioning+", and a rule removes old versions", "the rule would destroy locks in the store that is named below, because that store needs old versions: remove the rule before you use that store")
		}
		return c.OK("%s", s.Versioning)
	case s.ExpiresVersions:
		return c.OK("%s, and a rule removes old versions", s.Versioning)
	case len(p.other) > 0:
		return c.Warn(s.Versioning, "every renewal is a version, and no rule may remove old versions, because the locks of "+p.other[0]+" need them: put one of the two stores into another bucket")
	case p.otherErr != nil:
		return c.Warn(s.Versioning, "every renewal is a version, 8,640 a day for each lock: let a lifecycle rule remove old versions, unless an "+s3verstore.Scheme+":// store is below the prefix (doctor could not list it)")
	case s.Unreadable["lifecycle"] != nil:
		c.Advice = append(c.Advice, p.rule()...)
		return c.Warn(s.Versioning, "every renewal is a version: let a lifecycle rule remove old versions")
	}
	c.Advice = append(c.Advice, p.rule()...)
	return c.Warn(s.Versioning+", and no rule removes old versions", "every renewal is a version, 8,640 a day for each lock: set the lifecycle rule below")
}

func (p *bucket) rule() []doctor.Advice {
	return []doctor.Advice{{
		What: "lifecycle rule, for: aws s3api put-bucket-lifecycle-configuration --bucket " + p.name + " --lifecycle-configuration file://rule.json (this command replaces all rules of the bucket, so add the present rules to the file; the rule destroys the locks of an " + s3verstore.Scheme + ":// store below the prefix)",
		Text: s3bucket.LifecycleRule(cmp.Or(p.prefix, "lock/")),
	}}
}

// clean removes what is below our prefix, old versions and delete markers too. A listing
// may lag, so clean also removes keys that it does not show but that doctor may have made.
func (p *bucket) clean(ctx context.Context) []string {
	if p.native == nil || p.st == nil {
		return nil
	}
	dir := p.below("")
	keys := p.e.Objects() // all that may have been made
	for _, key := range p.e.Made() {
		keys[p.st.ObjectKey(key)]++
	}
	if len(keys) == 0 {
		return nil // doctor has made nothing
	}
	var left []string
	for info, err := range p.native.List(ctx, dir, nil) {
		if err != nil {
			break // of these keys are probes alone, which clean up after themselves
		}
		keys[info.Key]++
	}
	for key := range keys {
		if err := p.native.Delete(ctx, key, nil); err != nil && !errors.Is(err, store.ErrNotFound) {
			left = append(left, key)
		}
	}
	if len(left) > 0 {
		return []string{fmt.Sprintf("up to %d objects below %s (removing needs the right s3:DeleteObject)", len(left), dir)}
	}
	// A bucket without versions has nothing more to remove. A server that does not know
	// this request has no versions.
	s, err := p.b.Settings(ctx)
	if err == nil && s.Versioning == "" && !errors.Is(s.Unreadable["versioning"], store.ErrDenied) {
		return nil
	}
	return p.cleanVersions(ctx, dir)
}

func (p *bucket) cleanVersions(ctx context.Context, dir string) (left []string) {
	err := eachVersion(ctx, p.client, p.name, dir, func(id types.ObjectIdentifier) error {
		_, err := p.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &p.name, Key: id.Key, VersionId: id.VersionId})
		if err != nil {
			left = append(left, aws.ToString(id.Key))
		}
		return nil
	})
	if err != nil {
		return []string{"old versions below " + dir + ", if the bucket keeps any (finding them needs the right s3:ListBucketVersions)"}
	}
	if len(left) > 0 {
		return []string{fmt.Sprintf("%d old versions below %s (kept by Object Lock, or the right s3:DeleteObjectVersion is missing)", len(left), dir)}
	}
	return nil
}
