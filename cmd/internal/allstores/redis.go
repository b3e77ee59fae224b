package allstores

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/redis/redisstore"
)

// silence stops the messages of the client to standard error. The errors of the store say the same.
var silence = sync.OnceFunc(logging.Disable)

// openRedis opens redis://HOST/DATABASE/PREFIX; see [redisstore.Open] for its parameters.
func openRedis(_ context.Context, a *stores.Access, u *url.URL, _ bool) (stores.Opened, error) {
	silence()
	connect, opts, err := redisstore.FromURL(u.String(), &redisstore.Options{Logger: a.Log()})
	if err != nil {
		return stores.Opened{}, err
	}
	if connect.Password != "" && connect.TLSConfig == nil {
		warnOfPlainText(a, connect.Addrs, "the connection to Redis is not encrypted, and other machines of the network could read the password: begin the store's URL with rediss://")
	}
	return opened(redisstore.New(connect, opts))
}

// redisTarget examines the registers and the settings of the servers.
func redisTarget(ctx context.Context, a *stores.Access, u *url.URL) (*doctor.Target, func(), error) {
	silence()
	connect, opts, err := redisstore.FromURL(u.String(), &redisstore.Options{Logger: a.Log()})
	if err != nil {
		return nil, nil, err
	}
	accepted := opts.Unsafe
	opts.Unsafe = redisstore.Risks // the registers are tested in any case
	open := func(context.Context, *stores.Access, *url.URL, bool) (stores.Opened, error) {
		return opened(redisstore.New(connect, opts))
	}
	step := doctor.Step{ID: "settings", What: "settings of the servers", Needed: true}
	return examine(ctx, a, u, open, "redis", step, doctor.Finding(step.ID, step.What, true), func(servers []redisstore.Server) []doctor.Check {
		return redisChecks(servers, accepted)
	})
}

// redisChecks shows the settings of servers, and what they can lose.
func redisChecks(servers []redisstore.Server, accepted []redisstore.Risk) (checks []doctor.Check) {
	for _, risk := range redisstore.Risks {
		c := doctor.Finding("redis-"+string(risk), "the setting "+string(risk), true)
		safe := true
		for _, server := range servers {
			for _, p := range server.Problems() {
				if p.Risk != risk {
					continue
				}
				safe = false
				found := fmt.Sprintf("on %s, %s", server.Address, p.Found)
				if slices.Contains(accepted, risk) {
					checks = append(checks, c.Warn(found, fmt.Sprintf("%s; the URL accepts this by unsafe=%s", p.Loses, risk))...)
				} else {
					checks = append(checks, c.Unsafe(found, p.Loses+"; "+p.Do)...)
				}
			}
		}
		if safe {
			checks = append(checks, c.OK("%s", values(servers, string(risk)))...)
		}
	}
	c := doctor.Finding("redis-replicas", "replicas", false)
	var replicas int
	for _, server := range servers {
		replicas += server.Replicas
	}
	if replicas == 0 {
		return append(checks, c.OK("none")...)
	}
	return append(checks, c.Warn(fmt.Sprintf("%d, min-replicas-to-write is %s", replicas, values(servers, "min-replicas-to-write")),
		"a replica that becomes the primary server can lack the last writes, and then a second program can get a lock that is held; protect the work with the fencing token")...)
}

// values lists the values that servers have for a setting.
func values(servers []redisstore.Server, setting string) string {
	var all []string
	for _, server := range servers {
		if value := server.Settings[setting]; value != "" && !slices.Contains(all, value) {
			all = append(all, value)
		}
	}
	if len(all) == 0 {
		return "not known"
	}
	return strings.Join(all, ", ")
}
