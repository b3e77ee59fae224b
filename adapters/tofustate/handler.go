package tofustate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// MaxState is the largest state, in bytes: 32 MiB.
	MaxState = 32 << 20

	// MaxName is the longest name of a state, in bytes.
	MaxName = 256

	// DefaultKeep is the default of [Options].Keep.
	DefaultKeep = 100

	// MaxKeep is the maximum of [Options].Keep: the list of the versions must fit into one register.
	MaxKeep = 150

	keyPrefix    = "tofu"
	storeTimeout = time.Minute
)

// Options configure a handler.
type Options struct {
	// Keep is the number of versions of each state that remain readable, from 1 to MaxKeep; 0 means
	// DefaultKeep. Use the same number for all handlers of a store. If the texts of clients are very long,
	// fewer versions remain, but always the current one.
	Keep int

	// Logger gets each change (level Info), and each refused change and failure of the store (level Warn). Nil
	// discards.
	Logger *slog.Logger
}

type handler struct {
	store store.Store
	keep  int
	log   *slog.Logger
}

// New returns a handler for all states in a store. It sends no request, and starts no goroutine. To separate
// the states of two teams, use [store.Prefix]. A request uses the store for at most a minute, and needs memory
// of about three times the size of the state.
func New(s store.Store, opts *Options) (http.Handler, error) {
	o := *cmp.Or(opts, &Options{})
	o.Keep = cmp.Or(o.Keep, DefaultKeep)
	if o.Keep < 1 || o.Keep > MaxKeep {
		return nil, fmt.Errorf("%w: Options.Keep must be from 1 to %d, not %d", store.ErrInvalid, MaxKeep, o.Keep)
	}
	return &handler{s, o.Keep, cmp.Or(o.Logger, slog.New(slog.DiscardHandler))}, nil
}

// request is a request for one state.
type request struct {
	*handler
	w    http.ResponseWriter
	name string // of the state
	http *http.Request
	body []byte
}

// actions are what requests do, by the first segment of the path and the method. Clients can be configured to
// use other methods for updates and locks.
var actions = map[string]map[string]func(*request, context.Context) error{
	"state": {
		"GET": (*request).get, "HEAD": (*request).get, "POST": (*request).put, "PUT": (*request).put, "DELETE": (*request).remove,
		"LOCK": (*request).lock, "UNLOCK": (*request).unlock,
	},
	"lock": {
		"GET": (*request).showLock, "POST": (*request).lock, "PUT": (*request).lock, "LOCK": (*request).lock,
		"DELETE": (*request).unlock, "UNLOCK": (*request).unlock,
	},
	"history": {"GET": (*request).history},
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	kind, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	err := h.do(w, r, actions[kind], name)
	if err == nil {
		return
	}
	level, status := slog.LevelWarn, http.StatusServiceUnavailable
	var no *refusal
	switch {
	case errors.As(err, &no):
		level, status = no.level, no.status
	case store.Permanent(err), errors.Is(err, store.ErrCorrupt):
		status = http.StatusInternalServerError
	}
	h.log.Log(r.Context(), level, "a request failed", "state", cut(name), "method", cut(r.Method), "status", status, "reason", err.Error())
	if no != nil && no.holder != nil {
		writeJSON(w, status, no.holder)
		return
	}
	http.Error(w, err.Error(), status)
}

func (h *handler) do(w http.ResponseWriter, r *http.Request, methods map[string]func(*request, context.Context) error, name string) error {
	act := methods[r.Method]
	switch {
	case methods == nil:
		// Not 404: OpenTofu takes that for an empty state, and would create everything again.
		return refused(http.StatusBadRequest, "the path must begin with /state/, /lock/ or /history/")
	case act == nil:
		w.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
		return refused(http.StatusMethodNotAllowed, "this path does not allow the method")
	case len(name) > MaxName:
		return refused(http.StatusBadRequest, "the name of the state has %d bytes, at most %d are allowed", len(name), MaxName)
	}
	if err := store.CheckKey(name); err != nil {
		return refused(http.StatusBadRequest, "the name of the state: %v", err)
	}
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	return act(&request{h, w, name, r, body}, ctx)
}

// readBody reads the body of a request, and checks it against the hash that the client has sent.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxState))
	switch sum := md5.Sum(body); {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, refused(http.StatusRequestEntityTooLarge, "the state is larger than %d bytes", MaxState)
	case err != nil:
		return nil, refused(http.StatusBadRequest, "the request is incomplete")
	case r.Header.Get("Content-MD5") != "" && r.Header.Get("Content-MD5") != base64.StdEncoding.EncodeToString(sum[:]):
		return nil, refused(http.StatusBadRequest, "the body of the request does not have the hash of Content-MD5")
	}
	return body, nil
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that has left needs no answer
}

func (r *request) recordKey() string { return keyPrefix + "/state/" + r.name }

// read returns the record of the state. An absent record is empty.
func (r *request) read(ctx context.Context) (*record, error) {
	text, _, err := r.store.Get(ctx, r.recordKey())
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	return decodeRecord(text)
}

// change replaces the record of the state.
func (r *request) change(ctx context.Context, f func(*record) error) error {
	_, err := store.Update(ctx, r.store, r.recordKey(), func(text []byte) ([]byte, error) {
		rec, err := decodeRecord(text)
		if err != nil {
			return nil, err
		}
		if err := f(rec); err != nil {
			return nil, err
		}
		rec.Generation++
		return rec.encode()
	})
	return err
}

func (r *request) get(ctx context.Context) error {
	wanted := r.http.URL.Query().Get("version")
	for try := 1; ; try++ {
		rec, err := r.read(ctx)
		if err != nil {
			return err
		}
		v := rec.current()
		if wanted != "" {
			i := slices.IndexFunc(rec.versions, func(v version) bool { return strconv.FormatUint(v.Version, 10) == wanted })
			if i < 0 {
				return refused(http.StatusGone, "the state has no such version")
			}
			v = rec.versions[i]
		}
		if v.Deleted {
			return notFound("there is no state")
		}
		body, err := r.readParts(ctx, r.name, v)
		if errors.Is(err, errReplaced) && try < 3 {
			continue // other clients have stored many versions since the record was read
		}
		if err != nil {
			return err
		}
		sum := md5.Sum(body)
		r.w.Header().Set("Content-Type", "application/json")
		r.w.Header().Set("Content-MD5", base64.StdEncoding.EncodeToString(sum[:]))
		r.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = r.w.Write(body) // a client that has left needs no answer
		return nil
	}
}

func (r *request) put(ctx context.Context) error {
	var state struct {
		ID      string // of the description of a lock
		Serial  uint64
		Lineage string
	}
	if json.Unmarshal(r.body, &state) != nil || !bytes.HasPrefix(bytes.TrimSpace(r.body), []byte("{")) {
		return refused(http.StatusBadRequest, "the body of the request is no state of OpenTofu or Terraform")
	}
	if state.ID != "" && state.Lineage == "" {
		return refused(http.StatusBadRequest, "the body of the request describes a lock: with lock_method = POST, set lock_address to /lock/NAME")
	}
	if len(state.Lineage) > maxText {
		return refused(http.StatusBadRequest, "the lineage has more than %d bytes", maxText)
	}
	return r.replace(ctx, version{Serial: state.Serial, Lineage: state.Lineage, Size: int64(len(r.body)), SHA256: digest(r.body)})
}

func (r *request) remove(ctx context.Context) error {
	if len(r.body) > 0 {
		return refused(http.StatusBadRequest, "the body of the request describes a lock: with unlock_method = DELETE, set unlock_address to /lock/NAME")
	}
	return r.replace(ctx, version{Deleted: true})
}

// errMoved: the record changed while the parts were written.
var errMoved = errors.New("the record has changed")

// replace makes v the current version, with the body of the request.
func (r *request) replace(ctx context.Context, v version) error {
	v.LockID = r.http.URL.Query().Get("ID")
	for {
		rec, err := r.read(ctx)
		if err == nil {
			err = rec.admit(v)
		}
		if err == nil && !v.Deleted {
			v.place, err = r.writeParts(ctx, r.name, rec, r.body)
		}
		if errors.Is(err, store.ErrUnchanged) {
			return nil
		}
		if err != nil {
			return err
		}
		base := rec.Generation
		err = r.change(ctx, func(rec *record) error {
			if rec.Generation != base {
				return errMoved
			}
			v.Version, v.Stored, v.Who = rec.current().Version+1, time.Now().UTC().Truncate(time.Second), cut(rec.holder.Who)
			return rec.add(v, r.keep)
		})
		if errors.Is(err, errMoved) {
			continue
		}
		if err == nil {
			r.log.Info("stored a state", "state", r.name, "version", v.Version, "serial", v.Serial, "deleted", v.Deleted, "lock", v.LockID, "who", v.Who)
		}
		return err
	}
}

func (r *request) lock(ctx context.Context) error {
	info, err := decodeLock(r.body)
	if err != nil {
		return err
	}
	err = r.change(ctx, func(rec *record) error { return rec.take(r.body, info) })
	if err == nil {
		r.log.Info("locked a state", "state", r.name, "lock", info.ID, "who", cut(info.Who), "operation", cut(info.Operation))
	}
	return err
}

func (r *request) unlock(ctx context.Context) error {
	var info lockInfo
	var err error
	if len(r.body) > 0 {
		if info, err = decodeLock(r.body); err != nil {
			return err
		}
	}
	err = r.change(ctx, func(rec *record) error { return rec.release(info.ID) })
	if err == nil {
		r.log.Info("released the lock of a state", "state", r.name, "lock", info.ID)
	}
	return err
}

func (r *request) showLock(ctx context.Context) error {
	rec, err := r.read(ctx)
	if err != nil {
		return err
	}
	if rec.Lock == nil {
		return notFound("the lock is free")
	}
	writeJSON(r.w, http.StatusOK, rec.Lock)
	return nil
}

func (r *request) history(ctx context.Context) error {
	rec, err := r.read(ctx)
	if err != nil {
		return err
	}
	shown := []version{}
	for _, v := range rec.versions {
		v.place = place{}
		shown = append(shown, v)
	}
	writeJSON(r.w, http.StatusOK, shown)
	return nil
}
