// Package gcpdoctor examines buckets of Google Cloud Storage. It returns a target for package doctor.
package gcpdoctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/trial"
	"github.com/holdfast-go/holdfast/gcp/gcsbucket"
	"github.com/holdfast-go/holdfast/gcp/gcsstore"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// bucket is the examination of a bucket.
type bucket struct {
	b      *gcsbucket.Bucket
	prefix string // ends with a slash unless it is empty
	st     *gcsstore.Store
	e      *doctor.Examination
}

// Bucket returns the target of a bucket. All registers are below the prefix.
func Bucket(b *gcsbucket.Bucket, prefix string) *doctor.Target {
	p := &bucket{b: b, prefix: doctor.Folder(prefix)}
	return &doctor.Target{
		Kind: "gcs", Name: strings.TrimSuffix("gs://"+b.Name()+"/"+p.prefix, "/"),
		Begin: p.begin,
		Steps: func(*doctor.Examination) []doctor.Step {
			return []doctor.Step{
				doctor.Single("conditions", "conditional requests", true, p.conditions),
				{ID: "settings", What: "settings of the bucket", Needed: false, Run: p.settings},
			}
		},
		Clean:  func(ctx context.Context, _ *doctor.Examination) []string { return p.clean(ctx) },
		Killed: p.sweep,
		Right: func(op string) string {
			return map[string]string{
				"get":    "storage.objects.get (and storage.objects.list: without this right, the service answers 403 for a missing object)",
				"put":    "storage.objects.create and storage.objects.delete (to replace an object)",
				"delete": "storage.objects.delete", "list": "storage.objects.list",
			}[op]
		},
	}
}

func (p *bucket) begin(ctx context.Context, e *doctor.Examination) (err error) {
	p.e = e
	p.st, err = doctor.UseNew(e, func() (*gcsstore.Store, error) {
		// Trusted: what the registers do is to be seen.
		return gcsstore.New(p.b, p.prefix, &gcsstore.Options{Trusted: true})
	})
	if err != nil {
		return err
	}
	if object.TraitsOf(p.b).Trusted {
		e.Slow(time.Second) // one write a second for each object
	}
	return e.Look(ctx)
}

// conditions tests each condition that the bucket does not know yet.
func (p *bucket) conditions(ctx context.Context, c doctor.Check) []doctor.Check {
	b := p.b.WithAbilities(p.prefix + p.e.Dir + "/objects/tried")
	var lacking, leases []string
	for _, a := range object.Abilities() {
		err := b.Verify(ctx, a)
		switch {
		case err == nil:
		case !errors.Is(err, errors.ErrUnsupported):
			return p.e.Failed(c, err)
		case a == object.PutIfAbsent || a == object.PutIfMatch:
			leases = append(leases, string(a))
		default:
			lacking = append(lacking, string(a))
		}
	}
	switch {
	case len(leases) > 0:
		return c.Unsafe("the server ignores "+strings.Join(leases, ", "), "two programs could hold one lock at the same time; Holdfast refuses leases here")
	case len(lacking) > 0:
		return c.Warn("the server ignores "+strings.Join(lacking, ", "), "Holdfast refuses such changes of objects; leases do not need these conditions")
	case object.TraitsOf(b).Trusted:
		return c.OK("Google documents all that Holdfast uses")
	}
	return c.OK("the server obeys each condition; a refused request changed nothing")
}

func (p *bucket) settings(ctx context.Context) []doctor.Check {
	a, err := p.b.Settings(ctx)
	c := doctor.Finding("settings", "settings of the bucket", false)
	if errors.Is(err, store.ErrDenied) {
		return c.As(doctor.NotTested, doctor.Reason(err), "needs the right storage.buckets.get")
	}
	if err != nil {
		return p.e.Failed(c, err)
	}
	var checks []doctor.Check
	add := func(more []doctor.Check) { checks = append(checks, more...) }

	c = doctor.Finding("retention", "retention policy and holds", true)
	const another = "programs can neither renew nor release a lock: use another bucket for locks"
	switch {
	case a.Retention > 0:
		add(c.Unsafe(fmt.Sprintf("the service refuses to replace an object that is younger than %v", a.Retention), another))
	case a.EventBasedHold:
		add(c.Unsafe("each new object gets an event-based hold", another))
	default:
		add(c.OK("none"))
	}

	c = doctor.Finding("versioning", "object versioning", false)
	switch {
	case !a.Versioning:
		add(c.OK("off"))
	case a.DeletesNoncurrent:
		add(c.OK("on, and a rule deletes noncurrent versions"))
	default:
		add(c.Warn("on, and no rule deletes noncurrent versions", "every renewal is a version, 8,640 a day for each lock: add a lifecycle rule that deletes noncurrent versions, or use another bucket"))
	}

	c = doctor.Finding("soft-delete", "soft delete", false)
	if a.SoftDelete > 0 {
		add(c.As(doctor.OK, fmt.Sprintf("on, for %v", a.SoftDelete), "the service keeps each replaced state of a lock for that time, up to 8,640 small objects a day for each lock, and charges for them"))
	} else {
		add(c.OK("off"))
	}

	c = doctor.Finding("lifecycle", "lifecycle rules that delete current objects", false)
	if a.DeletesCurrent {
		add(c.Warn("the bucket has such a rule", "if the rule deletes the object of a lock, tokens of the lock may not rise: exclude the prefix of the locks from the rule"))
	} else {
		add(c.OK("none"))
	}

	c = doctor.Finding("storage-class", "storage class of new objects", false)
	switch a.StorageClass {
	case "NEARLINE", "COLDLINE", "ARCHIVE":
		add(c.Warn(a.StorageClass, "the service charges for each state of a lock as if it were stored for 30 days or more: use a bucket with the class STANDARD"))
	default:
		add(c.OK("%s", a.StorageClass))
	}

	c = doctor.Finding("bucket", "other settings", false)
	var on []string
	if a.RequesterPays {
		on = append(on, "the requester pays")
	}
	if a.HierarchicalNamespace {
		on = append(on, "hierarchical namespace")
	}
	if len(on) == 0 {
		on = []string{"nothing that matters"}
	}
	add(c.OK("%s", strings.Join(on, ", ")))
	return checks
}

// clean removes what may have been made. The probes clean up after themselves.
func (p *bucket) clean(ctx context.Context) (left []string) {
	if p.st == nil {
		return nil
	}
	made := p.e.Made()
	for _, key := range made {
		if err := p.b.Delete(ctx, p.st.ObjectKey(key), nil); err != nil {
			left = append(left, p.st.ObjectKey(key))
		}
	}
	if len(left) > 0 {
		left = []string{fmt.Sprintf("%d objects below %s (removing needs the right storage.objects.delete)", len(left), p.prefix+p.e.Dir)}
	}
	if len(made) > 0 {
		left = append(left, p.noncurrent(ctx)...)
	}
	return left
}

// noncurrent says what a bucket keeps of objects that were replaced or removed.
func (p *bucket) noncurrent(ctx context.Context) []string {
	a, err := p.b.Settings(ctx)
	if err != nil || !a.Versioning || a.DeletesNoncurrent {
		return nil
	}
	return []string{fmt.Sprintf("noncurrent versions below %s (doctor cannot remove them: gcloud storage rm --all-versions does)", p.prefix+p.e.Dir)}
}

// sweep removes the objects of killed examinations.
func (p *bucket) sweep(ctx context.Context, before time.Time, dryRun bool) (n int, err error) {
	for info, err := range p.b.List(ctx, p.prefix+doctor.Dir+"/", nil) {
		if err != nil {
			return n, err
		}
		if !trial.Old(strings.TrimPrefix(info.Key, p.prefix), doctor.Dir, before) {
			continue
		}
		if n++; !dryRun {
			if err := p.b.Delete(ctx, info.Key, nil); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}
