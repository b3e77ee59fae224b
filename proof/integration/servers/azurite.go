package servers

import (
	"cmp"
	"context"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
)

// AzuriteVersion is the version of Azurite. The file azurite/package-lock.json pins it and the packages that it
// needs, with their hashes.
const AzuriteVersion = "3.37.0"

// The account of every Azurite server. Its key is published in the documentation of Azurite.
const (
	AzuriteAccount = "devstoreaccount1"
	AzuriteKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// Azurite is a server that speaks the protocol of Azure Blob Storage. It writes its data to the disk only
// every five seconds, so a kill loses acknowledged writes, and new containers.
type Azurite struct {
	*Restartable

	mu         sync.Mutex
	containers []string
}

// Start starts the server, and creates the containers again that a kill has lost.
func (a *Azurite) Start(ctx context.Context) error {
	if err := a.Restartable.Start(ctx); err != nil {
		return err
	}
	client, err := azuriteClient(a.Address())
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range a.containers {
		if _, err := client.CreateContainer(ctx, name, nil); err != nil && !bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
			return err
		}
	}
	return nil
}

// NewAzurite starts a server without data. When the test ends, it stops the server.
func NewAzurite(t testing.TB) *Azurite {
	t.Helper()
	return started(t, "Azurite", func(ctx context.Context) (*Azurite, error) { return StartAzurite(ctx, t.TempDir()) })
}

// StartAzurite is like NewAzurite, for programs that are not tests. The caller must kill the server. The server
// keeps its data in a directory. If dir is empty, the data ends with the server.
func StartAzurite(ctx context.Context, dir string) (*Azurite, error) {
	node, err := lookPath("node")
	if err != nil {
		return nil, err
	}
	installed, err := azuriteDir(ctx)
	if err != nil {
		return nil, err
	}
	a := &Azurite{Restartable: newRestartable("azurite", func(address string) (*exec.Cmd, error) {
		data := []string{"--location", dir}
		if dir == "" {
			data = []string{"--inMemoryPersistence"}
		}
		return exec.Command(node, append([]string{
			filepath.Join(installed, "node_modules/azurite/dist/src/blob/main.js"), "--blobHost", "127.0.0.1", "--blobPort", portOf(address),
			"--disableTelemetry", "--silent", "--skipApiVersionCheck",
		}, data...)...), nil
	}, func(ctx context.Context, address string) error {
		client, err := azuriteClient(address)
		if err == nil {
			_, err = client.GetProperties(ctx, nil)
		}
		return err
	})}
	return a, a.Start(ctx)
}

// azuriteDir returns the directory into which npm has installed Azurite.
func azuriteDir(ctx context.Context) (string, error) {
	return npmDir(ctx, "azurite", "azurite-"+AzuriteVersion, "Azurite "+AzuriteVersion+" from npm (once; 370 MB)")
}

func azuriteClient(address string) (*service.Client, error) {
	key, err := service.NewSharedKeyCredential(AzuriteAccount, AzuriteKey)
	if err != nil {
		return nil, err
	}
	return service.NewClientWithSharedKeyCredential("http://"+address+"/"+AzuriteAccount, key, nil)
}

// NewContainer creates an empty container with a unique name, and returns the name.
func (a *Azurite) NewContainer(t testing.TB) string {
	t.Helper()
	name := Unique("container")
	client, err := azuriteClient(a.Address())
	if err == nil {
		_, err = client.CreateContainer(t.Context(), name, nil)
	}
	if err != nil {
		t.Fatalf("create a container: %v", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.containers = append(a.containers, name)
	return name
}

// URL returns the URL of a container for the command and the stores. If the address is not empty, it replaces
// the address of the server.
func (a *Azurite) URL(container, address string) string {
	return "azblob://" + AzuriteAccount + "/" + container + "?endpoint=http://" + cmp.Or(address, a.Address())
}

// Env returns the environment variable with which programs use the server.
func (a *Azurite) Env() []string { return []string{"AZURE_STORAGE_KEY=" + AzuriteKey} }
