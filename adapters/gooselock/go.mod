module github.com/holdfast-go/holdfast/adapters/gooselock

go 1.25.0

require (
	github.com/holdfast-go/holdfast v0.1.0
	github.com/holdfast-go/holdfast/store/sqlstore v0.1.0
	github.com/pressly/goose/v3 v3.27.0
)

require (
	github.com/holdfast-go/holdfast/internal/drivers v0.1.0 // indirect
	github.com/mfridman/interpolate v0.0.2 // indirect
	github.com/sethvargo/go-retry v0.3.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	golang.org/x/sync v0.19.0 // indirect
)
