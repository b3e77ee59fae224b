package tusdlock_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	tusdstore "github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/holdfast-go/holdfast/adapters/tusdlock"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// One of several hosts of tusd. On real hosts, the store and the directory are shared.
func Example() {
	client, err := lease.New(memstore.New(), &lease.Options{
		TTL:    15 * time.Second,
		Tuning: lease.Tuning{RenewInterval: 2 * time.Second},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())

	composer := handler.NewStoreComposer()
	tusdstore.New(os.TempDir()).UseIn(composer)
	locker := tusdlock.New(client)
	locker.UseIn(composer)
	uploads, err := handler.NewHandler(handler.Config{BasePath: "/files/", StoreComposer: composer})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/files/", locker.Handler(http.StripPrefix("/files/", uploads))) // for an http.Server
	fmt.Println(composer.Capabilities())
	// Output: Core: ✓ Terminater: ✓ Locker: ✓ Concater: ✓ LengthDeferrer: ✓
}
