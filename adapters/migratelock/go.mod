module github.com/holdfast-go/holdfast/adapters/migratelock

go 1.25.0
