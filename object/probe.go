package object

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/store"
)

// cleanup is how long [Probe] tries to remove its objects, also after the context has
// ended.
const cleanup = 10 * time.Second

// Probe tests which of the given abilities the store of a bucket has. It sends each condition
// twice: once when the condition holds, and once when it does not hold. After a request that the
// store must refuse, Probe reads the object, because some stores report a refusal and still write.
//
// Probe works on its own objects. The key of each of them begins with the given directory, a slash
// and a random word. Probe removes these objects at the end, even if the context has ended, and
// changes nothing else.
//
// The result maps each ability to nil or an [*UnsupportedError]. An error means that Probe could
// not do the test: the store did not answer, or the caller lacks a permission. Probe does not test
// uploads in parts: for [PartsIfAbsent] and [PartsIfMatch] it tests a simple Put. A bucket with
// uploads in parts is a [Verifier] and tests them itself.
func Probe(ctx context.Context, b Bucket, dir string, abilities ...Ability) (map[Ability]error, error) {
	p := &prober{ctx: ctx, b: b, dir: dir, found: make(map[Ability]error)}
	defer p.clean()
	for _, a := range abilities {
		if _, done := p.found[a]; done {
			continue
		}
		err := p.probe(a)
		var lacking *UnsupportedError
		// A proxy that repeats a request can cause a refusal, but hardly three times.
		for range 2 {
			if !errors.As(err, &lacking) || !lacking.refusal {
				break
			}
			err = p.probe(a)
		}
		if err != nil && !errors.As(err, &lacking) {
			return nil, fmt.Errorf("probing %s: %w", a, err)
		}
		p.found[a] = nil
		if err != nil {
			p.found[a] = &UnsupportedError{Ability: a, Found: lacking.Found}
		}
	}
	return p.found, nil
}

type prober struct {
	ctx   context.Context // of the one call of Probe
	b     Bucket
	dir   string
	made  []string
	found map[Ability]error
}

func (p *prober) probe(a Ability) error {
	switch a {
	case PutIfAbsent, PartsIfAbsent:
		return p.putIfAbsent()
	case PutIfMatch, PartsIfMatch:
		return p.putIfMatch()
	case DeleteIfMatch, DeleteOrAbsent:
		return p.deleteIfMatch(a == DeleteOrAbsent)
	case PlainCopy, CopySource, CopyIfAbsent, CopyIfMatch:
		return p.copying(a)
	}
	return &UnsupportedError{Ability: a, Found: "this version of Holdfast does not know the ability"}
}

func (p *prober) putIfAbsent() error {
	key := p.newKey()
	v, err := p.put(key, &PutOptions{IfAbsent: true})
	if errors.Is(err, store.ErrConflict) {
		return refuses("it refused to create an object that did not exist")
	}
	if err != nil {
		return err
	}
	_, err = p.put(key, &PutOptions{IfAbsent: true})
	if err := refused(err, "it accepted a second create-if-absent"); err != nil {
		return err
	}
	return p.checkState(key, v, "it reported that a second create-if-absent failed, but wrote the object")
}

func (p *prober) putIfMatch() error {
	key := p.newKey()
	old, err := p.put(key, nil)
	if err != nil {
		return err
	}
	v, err := p.put(key, &PutOptions{IfMatch: old})
	if err := accepted(err, "it refused a write that named the current version"); err != nil {
		return err
	}
	if v == old || v == "" {
		return lacks("it gave two bodies the same version")
	}
	_, err = p.put(key, &PutOptions{IfMatch: old})
	if err := refused(err, "it accepted a write that named an old version"); err != nil {
		return err
	}
	if err := p.checkState(key, v, "it reported that a write with an old version failed, but wrote the object"); err != nil {
		return err
	}
	_, err = p.put(p.newKey(), &PutOptions{IfMatch: v})
	return refused(err, "it accepted a write that named a version of an object that did not exist")
}

func (p *prober) deleteIfMatch(orAbsent bool) error {
	key, old, v, err := p.twoStates()
	if err != nil {
		return err
	}
	err = p.b.Delete(p.ctx, key, &DeleteOptions{IfMatch: old, OrAbsent: orAbsent})
	if err := refused(err, "it accepted a delete that named an old version"); err != nil {
		return err
	}
	if err := p.checkState(key, v, "it reported that a delete with an old version failed, but deleted the object"); err != nil {
		return err
	}
	err = p.b.Delete(p.ctx, key, &DeleteOptions{IfMatch: v, OrAbsent: orAbsent})
	if err := accepted(err, "it refused a delete that named the current version"); err != nil {
		return err
	}
	if err := p.checkState(key, "", "it reported that a delete succeeded, but did not delete the object"); err != nil {
		return err
	}
	err = p.b.Delete(p.ctx, key, &DeleteOptions{IfMatch: v, OrAbsent: orAbsent})
	if orAbsent {
		return accepted(err, "it refused a delete of an object that did not exist")
	}
	return refused(err, "it accepted a delete that named a version of an object that did not exist")
}

func (p *prober) copying(a Ability) error {
	source, oldSource, vSource, err := p.twoStates()
	if err != nil && a != CopySource && errors.Is(err, errors.ErrUnsupported) {
		err = nil // the other abilities do not need the versions of the source
	}
	if err != nil {
		return err
	}
	var dest string
	var old, v Version
	if a == CopyIfMatch {
		dest, old, v, err = p.twoStates()
	} else {
		dest = p.newKey()
	}
	if a == CopyIfAbsent {
		v, err = p.put(dest, nil)
	}
	if err != nil {
		return err
	}
	var bad, good *CopyOptions
	goodDest := dest
	switch a {
	case CopySource:
		bad, good = &CopyOptions{SourceIfMatch: oldSource}, &CopyOptions{SourceIfMatch: vSource}
	case CopyIfAbsent:
		bad, good = &CopyOptions{IfAbsent: true}, &CopyOptions{IfAbsent: true}
		goodDest = p.newKey()
	case CopyIfMatch:
		bad, good = &CopyOptions{IfMatch: old}, &CopyOptions{IfMatch: v}
	}
	if bad != nil {
		_, err = Copy(p.ctx, p.b, source, dest, bad)
		if err := refused(err, "it accepted a copy whose condition did not hold"); err != nil {
			return err
		}
		if err := p.checkState(dest, v, "it reported that the condition of a copy did not hold, but copied the object"); err != nil {
			return err
		}
	}
	_, err = Copy(p.ctx, p.b, source, goodDest, good)
	return accepted(err, "it refused a copy whose condition held")
}

// twoStates makes an object that had two states, and returns the versions of both.
func (p *prober) twoStates() (key string, old, current Version, err error) {
	key = p.newKey()
	if old, err = p.put(key, nil); err != nil {
		return "", "", "", err
	}
	if current, err = p.put(key, nil); err != nil {
		return "", "", "", err
	}
	if old == current || current == "" {
		return key, "", "", lacks("it gave two bodies the same version")
	}
	return key, old, current, nil
}

// checkState checks that an object is in the state v; a zero v means absent.
func (p *prober) checkState(key string, v Version, otherwise string) error {
	info, err := p.b.Stat(p.ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		info.Version, err = "", nil
	}
	if err == nil && info.Version != v {
		err = lacks(otherwise)
	}
	return err
}

// put writes a unique body.
func (p *prober) put(key string, opts *PutOptions) (Version, error) {
	body := "Holdfast tries here what this store can do. This object can be deleted. " + rand.Text() + "\n"
	for try := 1; ; try++ {
		info, err := p.b.Put(p.ctx, key, strings.NewReader(body), opts)
		if !errors.Is(err, ErrBusy) || try == 5 {
			return info.Version, err
		}
		if backoff.Sleep(p.ctx, backoff.Pause(try, 20*time.Millisecond, maxPause)) != nil {
			return "", store.Cause(p.ctx)
		}
	}
}

func (p *prober) newKey() string {
	key := rand.Text()
	if p.dir != "" {
		key = strings.TrimSuffix(p.dir, "/") + "/" + key
	}
	p.made = append(p.made, key)
	return key
}

// clean removes all objects that may have been made, also those that the store said it
// refused. An object that cannot be removed stays; its body says that it can be deleted.
func (p *prober) clean() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), cleanup)
	defer cancel()
	for _, key := range slices.Backward(p.made) {
		_ = p.b.Delete(ctx, key, nil)
	}
}

func lacks(found string) error { return &UnsupportedError{Found: found} }

// refuses is lacks for a request that was refused although its condition held.
func refuses(found string) error { return &UnsupportedError{Found: found, refusal: true} }

// refused checks the error of a request whose condition did not hold.
func refused(err error, otherwise string) error {
	switch {
	case err == nil:
		return lacks(otherwise)
	case errors.Is(err, store.ErrConflict):
		return nil
	}
	return err
}

// accepted checks the error of a request whose condition held.
func accepted(err error, otherwise string) error {
	if errors.Is(err, store.ErrConflict) {
		return refuses(otherwise)
	}
	return err
}
