package servers_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// childVar makes the test binary start a server, print its address and data
// directory, and wait to be killed.
const childVar = "HOLDFAST_TEST_SERVERS_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		child()
	}
	os.Exit(m.Run())
}

func child() {
	var set servers.Set
	s, err := set.StartVersityGW(context.Background())
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(s.Endpoint)
	select {}
}

// A set starts each server once, and ends it at Close.
func TestSetSharesAndEndsServers(t *testing.T) {
	var set servers.Set
	defer set.Close()
	a, b := set.VersityGW(t), set.VersityGW(t)
	if a != b {
		t.Errorf("two calls gave two servers: %+v, %+v", a, b)
	}
	for _, s := range []servers.S3{a, set.MinIO(t)} {
		bucket := s.NewBucket(t, true)
		v, err := s.Client().GetBucketVersioning(t.Context(), &s3.GetBucketVersioningInput{Bucket: &bucket})
		if err != nil || v.Status != "Enabled" {
			t.Errorf("%s: versioning of a new versioned bucket: %+v, %v", s.Name, v, err)
		}
	}
	d := set.DynamoDB(t)
	if _, err := d.Client().ListTables(t.Context(), &dynamodb.ListTablesInput{}); err != nil {
		t.Errorf("list the tables: %v", err)
	}
	set.Close()
	for _, endpoint := range []string{a.Endpoint, d.Endpoint} {
		if c, err := net.Dial("tcp", strings.TrimPrefix(endpoint, "http://")); err == nil {
			c.Close()
			t.Errorf("%s still answers after Close", endpoint)
		}
	}
	if _, err := set.StartDynamoDB(t.Context()); err != nil {
		t.Errorf("a server that was started before Close: %v", err)
	}
}

// A server does not outlive a process that was killed with -9, and neither does its
// data.
func TestServerEndsWithAKilledProcess(t *testing.T) {
	var set servers.Set
	set.VersityGW(t) // builds it where it may be skipped, and take its time
	set.Close()

	temp := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"=1", "TMPDIR="+temp)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	endpoint, ok := strings.CutPrefix(strings.TrimSpace(line), "http://")
	if !ok {
		t.Fatalf("the child says %q", line)
	}
	if c, err := net.Dial("tcp", endpoint); err != nil {
		t.Fatalf("the child's server does not answer: %v", err)
	} else {
		c.Close()
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed

	deadline := time.Now().Add(30 * time.Second)
	for {
		c, err := net.Dial("tcp", endpoint)
		left, _ := os.ReadDir(temp)
		if err != nil && len(left) == 0 {
			return
		}
		if err == nil {
			c.Close()
		}
		if time.Now().After(deadline) {
			t.Fatalf("30 s after the kill: dial %v, left behind %v", errors.Unwrap(err), left)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
