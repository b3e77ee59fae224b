package tofustate

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/store"
)

const (
	headerFormat = "tofu1 %016x\n"
	headerSize   = 23
	partSize     = store.MaxValue - headerSize
	maxParts     = 2*MaxState/partSize + 1 // more than a state that cannot be compressed needs
	inParallel   = 8
)

var (
	// errTaken: another writer with the same or a higher generation fills the slot.
	errTaken = errors.New("another writer uses the slot")

	// errReplaced: the slot has another version by now.
	errReplaced = fmt.Errorf("%w: the parts of the version were replaced", store.ErrCorrupt)
)

func partKey(name string, slot, number int) string {
	hash := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%s/part/%x/%d/%d", keyPrefix, hash, slot, number)
}

// writeParts fills a slot that no version of the record uses.
func (h *handler) writeParts(ctx context.Context, name string, r *record, body []byte) (place, error) {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err == nil {
		_, err = w.Write(body)
	}
	if err = cmp.Or(err, w.Close()); err != nil {
		return place{}, err
	}
	used := map[int]bool{}
	for _, v := range r.versions {
		if !v.Deleted {
			used[v.Slot] = true
		}
	}
	p := place{Parts: (packed.Len() + partSize - 1) / partSize, Base: r.Generation}
	for ; ; p.Slot++ {
		if used[p.Slot] {
			continue
		}
		if err := h.fill(ctx, name, p, packed.Bytes()); !errors.Is(err, errTaken) {
			return p, err
		}
	}
}

// fill writes the parts of a slot. Of all writers with one generation, the writer of the first part owns the slot.
func (h *handler) fill(ctx context.Context, name string, p place, packed []byte) error {
	write := func(ctx context.Context, number int) error {
		data := packed[number*partSize:]
		value := append(fmt.Appendf(nil, headerFormat, p.Base), data[:min(len(data), partSize)]...)
		_, err := store.Update(ctx, h.store, partKey(name, p.Slot, number), func(old []byte) ([]byte, error) {
			base, _, err := splitPart(old)
			switch {
			case old == nil, err == nil && base < p.Base:
				return value, nil
			case bytes.Equal(old, value): // an earlier try of the same request has written it
				return nil, store.ErrUnchanged
			}
			return nil, errTaken
		})
		if errors.Is(err, store.ErrCorrupt) { // this part cannot be read or replaced: use another slot
			return errTaken
		}
		return err
	}
	if err := write(ctx, 0); err != nil {
		return err
	}
	return each(ctx, p.Parts-1, func(ctx context.Context, i int) error { return write(ctx, i+1) })
}

// splitPart returns the generation and the data of a part.
func splitPart(value []byte) (base uint64, data []byte, err error) {
	if len(value) < headerSize {
		return 0, nil, errReplaced
	}
	_, err = fmt.Sscanf(string(value[:headerSize]), headerFormat, &base)
	return base, value[headerSize:], err
}

// readParts returns the body of a version.
func (h *handler) readParts(ctx context.Context, name string, v version) ([]byte, error) {
	parts := make([][]byte, v.Parts)
	err := each(ctx, v.Parts, func(ctx context.Context, i int) error {
		value, _, err := h.store.Get(ctx, partKey(name, v.Slot, i))
		if errors.Is(err, store.ErrNotFound) {
			return errReplaced
		}
		if err != nil {
			return err
		}
		base, data, err := splitPart(value)
		if err != nil || base != v.Base {
			return errReplaced
		}
		parts[i] = data
		return nil
	})
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(bytes.Join(parts, nil)))
	var body []byte
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(r, v.Size+1))
	}
	if err != nil || int64(len(body)) != v.Size || digest(body) != v.SHA256 {
		return nil, fmt.Errorf("%w: version %d of the state is damaged", store.ErrCorrupt, v.Version)
	}
	return body, nil
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// each calls f with the numbers from 0 to n-1, a few at the same time, and returns the first error.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	pool := workerpool.New(ctx, inParallel, 0)
	defer pool.Close()
	for i := 0; i < n && pool.WaitRoom(0); i++ {
		pool.Go(0, func(ctx context.Context) error { return f(ctx, i) })
	}
	err := pool.Wait()
	return cmp.Or(store.Cause(ctx), err)
}
