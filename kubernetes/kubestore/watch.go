package kubestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// safetyRead is how often a waiter reads without an event: a connection can be lost without a notice.
const safetyRead = 10 * time.Second

// shortestWatch is how long a watch lasts at least on a healthy server. After a shorter one the caller waits
// without it for a while.
const shortestWatch = 200 * time.Millisecond

// Watch implements [store.Watcher]. It lists the one object of the register, which also returns the
// resourceVersion if there is no object, and then watches the object from there.
func (s *Store) Watch(ctx context.Context, key string, seen store.Version) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	for {
		one := url.Values{"fieldSelector": {"metadata.name=" + s.d.name(key)}}
		var found struct {
			Metadata metadata `json:"metadata"`
			Items    []lease  `json:"items"`
		}
		err := s.d.send(ctx, http.MethodGet, s.d.leases, one, nil, &found, maxAnswer)
		if ctx.Err() != nil {
			return store.Cause(ctx)
		}
		if err != nil {
			return err
		}
		var version store.Version
		if len(found.Items) > 0 {
			current, err := decode(&found.Items[0].Metadata)
			if err != nil {
				return nil // the caller's own read will return the error
			}
			if !current.Deleted {
				version = current.Version()
			}
		}
		if version != seen {
			return nil
		}
		one.Set("watch", "true")
		one.Set("resourceVersion", found.Metadata.ResourceVersion)
		one.Set("timeoutSeconds", strconv.Itoa(int(safetyRead/time.Second)))
		began := time.Now()
		if changed, err := s.d.await(ctx, one); changed || err != nil {
			return err
		}
		if time.Since(began) < shortestWatch {
			return fmt.Errorf("%w: the server ended a watch at once", store.ErrUnavailable)
		}
	}
}

// await waits for the first event of a watch. It also returns from time to time without an event.
func (d *driver) await(ctx context.Context, query url.Values) (changed bool, err error) {
	within, cancel := context.WithTimeout(ctx, safetyRead)
	defer cancel()
	var resp *http.Response
	token, err := d.cluster.token(ctx)
	if err == nil {
		resp, err = d.request(within, d.cluster.client.Load(), token, http.MethodGet, d.leases, query, nil)
	}
	if err == nil {
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusGone {
			return true, nil // the server has forgotten the state of the read
		}
		if err = d.refused(resp); err == nil {
			var event struct {
				Type string `json:"type"`
			}
			err = json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&event)
		}
	}
	var refusal *statusError
	switch {
	case ctx.Err() != nil:
		return false, store.Cause(ctx)
	case errors.As(err, &refusal) && refusal.code == http.StatusUnauthorized:
		d.cluster.drop(token)
	case err == nil:
		return true, nil // also if the event is an error, such as status 410
	case within.Err() != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return false, nil
	}
	return false, d.explain(err)
}
