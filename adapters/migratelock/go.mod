module github.com/holdfast-go/holdfast/adapters/migratelock

go 1.25.0

require (
	github.com/golang-migrate/migrate/v4 v4.19.1
	github.com/holdfast-go/holdfast v0.1.0
)
