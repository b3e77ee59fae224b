package main

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// zooMember is a program that coordinates through ZooKeeper: a connection, which is a session.
type zooMember struct {
	c     *zk.Conn
	under string
}

// joinZoo counts all messages that the client sends, and those that only keep its session
// alive under beats, too.
func joinZoo(ctx context.Context, address, under string, ttl time.Duration, requests, beats *atomic.Int64) (member, error) {
	dial := func(network, address string, timeout time.Duration) (net.Conn, error) {
		c, err := net.DialTimeout(network, address, timeout)
		return &counted{c, func(message []byte) { // each message with one call
			const ping = 11 // its number among the kinds of requests, which follows length and id
			requests.Add(1)
			if len(message) == 12 && binary.BigEndian.Uint32(message[8:]) == ping {
				beats.Add(1)
			}
		}}, err
	}
	c, events, err := zk.Connect([]string{address}, ttl, zk.WithDialer(dial), zk.WithLogger(silent{}))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for { // the client itself tries for ever
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return &zooMember{c, under}, nil
			}
		case <-ctx.Done():
			c.Close()
			return nil, context.Cause(ctx)
		}
	}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func (m *zooMember) lock(ctx context.Context, name string, mode mode) (lock, error) {
	defer context.AfterFunc(ctx, m.c.Close)() // the client's calls know no contexts
	switch dir := "/" + m.under + "/" + name; mode {
	case exclusive, fair, once: // its locks are given in the order of arrival
		l := zk.NewLock(m.c, dir, zk.WorldACL(zk.PermAll))
		return (*zooLock)(l), l.Lock()
	case shared:
		return m.read(dir)
	case slots:
		return m.slot(dir)
	}
	return nil, errAbsent
}

type zooLock zk.Lock

func (l *zooLock) Release(context.Context) error { return (*zk.Lock)(l).Unlock() }

// read takes a shared lock, by the recipe of ZooKeeper's documentation: a reader waits for the
// writer that came last before it.
func (m *zooMember) read(dir string) (lock, error) {
	mine, free, err := m.enter(dir, "read-")
	if err != nil {
		return nil, err
	}
	for {
		all, _, err := m.c.Children(dir)
		if err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(node string) bool {
			return !strings.Contains(node, "write-") || number(node) > number(mine)
		})
		if len(all) == 0 {
			return unlock(free), nil
		}
		last := slices.MaxFunc(all, func(a, b string) int { return strings.Compare(number(a), number(b)) })
		there, _, gone, err := m.c.ExistsW(dir + "/" + last)
		if err != nil {
			return nil, err
		}
		if there {
			<-gone
		}
	}
}

// slot takes one of the slots as Curator's InterProcessSemaphoreV2 does: under a lock a member
// adds its node, and waits until there are few enough.
func (m *zooMember) slot(dir string) (lock, error) {
	turn := zk.NewLock(m.c, dir+"/turn", zk.WorldACL(zk.PermAll))
	if err := turn.Lock(); err != nil {
		return nil, err
	}
	_, free, err := m.enter(dir+"/held", "slot-")
	if err != nil {
		return nil, err
	}
	for {
		all, _, changed, err := m.c.ChildrenW(dir + "/held")
		if err != nil {
			return nil, err
		}
		if len(all) <= semaphore {
			return unlock(free), turn.Unlock()
		}
		<-changed
	}
}

// enter makes a node that ends with the session, and the directories above it.
func (m *zooMember) enter(dir, prefix string) (node string, leave func() error, err error) {
	acl := zk.WorldACL(zk.PermAll)
	for {
		node, err = m.c.CreateProtectedEphemeralSequential(dir+"/"+prefix, nil, acl)
		if !errors.Is(err, zk.ErrNoNode) {
			return node, func() error { return m.c.Delete(node, -1) }, err
		}
		for i, c := range dir + "/" {
			if c != '/' || i == 0 {
				continue
			}
			if _, err := m.c.Create(dir[:i], nil, 0, acl); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return "", nil, err
			}
		}
	}
}

// number is what the server has added to the name of a node, in ten digits.
func number(node string) string { return node[max(0, len(node)-10):] }

func (m *zooMember) leave() error {
	m.c.Close()
	return nil
}
