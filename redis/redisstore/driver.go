package redisstore

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/abandon"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

const (
	// space is what all keys of registers begin with, so that they differ from the keys of other programs. It is
	// also the channel on which each write publishes its key.
	space = "holdfast:"

	// pageSize is how many keys the server looks at for one page of a listing.
	pageSize = 1000
	// maxListing is the most bytes of keys that one listing returns.
	maxListing = 32 << 20
)

// swap is the script of a write. It replaces the text of KEYS[1] by ARGV[3] if the text begins with ARGV[2];
// if ARGV[2] is empty, the key must be absent. It returns 1, or 0 with the first ARGV[1] bytes of the text.
// All errors that it returns come from before the write, because it ignores the errors of PUBLISH.
const swap = `local held = redis.pcall('GETRANGE', KEYS[1], 0, ARGV[1] - 1)
if type(held) == 'table' then return held end
if held == '' and redis.call('EXISTS', KEYS[1]) == 0 then held = false end
local holds = not held
if ARGV[2] ~= '' then holds = held and string.sub(held, 1, #ARGV[2]) == ARGV[2] end
if not holds then return {0, held} end
local set = redis.pcall('SET', KEYS[1], ARGV[3])
if set.err then return set end
redis.pcall('PUBLISH', ARGV[4], KEYS[1])
return {1}`

var swapHash = func() string { sum := sha1.Sum([]byte(swap)); return hex.EncodeToString(sum[:]) }()

// driver sends the single requests.
type driver struct {
	client    redis.UniversalClient
	o         Options
	prefix    string // of all keys on the server
	tls       bool
	secrets   []string
	connected atomic.Bool // a server has accepted a connection
	answered  atomic.Bool // the server has answered once
	abandoned abandon.Calls
}

// once is a command that the client of a cluster sends once, except after a redirection to another server.
type once struct{ *redis.Cmd }

// NoRetry implements the interface of the client for commands.
func (once) NoRetry() bool { return true }

// do sends one command for a register and returns its reply.
func (d *driver) do(ctx context.Context, key string, args ...any) (any, error) {
	return send(ctx, d, key, func(ctx context.Context) (any, error) {
		cmd := once{redis.NewCmd(ctx, args...)}
		_ = d.client.Process(ctx, cmd)
		return cmd.Result()
	})
}

// head returns what the text of a state begins with.
func head(nonce string) string { return `{"holdfast":1,"nonce":"` + nonce + `"` }

// decode returns the state that a text holds.
func decode(text string) (engine.Stored, error) {
	e, err := engine.Decode([]byte(text))
	if err == nil && !strings.HasPrefix(text, head(e.Nonce)) {
		err = fmt.Errorf("%w: another program changed the text of the register", store.ErrCorrupt)
	}
	return engine.Stored{Envelope: e}, err
}

// Read implements [engine.Driver]. For an absent key it sends a second request: GETRANGE returns the same
// for an absent key and an empty text.
func (d *driver) Read(ctx context.Context, key string, _ engine.Tag) (engine.Stored, error) {
	for try := 0; ; try++ {
		reply, err := d.do(ctx, key, "GETRANGE", d.prefix+key, 0, engine.MaxText)
		if err != nil {
			return engine.Stored{}, err
		}
		if text, _ := reply.(string); text != "" || try > 0 {
			return decode(text)
		}
		if reply, err = d.do(ctx, key, "EXISTS", d.prefix+key); err != nil {
			return engine.Stored{}, err
		} else if reply == int64(0) {
			return engine.Stored{}, store.ErrNotFound
		}
	}
}

// Write implements [engine.Driver] by one script.
func (d *driver) Write(ctx context.Context, key string, on engine.Stored, e engine.Envelope) (engine.Tag, error) {
	condition := ""
	if !on.Absent() {
		condition = head(on.ID())
	}
	args := []any{"EVALSHA", swapHash, 1, d.prefix + key, engine.MaxText + 1, condition, string(e.Encode()), space}
	reply, err := d.do(ctx, key, args...)
	if redis.HasErrorPrefix(err, "NOSCRIPT") { // so nothing was written
		args[0], args[1] = "EVAL", swap
		reply, err = d.do(ctx, key, args...)
	}
	if err != nil {
		return "", err
	}
	switch answer, _ := reply.([]any); {
	case len(answer) == 1 && answer[0] == int64(1):
		return "", nil
	case len(answer) == 2:
		var current engine.Stored
		if text, ok := answer[1].(string); ok {
			if current, err = decode(text); err != nil {
				return "", store.MarkNotApplied(err)
			}
		}
		return "", &engine.ConditionFailedError{HasCurrent: true, Current: current}
	}
	return "", fmt.Errorf("%w: the answer of the script is %.80q", store.ErrUnavailable, fmt.Sprint(reply))
}

// Remove implements [engine.Remover].
func (d *driver) Remove(ctx context.Context, key string) error {
	_, err := d.do(ctx, key, "DEL", d.prefix+key)
	return err
}

// List implements [engine.Driver].
func (d *driver) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return d.list(ctx, prefix, false)
}

// ListAll does the same as List, but also yields the keys of tombstones. A program that has created
// registers to test a store finds them with ListAll and removes them with Erase.
func (s *Store) ListAll(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return s.d.list(ctx, prefix, true)
}

// escape makes a text match itself in a pattern of SCAN.
var escape = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// list scans each primary server, one after the other. SCAN can return a key several times.
func (d *driver) list(ctx context.Context, prefix string, tombstones bool) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		below := d.prefix
		if prefix != "" {
			below += prefix + "/"
		}
		servers, err := d.primaries(ctx)
		if err != nil {
			yield("", err)
			return
		}
		seen, total := map[string]struct{}{}, 0
		for _, server := range servers {
			for cursor, run := uint64(0), ""; ; {
				var p page
				p, err = d.page(ctx, server, cursor, below, tombstones)
				for _, key := range p.keys {
					total += len(key)
				}
				if err == nil && run != "" && p.run != run {
					err = fmt.Errorf("%w: the server restarted during the listing, and its keys have another order now", store.ErrUnavailable)
				}
				cursor, run = p.next, p.run
				if err == nil && total > maxListing {
					err = fmt.Errorf("%w: the keys below the prefix have more than %d bytes, too many for a listing; list a longer prefix", store.ErrCorrupt, maxListing)
				}
				if err != nil {
					yield("", err)
					return
				}
				for _, key := range p.keys {
					if _, again := seen[key]; again {
						continue
					}
					seen[key] = struct{}{}
					name := strings.TrimPrefix(key, d.prefix)
					if store.CheckKey(name) == nil && !yield(name, nil) { // a key of others may be no valid one
						return
					}
				}
				if cursor == 0 {
					break
				}
			}
		}
	}
}

// page is a part of a listing.
type page struct {
	keys []string
	next uint64 // where the following page begins; 0: there is none
	run  string // the process of the server; empty if the user may not read this
}

// page returns the next keys that begin with below.
func (d *driver) page(ctx context.Context, server *redis.Client, cursor uint64, below string, tombstones bool) (page, error) {
	return send(ctx, d, "", func(ctx context.Context) (p page, err error) {
		pipe, now := server.Pipeline(), Server{Settings: map[string]string{}}
		scan, info := pipe.Scan(ctx, cursor, escape.Replace(below)+"*", pageSize), pipe.Info(ctx, "server")
		_, _ = pipe.Exec(ctx) // the results have its errors
		now.parse(info.Val())
		p.run = now.run
		var found []string
		if found, p.next, err = scan.Result(); err != nil || len(found) == 0 {
			return p, err
		}
		sizes := make([]*redis.IntCmd, len(found))
		_, err = d.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, key := range found {
				sizes[i] = pipe.StrLen(ctx, key)
			}
			return nil
		})
		for i, key := range found {
			size, err := sizes[i].Result()
			if err != nil && !isReply(err) {
				return p, err
			}
			// A key that is no text is no tombstone.
			if strings.HasPrefix(key, below) && (tombstones || err != nil || size != engine.TombstoneSize) {
				p.keys = append(p.keys, key)
			}
		}
		if isReply(err) {
			err = nil
		}
		return p, err
	})
}

// primaries returns the clients of the servers that have the keys.
func (d *driver) primaries(ctx context.Context) ([]*redis.Client, error) {
	cluster, ok := d.client.(*redis.ClusterClient)
	if !ok {
		return []*redis.Client{d.client.(*redis.Client)}, nil
	}
	return send(ctx, d, "", func(ctx context.Context) (all []*redis.Client, err error) {
		var mu sync.Mutex
		err = cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, c)
			return nil
		})
		return all, err
	})
}
