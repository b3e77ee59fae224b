package tusdlock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	tusdstore "github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"
	"github.com/tus/tusd/v2/pkg/memorylocker"

	"github.com/holdfast-go/holdfast/adapters/tusdlock"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// config says how a process of this test binary serves uploads.
type config struct {
	Dir      string // all hosts of a test share it
	TTL      time.Duration
	Presence bool // the store shows that a process is dead
	Faults   uint64
	Memory   bool // the control: tusd's own locker, which reaches one process
}

const configVariable = "TUSDLOCK_TEST_HOST"

func TestMain(m *testing.M) {
	if text := os.Getenv(configVariable); text != "" {
		if err := serve(text); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// serve is a host of tusd. It prints its address, and ends with its standard input. At the end it
// prints how many faults it had.
func serve(text string) error {
	var c config
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	composer := handler.NewStoreComposer()
	wrap := func(h http.Handler) http.Handler { return h }
	tusdstore.New(filepath.Join(c.Dir, "data")).UseIn(composer)
	if c.Memory {
		memorylocker.New().UseIn(composer)
	} else {
		locks, err := filestore.Open(filepath.Join(c.Dir, "locks"), nil)
		if err != nil {
			return err
		}
		var schedule faultstore.Schedule
		if c.Faults != 0 {
			schedule = faultstore.Random(c.Faults)
		}
		faults := faultstore.New(locks, schedule)
		defer func() { fmt.Println(len(faults.Injected().Rules)) }()
		client, err := lease.New(faults, &lease.Options{
			TTL:        c.TTL,
			NoPresence: !c.Presence,
			Tuning:     lease.Tuning{RenewInterval: 250 * time.Millisecond},
		})
		if err != nil {
			return err
		}
		defer client.Close(context.Background())
		locker := tusdlock.New(client)
		locker.UseIn(composer)
		wrap = locker.Handler
	}
	// tusd writes its log through package log if there is no Logger.
	log.SetOutput(io.Discard)
	uploads, err := handler.NewHandler(handler.Config{BasePath: "/files/", StoreComposer: composer})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: wrap(http.StripPrefix("/files/", uploads))}
	go server.Serve(listener)
	fmt.Println(listener.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
