package allstores

import (
	"context"
	"fmt"
	"net"
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
	for _, address := range connect.Addrs {
		if host, _, _ := net.SplitHostPort(address); connect.Password != "" && connect.TLSConfig == nil && !thisMachine(host) {
			a.Log().Warn("the connection to Redis is not encrypted, and other machines of the network could read the password: begin the store's URL with rediss://", "host", host)
			break
		}
	}
	st, err := redisstore.New(connect, opts)
	if err != nil {
		return stores.Opened{}, err
	}
	return stores.Opened{Store: st, Closer: st, URL: opts.Name}, nil
}

// redisTarget examines the registers and the settings of the servers.
func redisTarget(_ context.Context, a *stores.Access, u *url.URL) (*doctor.Target, func(), error) {
	silence()
	connect, opts, err := redisstore.FromURL(u.String(), &redisstore.Options{Logger: a.Log()})
	if err != nil {
		return nil, nil, err
	}
	accepted := opts.Unsafe
	opts.Unsafe = redisstore.Risks // the registers are tested in any case
	st, err := redisstore.New(connect, opts)
	if err != nil {
		return nil, nil, err
	}
	target := doctor.Registers(opts.Name, st)
	target.Kind = "redis"
	target.Steps = func(e *doctor.Examination) []doctor.Step {
		return []doctor.Step{{ID: "settings", What: "settings of the servers", Needed: true, Run: func(ctx context.Context) []doctor.Check {
			servers, err := st.Describe(ctx)
			if err != nil {
				return e.Failed(doctor.Finding("settings", "settings of the servers", true), err)
			}
			return redisChecks(servers, accepted)
		}}}
	}
	return target, func() { st.Close() }, nil
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
