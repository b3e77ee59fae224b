package servers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// zookeeperPOM names ZooKeeper, and what it needs to run and does not name itself.
const zookeeperPOM = `<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>holdfast</groupId>
  <artifactId>zookeeper</artifactId>
  <version>0</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.zookeeper</groupId>
      <artifactId>zookeeper</artifactId>
      <version>` + zookeeperVersion + `</version>
    </dependency>
    <dependency>
      <groupId>io.dropwizard.metrics</groupId>
      <artifactId>metrics-core</artifactId>
      <version>4.1.12.1</version>
    </dependency>
    <dependency>
      <groupId>org.xerial.snappy</groupId>
      <artifactId>snappy-java</artifactId>
      <version>1.1.10.5</version>
    </dependency>
  </dependencies>
</project>
`

// zookeeperConfig takes the directory for the data and the port. It is what the server's
// manual starts with, but for a limit of 60 connections from one host, and a second server,
// for administration, on a port of its own.
const zookeeperConfig = `tickTime=2000
dataDir=%s
clientPort=%s
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
`

// StartZooKeeper starts a ZooKeeper server, and returns its address. Its data is in an empty directory.
// The caller must end the server with the function end. The machine needs java. The first start also
// needs mvn.
func StartZooKeeper(ctx context.Context, data string) (address string, end func(), err error) {
	java, err := lookPath("java")
	if err != nil {
		return "", nil, err
	}
	lib, err := zookeeperLib(ctx)
	if err != nil {
		return "", nil, err
	}
	p, err := launch(ctx, "zookeeper", func(dir, at string) (*exec.Cmd, error) {
		address = at
		config := filepath.Join(dir, "zoo.cfg")
		cmd := exec.Command(java, "-Xmx512m", "-cp", filepath.Join(lib, "*"),
			"org.apache.zookeeper.server.ZooKeeperServerMain", config)
		return cmd, os.WriteFile(config, fmt.Appendf(nil, zookeeperConfig, data, portOf(at)), 0o600)
	}, func(ctx context.Context, at string) error {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", at)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.WriteString(c, "srvr"); err != nil {
			return err
		}
		// It listens before it serves, and also if it never will.
		state, err := io.ReadAll(io.LimitReader(c, 4<<10))
		if err == nil && !bytes.Contains(state, []byte("Mode: standalone")) {
			err = fmt.Errorf("its state: %s", tail(state))
		}
		return err
	})
	if err != nil {
		return "", nil, err
	}
	return address, p.stop, nil
}

// zookeeperLib returns the directory of the server's jars.
func zookeeperLib(ctx context.Context) (string, error) {
	dir, err := cached("zookeeper-"+zookeeperVersion, func(dir string) error {
		mvn, err := lookPath("mvn")
		if err != nil {
			return err
		}
		pom := filepath.Join(dir, "pom.xml")
		if err := os.WriteFile(pom, []byte(zookeeperPOM), 0o600); err != nil {
			return err
		}
		// Without the native code for TLS, for every system.
		return runWithProgress(exec.CommandContext(ctx, mvn, "-q", "-B", "-f", pom, mavenCopy,
			"-DincludeScope=runtime", "-DexcludeArtifactIds=netty-tcnative-boringssl-static",
			"-DoutputDirectory="+filepath.Join(dir, "lib")), "fetching ZooKeeper with mvn (once; 7 MB)")
	})
	return filepath.Join(dir, "lib"), err
}
