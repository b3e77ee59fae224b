package s3verstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/store"
)

// List implements [store.Lister]. It lists the versions below the prefix. For each key that this Store
// does not know yet, List sends one or two more requests. Only the body of a version shows whether the
// key was deleted. For every 10,000 keys whose deletion no client has confirmed, List waits once for the settle delay. If the
// names need more than 32 MiB (the length and 16 bytes for each name), List ends with an error.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return awscall.BoundNames(func(yield func(string, error) bool) {
		if err := s.keys(ctx, prefix, func(key string) bool { return yield(key, nil) }); err != nil {
			yield("", s.opError("list", prefix, err))
		}
	})
}

func (s *Store) keys(ctx context.Context, prefix string, yield func(string) bool) error {
	if prefix != "" {
		if err := store.CheckKey(prefix); err != nil {
			return err
		}
	}
	if err := store.CheckContext(ctx); err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	below := s.prefix
	if prefix != "" {
		below += escape(prefix) + "/"
	}
	var unsure []*register
	settle := func() (goOn bool, err error) {
		for _, r := range unsure {
			p, err := s.settled(ctx, r)
			if err != nil {
				return false, err
			}
			if p != nil && !p.deleted && isBelow(r.key, prefix) && !yield(r.key) {
				return false, nil
			}
		}
		unsure = unsure[:0]
		return true, nil
	}
	for _, from := range []string{below, s.prefix + longFolder} {
		goOn, err := s.walk(ctx, from, func(found []found) (bool, error) {
			for _, f := range found {
				if f.unsure {
					unsure = append(unsure, f.r)
				} else if f.there && isBelow(f.r.key, prefix) && !yield(f.r.key) {
					return false, nil
				}
			}
			if len(unsure) < maxUnsure {
				return true, nil
			}
			return settle()
		})
		if err != nil || !goOn {
			return err
		}
		if prefix == "" {
			break // the long names were among them
		}
	}
	_, err := settle()
	return err
}

// maxUnsure is the number of keys that wait for the settle delay together.
const maxUnsure = 10_000

func isBelow(key, prefix string) bool { return prefix == "" || strings.HasPrefix(key, prefix+"/") }

// found is a key of a listing.
type found struct {
	r      *register
	there  bool
	unsure bool // the state is deleted, but not final
	err    error
}

// walk lists the objects of a prefix and looks at each.
func (s *Store) walk(ctx context.Context, prefix string, yield func([]found) (bool, error)) (goOn bool, err error) {
	var last *group // its versions may continue on the next page
	watch := sysclock.Read()
	for page, err := range s.versions.List(ctx, prefix) {
		if err != nil {
			return false, err
		}
		groups := groupVersions(page.Versions, last, watch)
		if len(groups) > 0 {
			if err := groups[0].l.tooMany(groups[0].object); err != nil {
				return false, err
			}
		}
		last = nil
		if page.NextKey != "" && len(groups) > 0 {
			last = groups[len(groups)-1]
			groups = groups[:len(groups)-1]
		}
		all, err := s.findAll(ctx, groups)
		if err != nil {
			return false, err
		}
		if goOn, err := yield(all); err != nil || !goOn {
			return false, err
		}
		watch = sysclock.Read()
	}
	return true, nil
}

// group is an object of a listing.
type group struct {
	object string
	l      *listing
}

func groupVersions(versions []s3bucket.ObjectVersion, last *group, watch sysclock.Reading) (groups []*group) {
	if last != nil {
		last.l.pages++
		groups = append(groups, last)
	}
	for _, v := range versions {
		if len(groups) == 0 || groups[len(groups)-1].object != v.Key {
			groups = append(groups, &group{v.Key, &listing{watch: watch, pages: 1}})
		}
		groups[len(groups)-1].l.add(v)
	}
	return groups
}

// findAll looks at the objects of a page, some at a time.
func (s *Store) findAll(ctx context.Context, groups []*group) ([]found, error) {
	all := make([]found, len(groups))
	errs := workerpool.Each(len(groups), parallel, func(i int) error {
		name, ok := strings.CutPrefix(groups[i].object, s.prefix)
		key, ok2 := keyOf(name)
		if ok && ok2 { // otherwise it is another program's object
			all[i] = s.findOne(ctx, key, groups[i])
		}
		return all[i].err
	})
	keys := all[:0]
	for i, f := range all {
		if errs[i] != nil {
			return nil, errs[i]
		}
		if f.r != nil {
			keys = append(keys, f)
		}
	}
	return keys, nil
}

// findOne reports whether the key of an object is there.
func (s *Store) findOne(ctx context.Context, key string, g *group) found {
	g.l.order()
	for try := 1; key == ""; try++ {
		if len(g.l.versions) == 0 {
			return found{}
		}
		e, err := s.entry(ctx, g.object, g.l.versions[len(g.l.versions)-1])
		if errors.Is(err, errVersionMissing) && try < listingTries { // it was removed since it was listed
			if g.l, err = s.list(ctx, g.object); err == nil {
				continue
			}
		}
		if err != nil {
			return found{err: err}
		}
		if key = strings.TrimPrefix(e.key, s.prefix); s.ObjectKey(key) != g.object {
			return found{err: fmt.Errorf("%w: the object %s has an entry of another key, %.80q; find out which program copied the object", store.ErrCorrupt, g.object, e.key)}
		}
	}
	r := s.passing(key)
	v, err := s.readVersionsFrom(ctx, r, forUncommitted, g.l)
	if errors.Is(err, store.ErrCorrupt) {
		return found{r: r, there: true} // unreadable is not absent; reading it shows that
	}
	if err != nil {
		return found{err: err}
	}
	tip := v.tip()
	deleted := tip == nil || tip.deleted
	return found{r: r, there: !deleted, unsure: deleted && tip != v.certain()}
}
