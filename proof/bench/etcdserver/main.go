// Command etcdserver runs one embedded etcd server with its data in a directory. It prints the
// address for clients, and ends at the end of its standard input. It runs in a separate process,
// so that measurements of a client do not include the server. It is a separate module.
//
//	go run . DIR
package main

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "etcdserver:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one argument: a directory")
	}
	free := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c := embed.NewConfig()
	c.Dir = filepath.Join(args[0], "etcd")
	c.LogLevel = "fatal" // a shutdown logs several errors
	c.ListenClientUrls, c.AdvertiseClientUrls, c.ListenPeerUrls, c.AdvertisePeerUrls = free, free, free, free
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	server, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	defer server.Close()
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(time.Minute):
		return fmt.Errorf("not ready after a minute")
	}
	fmt.Printf("http://%s\n", server.Clients[0].Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}
