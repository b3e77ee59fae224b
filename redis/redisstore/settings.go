package redisstore

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// Risk is a setting of the server that can lose an acknowledged write, and so a lock. Its text is the name
// of the setting.
type Risk string

// The risks. A store refuses its first write if a server has one of them that the user did not accept.
const (
	// NoLog: appendonly is no. A restart of the server restores the last snapshot, or nothing.
	NoLog Risk = "appendonly"

	// LateSync: appendfsync is not always. A power cut loses the writes of the last second or more.
	LateSync Risk = "appendfsync"

	// NoSyncOnRewrite: no-appendfsync-on-rewrite is yes. A power cut loses all writes since the server
	// began to rewrite its log or to save a snapshot.
	NoSyncOnRewrite Risk = "no-appendfsync-on-rewrite"

	// Eviction: maxmemory-policy is one of allkeys-*. A server whose memory is full removes locks.
	Eviction Risk = "maxmemory-policy"
)

// Risks are all risks.
var Risks = []Risk{NoLog, LateSync, NoSyncOnRewrite, Eviction}

// settings of a server that [Store.Describe] reads.
var settings = []string{string(NoLog), string(LateSync), string(NoSyncOnRewrite), string(Eviction), "min-replicas-to-write"}

// maxInfo bounds the answer of INFO, in bytes.
const maxInfo = 1 << 20

// Server contains the properties of one server.
type Server struct {
	Address  string
	Version  string
	Role     string // master or slave, as the server names them
	Cluster  bool   // the server is part of a cluster
	Replicas int    // that are connected

	run string // the id of its process

	// Settings are the settings of the server that matter, by their names. If the user may not read the
	// settings, Denied is the error, and Settings has only those that INFO shows.
	Settings map[string]string
	Denied   error
}

// Problem is a setting of a server that can lose a lock.
type Problem struct {
	Risk  Risk
	Found string // the setting and its value
	Loses string // what is lost, and when
	Do    string // what to do
}

// Problems returns the settings of the server that can lose a lock.
func (s *Server) Problems() (all []Problem) {
	add := func(risk Risk, safe, loses string, accepted func(value string) bool) {
		value, known := s.Settings[string(risk)]
		switch {
		case known && accepted(value):
		case known:
			all = append(all, Problem{risk, string(risk) + " is " + value, loses, "set " + string(risk) + " to " + safe})
		default:
			all = append(all, Problem{risk, "the user may not read the setting " + string(risk), loses + ", unless it is " + safe, "give the user the right +config|get"})
		}
	}
	is := func(want string) func(string) bool { return func(value string) bool { return value == want } }
	add(NoLog, "yes", "a restart of the server loses all locks since the last snapshot", is("yes"))
	if s.Settings[string(NoLog)] == "yes" {
		add(LateSync, "always", "a power cut loses the locks of the last second or more", is("always"))
		add(NoSyncOnRewrite, "no", "a power cut loses the locks since the server began to rewrite its log", is("no"))
	}
	// The keys of registers have no time to live, so volatile-* does not remove them.
	add(Eviction, "noeviction", "a server whose memory is full removes locks", func(value string) bool { return !strings.HasPrefix(value, "allkeys-") })
	return all
}

// Describe reads the properties of the servers that have the keys.
func (s *Store) Describe(ctx context.Context) ([]Server, error) { return s.d.describe(ctx) }

func (d *driver) describe(ctx context.Context) ([]Server, error) {
	primaries, err := d.primaries(ctx)
	if err != nil {
		return nil, err
	}
	var all []Server
	for _, client := range primaries {
		found, err := send(ctx, d, "", func(ctx context.Context) (Server, error) { return describe(ctx, client) })
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	slices.SortFunc(all, func(a, b Server) int { return strings.Compare(a.Address, b.Address) })
	return all, nil
}

// describe reads everything in one round trip.
func describe(ctx context.Context, client *redis.Client) (Server, error) {
	var info *redis.StringCmd
	values := make([]*redis.MapStringStringCmd, len(settings))
	_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		info = pipe.Info(ctx)
		for i, name := range settings {
			values[i] = pipe.ConfigGet(ctx, name)
		}
		return nil
	})
	if err != nil && !isReply(err) {
		return Server{}, err
	}
	text := info.Val()
	if err != nil && text == "" { // also if the connection was refused
		return Server{}, cmp.Or(info.Err(), err)
	}
	found := Server{Address: client.Options().Addr, Settings: map[string]string{}}
	found.parse(text)
	for i, name := range settings {
		value, err := values[i].Result()
		if err != nil {
			found.Denied = err
		}
		if v, ok := value[name]; ok {
			found.Settings[name] = v
		}
	}
	return found, nil
}

// parse reads the answer of INFO.
func (s *Server) parse(info string) {
	lines := bufio.NewScanner(strings.NewReader(info[:min(len(info), maxInfo)]))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch name {
		case "run_id":
			s.run = value
		case "redis_version":
			s.Version = value
		case "role":
			s.Role = value
		case "cluster_enabled":
			s.Cluster = value == "1"
		case "connected_slaves":
			s.Replicas, _ = strconv.Atoi(value)
		case "aof_enabled":
			s.Settings[string(NoLog)] = map[string]string{"0": "no", "1": "yes"}[value]
		case "maxmemory_policy":
			s.Settings[string(Eviction)] = value
		}
	}
}

// check refuses servers that can lose a lock. The engine calls it before the first write.
func (d *driver) check(ctx context.Context) error {
	var servers []Server
	err := engine.Repeat(ctx, engine.DefaultTries, 50*time.Millisecond, func() (err error) {
		servers, err = d.describe(ctx)
		return err
	})
	if err != nil {
		return store.MarkNotApplied(err)
	}
	_, inCluster := d.client.(*redis.ClusterClient)
	for _, server := range servers {
		switch {
		case server.Role != "master":
			return fmt.Errorf("%w: %s is a replica, which can be behind its primary server: name the primary server in the URL", store.ErrMisconfigured, server.Address)
		case server.Cluster && !inCluster:
			return fmt.Errorf("%w: %s is part of a cluster: add cluster=true to the URL", store.ErrMisconfigured, server.Address)
		}
		for _, p := range server.Problems() {
			if !slices.Contains(d.o.Unsafe, p.Risk) {
				return fmt.Errorf("%w: on %s, %s: %s; %s, or accept the risk with unsafe=%s in the URL", store.ErrUnsafe, server.Address, p.Found, p.Loses, p.Do, p.Risk)
			}
		}
	}
	return nil
}
